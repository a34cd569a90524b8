// The trace's format is the Trace Event Format: "M" names processes and threads, "X" is a stage.
#include "session/save/trace.hpp"

#include "base/text.hpp"

namespace cairn {

Trace::Trace(int rank) : rank_(rank) { events_.reserve(1 << 12); }

void Trace::add(const char* name, std::int64_t step, Thread thread, Time begin, Time end) {
  const MutexLock guard(mutex_);
  events_.push_back({name, step, thread, begin, end});
}

std::string Trace::json() const {
  const MutexLock guard(mutex_);
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::string text = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const auto line = [&](const char* what, int thread, const std::string& name) {
    text += cat(R"({"ph":"M","name":")", what, R"(","pid":)", rank_, R"(,"tid":)", thread,
                R"(,"args":{"name":")", name, "\"}}");
  };
  line("process_name", 0, cat("rank ", rank_));
  text += ",\n";
  line("thread_name", 0, "caller");
  text += ",\n";
  line("thread_name", 1, "writer");
  for (const auto& event : events_) {
    // The steady clock tells the durations; the wall clock, read once, tells when it all began.
    const Microseconds at = wall_.time_since_epoch() + Microseconds(event.begin - steady_);
    text +=
        cat(",\n", R"({"ph":"X","name":")", event.name, R"(","cat":"save","pid":)", rank_,
            R"(,"tid":)", static_cast<int>(event.thread), R"(,"ts":)", fixed_text(at.count(), 3),
            R"(,"dur":)", fixed_text(Microseconds(event.end - event.begin).count(), 3),
            R"(,"args":{"step":)", event.step, "}}");
  }
  return text + "]}\n";
}

io::Path trace_file(const io::Path& path, int rank) {
  return cat(path.string(), '.', rank, ".json");
}

}  // namespace cairn
