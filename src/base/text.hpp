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

/// Whether a text that a file holds names a file beside it, and nothing elsewhere.
bool is_name_of_neighbour(std::string_view text);

}  // namespace cairn
