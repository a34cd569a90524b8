#include "cli/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"

namespace cairn::cli {

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)) {
  const char* terminal = std::getenv("TERM");
  wanted_ = ::isatty(2) && terminal && std::string_view(terminal) != "dumb";
  next_ = start_ + std::chrono::milliseconds(500);
}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  if (!wanted_ || total <= 0) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr int cells = 30;
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto full = static_cast<std::size_t>(part * cells);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto text =
      cat("\r\033[K", label_, " [", std::string(full, '#'), std::string(cells - full, '.'), "] ",
          static_cast<int>(part * 100), "%  ", bytes_text(static_cast<double>(done)), " of ",
          bytes_text(static_cast<double>(total)), ", ",
          bytes_text(static_cast<double>(done) / seconds), "/s");
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

Progress ProgressBar::callback() {
  return [this](std::int64_t done, std::int64_t total) { update(done, total); };
}

}  // namespace cairn::cli
