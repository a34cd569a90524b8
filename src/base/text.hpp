#pragma once
/// Small text helpers.
#include <concepts>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace cairn {

/// What `<<` would write, without a stream where none is needed: a stream costs more than the text.
template <class T>
void append_to(std::string& text, const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    text += std::string_view(value);
  } else if constexpr (std::same_as<T, char>) {
    text += value;
  } else if constexpr (std::integral<T> && sizeof(T) >= sizeof(int)) {
    text += std::to_string(value);
  } else {
    static_assert(!std::is_function_v<T>, "a manipulator would change nothing that follows");
    std::ostringstream out;
    out << value;
    text += std::move(out).str();
  }
}

/// The arguments, as `<<` writes them, one after another.
template <class... Args>
std::string cat(const Args&... args) {
  std::string text;
  (append_to(text, args), ...);
  return text;
}

/// In hexadecimal digits, as many as it takes.
std::string hex(std::uint64_t number);

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
