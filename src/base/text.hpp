#pragma once
/// Small text helpers. They write and read the same in every locale: the library's texts are
/// stored, and parsed by programs that may have another locale.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace cairn {

/// The number in hexadecimal, without leading zeros.
std::string hex(std::uint64_t number);

/// Appends what `<<` would write in the classic locale: a floating-point number with six
/// significant digits.
template <class T>
void append_to(std::string& text, const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    text += std::string_view(value);
  } else if constexpr (std::same_as<T, char>) {
    text += value;
  } else if constexpr (std::is_pointer_v<T>) {
    text += "0x" + hex(reinterpret_cast<std::uintptr_t>(value));
  } else {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) > 1 || std::same_as<T, bool>),
                  "no number and no text");
    char digits[32];
    char* end = nullptr;
    if constexpr (std::floating_point<T>) {
      end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 6).ptr;
    } else {
      end = std::to_chars(digits, digits + sizeof digits, value + 0).ptr;
    }
    text.append(digits, end);
  }
}

/// Joins the arguments to one text.
template <class... Args>
std::string cat(const Args&... args) {
  std::string text;
  (append_to(text, args), ...);
  return text;
}

/// Reads a whole text as a number, without space around it. If it is no number of this type,
/// returns false and leaves the value as it was.
template <class T>
requires std::is_arithmetic_v<T>
bool parse_number(std::string_view text, T& value) {
  if constexpr (std::same_as<T, bool>) {
    if (text != "0" && text != "1") return false;
    value = text == "1";
  } else {
    T read{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), read);
    if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return false;
    value = read;
  }
  return true;
}

/// The number with this many digits after the point: fixed_text(2, 3) is "2.000".
std::string fixed_text(double value, int digits);

/// "1.50 GiB", "12 B"
std::string bytes_text(double bytes);

bool is_utf8(std::string_view text);

/// The first character of a text that is not empty. `shown` is false for a control character (also
/// of C1), for one that ends a line or changes the direction of the text, and for a byte that is
/// not UTF-8.
struct FirstCharacter {
  std::size_t bytes;
  bool shown;
};
FirstCharacter first_character(std::string_view text);
/// The text on one line; characters that are not shown are written as \x1b and the like. `lines`:
/// the text may have several lines.
std::string printable(std::string_view text, bool lines = false);

/// Whether the text, read from a file, is the name of a file in the same folder, and names nothing
/// elsewhere.
bool is_name_of_neighbour(std::string_view text);

}  // namespace cairn
