#pragma once
/// Small text helpers. What they write and read is the same in every locale: texts of ours are
/// stored, and parsed by programs that may have another one.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace cairn {

/// In hexadecimal digits, as many as it takes.
std::string hex(std::uint64_t number);

/// What `<<` would write in the classic locale; six digits of a number that is no integer.
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

/// The arguments, one after another.
template <class... Args>
std::string cat(const Args&... args) {
  std::string text;
  (append_to(text, args), ...);
  return text;
}

/// Reads all of a text as a number, without space around it. False: it is none of this type, and
/// the value is what it was.
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

/// With so many digits behind the point: fixed_text(2, 3) is "2.000".
std::string fixed_text(double value, int digits);

/// "1.50 GiB", "12 B"
std::string bytes_text(double bytes);

bool is_utf8(std::string_view text);

/// The first character of a text that is not empty. People are not shown as it is a control
/// character, of C1 too, one that ends a line or turns the direction of what follows, and a byte
/// that is no UTF-8.
struct FirstCharacter {
  std::size_t bytes;
  bool shown;
};
FirstCharacter first_character(std::string_view text);
/// The text on one line, what is not shown spelled out (\x1b). `lines`: it may have several.
std::string printable(std::string_view text, bool lines = false);

/// Whether a text that a file holds names a file beside it, and nothing elsewhere.
bool is_name_of_neighbour(std::string_view text);

}  // namespace cairn
