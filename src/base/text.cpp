#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace cairn {

namespace {
template <class T, class... Format>
void append_number(std::string& text, T number, Format... format) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, format...);
  text.append(digits, end.ptr);
}
}  // namespace

void CatPart::append_to(std::string& text) const {
  switch (kind_) {
    case Kind::text:
      text += text_;
      break;
    case Kind::character:
      text += character_;
      break;
    case Kind::address:
      text += "0x" + hex(reinterpret_cast<std::uintptr_t>(address_));
      break;
    case Kind::fraction:
      append_number(text, fraction_, std::chars_format::general, 6);
      break;
    case Kind::negative:
      append_number(text, negative_);
      break;
    case Kind::whole:
      append_number(text, whole_);
      break;
  }
}

std::string cat_parts(std::initializer_list<CatPart> parts) {
  std::string text;
  for (const auto& part : parts) part.append_to(text);
  return text;
}

std::string fixed_text(double value, int digits) {
  // Room for the digits of the largest number, its sign, and a point before the decimals.
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

namespace {

// The character at the beginning of a text. 0 bytes: the text does not begin with UTF-8.
struct Decoded {
  std::uint32_t point = 0;
  std::size_t bytes = 0;
};

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || text.size() <= more) return {};
  std::uint32_t point = lead & (0x3fu >> more);
  for (std::size_t k = 1; k <= more; ++k) {
    const auto next = static_cast<unsigned char>(text[k]);
    if ((next & 0xc0) != 0x80) return {};
    point = point << 6 | (next & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};  // by bytes after the first
  if (point < least[more] || point > 0x10ffff || (point & ~0x7ffu) == 0xd800) return {};
  return {point, more + 1};
}

// Not shown: control characters; marks and overrides of direction, and their ends; separators of
// lines and paragraphs.
bool is_shown(std::uint32_t point) {
  const auto among = [&](std::uint32_t first, std::uint32_t last) {
    return first <= point && point <= last;
  };
  return !(point < 0x20 || among(0x7f, 0x9f) || point == 0x61c || among(0x200e, 0x200f) ||
           among(0x2028, 0x202e) || among(0x2066, 0x2069));
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto bytes = decode(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

FirstCharacter first_character(std::string_view text) {
  const auto [point, bytes] = decode(text);
  return {std::max<std::size_t>(bytes, 1), bytes > 0 && is_shown(point)};
}

// Texts in errors and logs may hold names that anybody chose, with which a terminal could be
// misled.
std::string printable(std::string_view text, bool lines) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [bytes, shown] = first_character(text);
    if (shown || (lines && text[0] == '\n')) {
      out += text.substr(0, bytes);
    } else {
      for (const char c : text.substr(0, bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        (out += "\\x") += {digits[byte >> 4], digits[byte & 15]};
      }
    }
    text.remove_prefix(bytes);
  }
  return out;
}

bool is_name_of_neighbour(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == text.npos &&
         text.find('\0') == text.npos;
}

}  // namespace cairn
