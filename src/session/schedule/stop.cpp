// StopRequest and StopReason: what can stop a job, and how programs are told. Only atomics change
// after construction, so that a signal handler may call request() and note_signal().
#include "cairn/stop.hpp"

#include <atomic>
#include <cmath>
#include <ctime>
#include <iterator>
#include <limits>

#include "base/text.hpp"
#include "base/utc.hpp"
#include "cairn/error.hpp"
#include "session/schedule/signal_notes.hpp"
#include "session/schedule/signal_text.hpp"

namespace cairn {
namespace {

std::string seconds_text(double seconds) {
  return cat(static_cast<std::int64_t>(std::llround(seconds)), " s");
}

void require_usable(const StopOptions& options) {
  for (const double number : {options.reask_seconds, options.tool_seconds, options.margin_seconds,
                              options.look_seconds, options.end_seconds.value_or(0)}) {
    if (number >= 0) continue;
    throw Error(Code::invalid_argument, "a number in StopOptions is negative, or none at all", "",
                "They are seconds, from 0 on.");
  }
  const auto& file = options.file;
  if (file.find('/') == std::string::npos && file != "." && file != "..") return;
  throw Error(Code::invalid_argument, cat("StopOptions::file is '", file, "'"),
              "it lies in the checkpoint directory itself", "Give a name without slashes.");
}

}  // namespace

std::string StopReason::text() const {
  switch (kind) {
    case StopKind::time_limit: {
      const auto left = left_seconds < 0 ? cat("over since ", seconds_text(-left_seconds))
                                         : cat(seconds_text(left_seconds), " left");
      const auto save = save_seconds < 0 ? "no save was measured"
                                         : cat("a save takes ", seconds_text(save_seconds));
      return cat("time limit ", utc_text(end_seconds), ": ", left, ", ", save);
    }
    case StopKind::signal:
      return cat(signal_text(signal), " on rank ", rank);
    case StopKind::file:
      return cat("file ", file);
    case StopKind::application:
      break;
  }
  return cat("application, on rank ", rank);
}

int StopReason::exit_code() const {
  return kind == StopKind::signal || kind == StopKind::time_limit ? exit_to_go_on : exit_on_request;
}

struct StopRequest::Impl {
  explicit Impl(StopOptions given) : options(std::move(given)) {
    require_usable(options);
    for (const int signal : options.signals) notes.emplace_back(signal);
  }

  StopOptions options;
  std::vector<SignalNotes> notes;
  std::atomic<bool> requested = false;
  std::atomic<int> noted = 0;
};
static_assert(std::atomic<int>::is_always_lock_free);

StopRequest::StopRequest(StopOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StopRequest::~StopRequest() = default;

void StopRequest::request() noexcept { impl_->requested = true; }
void StopRequest::note_signal(int signal) noexcept {
  // 0: none. Of several signals the lowest counts.
  int lowest = impl_->noted;
  while (lowest == 0 || signal < lowest) {
    if (impl_->noted.compare_exchange_weak(lowest, signal)) return;
  }
}

bool StopRequest::requested() const noexcept { return impl_->requested; }

int StopRequest::signal() const noexcept {
  int lowest = impl_->noted;
  for (const auto& notes : impl_->notes) {
    if (notes.count() > 0 && (lowest == 0 || notes.signal() < lowest)) lowest = notes.signal();
  }
  return lowest;
}

const StopOptions& StopRequest::options() const noexcept { return impl_->options; }

}  // namespace cairn
