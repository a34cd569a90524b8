#include "cli/plain_output.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <streambuf>

#include "base/shows_info.hpp"
#include "base/text.hpp"
#include "cairn/log.hpp"

namespace cairn::cli {
namespace {

// The length of a colour code such as "ESC [ 1 ; 2 m" at the beginning; 0 if there is none.
std::size_t colour_at(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto colour = colour_at(text);
    const bool stays = colour > 0 || text[0] == '\n' || text[0] == '\t';
    const auto next = text.substr(0, colour > 0 ? colour : first_character(text).bytes);
    out += stays ? std::string(next) : printable(next);
    text.remove_prefix(next.size());
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
  // Text is held back until the end of a line, so that no colour code is cut in two.
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
    if (level == LogLevel::info && !shows_info()) return;
    const auto line =
        cat(level == LogLevel::error ? "cairn: error: " : "cairn: ", plain(message), "\n");
    std::fputs(line.c_str(), stderr);
  });
}

PlainOutput::~PlainOutput() = default;

}  // namespace cairn::cli
