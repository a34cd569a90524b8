#include "cli/plain_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <streambuf>

#include "base/text.hpp"
#include "cairn/log.hpp"

namespace cairn::cli {
namespace {

// The length of "ESC [ 1 ; 2 m" at the beginning; 0: it is something else.
std::size_t colour_at(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

void spell(std::string& out, char c) {
  constexpr char digits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  (out += "\\x") += {digits[byte >> 4], digits[byte & 15]};
}

// U+0080 to U+009F, which have an ESC in them.
bool is_long_control(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
}

}  // namespace

std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    auto length = colour_at(text);
    if (length == 0 && is_long_control(text)) {
      length = 2;
      spell(out, text[0]);
      spell(out, text[1]);
    } else if (length == 0 && (byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t'))) {
      length = 1;
      spell(out, text[0]);
    } else {
      length = std::max<std::size_t>(length, 1);
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

class PlainOutput::Filter : public std::streambuf {
 public:
  explicit Filter(std::ostream& stream) : stream_(stream), target_(stream.rdbuf(this)) {}
  ~Filter() override {
    hand_on();
    stream_.rdbuf(target_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    held_ += traits_type::to_char_type(c);
    return may_hold() || hand_on() ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    held_.append(text, static_cast<std::size_t>(size));
    return may_hold() || hand_on() ? size : 0;
  }
  int sync() override { return hand_on() ? target_->pubsync() : -1; }

 private:
  // Up to the end of a line, so that no change of colour is cut.
  bool may_hold() const {
    return held_.size() < 4096 || (held_.back() != '\n' && held_.size() < 1 << 20);
  }
  bool hand_on() {
    const auto text = plain(held_);
    held_.clear();
    const auto size = static_cast<std::streamsize>(text.size());
    return target_->sputn(text.data(), size) == size;
  }

  std::ostream& stream_;
  std::streambuf* target_;
  std::string held_;
};

PlainOutput::PlainOutput() {
  if (::isatty(1) == 1) filter_ = std::make_unique<Filter>(std::cout);
  if (::isatty(2) != 1) return;
  set_log_sink([](LogLevel level, std::string_view message) {
    if (level == LogLevel::info) return;
    const auto line =
        cat(level == LogLevel::error ? "cairn: error: " : "cairn: ", plain(message), "\n");
    std::fputs(line.c_str(), stderr);
  });
}

PlainOutput::~PlainOutput() = default;

}  // namespace cairn::cli
