#include "base/text.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace cairn {

std::string fixed_text(double value, int digits) {
  // The largest number, its sign, and a point before the digits.
  std::string text(
      std::numeric_limits<double>::max_exponent10 + 3 + static_cast<std::size_t>(digits), '\0');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, digits);
  text.resize(static_cast<std::size_t>(end.ptr - text.data()));
  return text;
}

std::string hex(std::uint64_t number) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return {digits.data(), end.ptr};
}

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 6) bytes /= 1024, ++unit;
  return cat(fixed_text(bytes, unit == 0 ? 0 : 2), ' ', units[unit]);
}

bool is_utf8(std::string_view text) {
  // RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i <= static_cast<std::size_t>(more))
      return false;
    std::uint32_t point = lead & (0x3f >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3f);
    }
    if (more == 2 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) return false;
    if (more == 3 && (point < 0x10000 || point > 0x10ffff)) return false;
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

bool is_name_of_neighbour(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == text.npos &&
         text.find('\0') == text.npos;
}

}  // namespace cairn
