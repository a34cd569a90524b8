#include "cairn/attributes.hpp"

#include <array>
#include <charconv>
#include <cstdio>

#include "base/text.hpp"

namespace cairn {
namespace {

std::string text_of(std::int64_t value) { return cat(value); }
std::string text_of(std::uint64_t value) { return cat(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const Json& value) { return value.text; }

// The shortest text that reads back as the same bits, and not as an integer.
std::string text_of(double value) {
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_not_of("-0123456789") == text.npos) text += ".0";
  return text;
}

// A JSON string: quotes, backslashes and control characters are escaped.
std::string text_of(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      text += escape.data();
    } else {
      text += c;
    }
  }
  return text + '"';
}

// A JSON array of the elements.
template <class T>
Json list_of(const std::vector<T>& list) {
  std::string text = "[";
  for (const auto& one : list) {
    if (text.size() > 1) text += ',';
    text += text_of(one);
  }
  return {text + ']'};
}

}  // namespace

Attribute::Attribute(const std::vector<double>& list) : value_(list_of(list)) {}
Attribute::Attribute(const std::vector<std::int64_t>& list) : value_(list_of(list)) {}
Attribute::Attribute(const std::vector<std::string>& list) : value_(list_of(list)) {}

std::string Attribute::json() const {
  return std::visit([](const auto& value) { return text_of(value); }, value_);
}

}  // namespace cairn
