#pragma once
/// Small text helpers. They write and read the same in every locale: the library's texts are
/// stored, and parsed by programs that may have another locale.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace cairn {

/// The number in hexadecimal, without leading zeros.
std::string hex(std::uint64_t number);

/// One argument of cat(). It is no template: each of those that cat() would make is compiled anew
/// in every file.
class CatPart {
 public:
  CatPart(std::string_view text) : kind_(Kind::text), text_(text) {}
  CatPart(const std::string& text) : CatPart(std::string_view(text)) {}
  CatPart(const char* text) : CatPart(std::string_view(text)) {}
  CatPart(char one) : kind_(Kind::character), character_(one) {}
  CatPart(const void* address) : kind_(Kind::address), address_(address) {}
  template <class T>
  requires std::is_arithmetic_v<T> CatPart(T number) {
    static_assert(sizeof(T) > 1 || std::same_as<T, bool>, "no number and no text");
    if constexpr (std::floating_point<T>) {
      kind_ = Kind::fraction, fraction_ = number;
    } else if constexpr (std::is_signed_v<T>) {
      kind_ = Kind::negative, negative_ = number;
    } else {
      kind_ = Kind::whole, whole_ = number;
    }
  }
  void append_to(std::string& text) const;

 private:
  enum class Kind { text, character, address, fraction, negative, whole } kind_;
  union {
    std::string_view text_;
    char character_;
    const void* address_;
    double fraction_;
    long long negative_;
    unsigned long long whole_;
  };
};

std::string cat_parts(std::initializer_list<CatPart> parts);

/// Joins texts, characters, numbers and addresses to one text. Numbers read as `<<` writes them in
/// the classic locale: fractions with six significant digits, true as 1.
template <class... Args>
std::string cat(const Args&... args) {
  return cat_parts({CatPart(args)...});
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
