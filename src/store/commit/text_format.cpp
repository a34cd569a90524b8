#include "store/commit/text_format.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/text.hpp"

namespace cairn::commit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// What Python's regular expressions mean by \s, of ASCII.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }
bool is_quote(char c) { return c == '"' || c == '\''; }

template <class Test>
std::size_t length_while(std::string_view text, std::size_t from, Test test) {
  while (from < text.size() && test(text[from])) ++from;
  return from;
}

// The length of the literal with its closing quote. If it has none, 1: its first quote alone, which
// append_literal() refuses.
std::size_t string_length(std::string_view text) {
  for (std::size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == text[0]) return i + 1;
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
  }
  return 1;
}

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;  // 99: of no base
}

// Takes digits of this base off the front, at least `least` and at most `most`.
std::optional<std::uint32_t> take_digits(std::string_view& text, int base, std::size_t least,
                                         std::size_t most) {
  std::uint32_t value = 0;
  std::size_t count = 0;
  for (; count < most && count < text.size() && digit_of(text[count]) < base; ++count) {
    value = value * static_cast<std::uint32_t>(base) +
            static_cast<std::uint32_t>(digit_of(text[count]));
  }
  if (count < least) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      add(0xe0 | point >> 12);
    } else {
      add(0xf0 | point >> 18);
      add(0x80 | (point >> 12 & 0x3f));
    }
    add(0x80 | (point >> 6 & 0x3f));
  }
  add(0x80 | (point & 0x3f));
}

// One escape, after its backslash. False if it means nothing.
bool unescape(std::string_view& text, std::string& result) {
  static constexpr std::string_view letters = "abfnrtv\\'\"", values = "\a\b\f\n\r\t\v\\'\"";
  const char c = text.front();
  if (const auto at = letters.find(c); at != std::string_view::npos) {
    result += values[at];
    text.remove_prefix(1);
    return true;
  }
  if (const auto octal = take_digits(text, 8, 1, 3)) {
    result += static_cast<char>(*octal);
    return *octal < 0x100;
  }
  text.remove_prefix(1);
  if (c == 'x') {
    const auto value = take_digits(text, 16, 1, 2);
    if (value) result += static_cast<char>(*value);
    return value.has_value();
  }
  if (c == 'u' || c == 'U') {
    const std::size_t digits = c == 'u' ? 4 : 8;
    const auto point = take_digits(text, 16, digits, digits);
    if (!point || *point > 0x10ffff) return false;
    append_utf8(result, *point);
    return true;
  }
  if (c == 'N') return false;
  result += '\\';  // others stand for themselves
  result += c;
  return true;
}

bool append_literal(std::string_view token, std::string& result) {
  if (token.size() < 2 || token.back() != token.front()) return false;
  token = token.substr(1, token.size() - 2);
  while (!token.empty()) {
    const char c = token.front();
    token.remove_prefix(1);
    if (c != '\\') {
      result += c;
    } else if (token.empty() || !unescape(token, result)) {
      return false;
    }
  }
  return true;
}

// As Python reads one: digits may be grouped by single underscores.
bool drop_underscores(std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return false;
    }
  }
  std::erase(text, '_');
  return true;
}

bool is_of_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '+' || c == '-'; }

bool begins_number(std::string_view text) {
  const char c = text.front();
  return is_digit(c) || c == '+' || c == '-' || (c == '.' && text.size() > 1 && is_digit(text[1]));
}

// A character that begins no longer token is a token by itself.
std::size_t token_length(std::string_view text) {
  if (text.empty()) return 0;
  const char c = text.front();
  if (is_letter(c) || c == '_') return length_while(text, 1, is_of_word);
  if (begins_number(text)) {
    return length_while(text, 1, [](char d) { return is_of_word(d) || d == '.'; });
  }
  return is_quote(c) ? string_length(text) : 1;
}

// To the end; what is too large or too small for a double is infinite or 0.
bool parse_decimal(const std::string& text, double& value) {
  if (text.empty() || !(is_digit(text[0]) || text[0] == '.')) return false;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return false;
  if (result.ec == std::errc::result_out_of_range) {
    value = text.find("e-") == std::string::npos ? std::numeric_limits<double>::infinity() : 0.0;
  }
  return true;
}

// "01" would be octal in C.
bool is_octal(std::string_view text) {
  if (text.starts_with("-")) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

}  // namespace

void TextFormat::skip_space_and_comments() {
  for (;;) {
    rest_.remove_prefix(length_while(rest_, 0, is_space));
    if (rest_.empty() || rest_.front() != '#') return;
    rest_.remove_prefix(length_while(rest_, 0, [](char c) { return c != '\n'; }));
  }
}

void TextFormat::next() {
  skip_space_and_comments();
  const auto length = token_length(rest_);
  token_ = rest_.substr(0, length);
  rest_.remove_prefix(length);
}

std::string TextFormat::take_token() {
  std::string token(token_);
  next();
  return token;
}

bool TextFormat::take(std::string_view token) {
  if (token_ != token) return false;
  next();
  return true;
}

bool TextFormat::take_string(std::string& value) {
  value.clear();
  if (at_end() || !is_quote(token_.front())) return false;
  while (!at_end() && is_quote(token_.front())) {
    if (!append_literal(token_, value)) return false;
    next();
  }
  return is_utf8(value);
}

// As protobuf's parser in Python reads a float: case does not matter, an "f" may follow, digits may
// be grouped, and octal numbers are refused.
bool TextFormat::take_double(double& value) {
  std::string text(token_);
  next();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return is_letter(c) ? static_cast<char>(c | 0x20) : c; });
  if (is_octal(text)) return false;
  static constexpr std::string_view infinities[]{"inf", "+inf", "-inf", "inff", "-inff"};
  const bool infinite = std::count(std::begin(infinities), std::end(infinities), text) > 0;
  while (!text.empty() && text.back() == 'f') text.pop_back();  // "1.5f"
  if (!drop_underscores(text)) return false;
  const bool negative = text.starts_with("-");
  if (negative || text.starts_with("+")) text.erase(0, 1);
  if (infinite || text == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (!parse_decimal(text, value)) {
    return false;
  }
  if (negative) value = -value;
  return true;
}

}  // namespace cairn::commit
