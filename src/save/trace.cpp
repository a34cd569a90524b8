#include "save/trace.hpp"

#include <sstream>

#include "base/text.hpp"

namespace cairn {

Trace::Trace(int rank) : rank_(rank) { events_.reserve(1 << 12); }

void Trace::add(const char* name, std::int64_t step, Thread thread, Time begin, Time end) {
  const std::lock_guard guard(mutex_);
  events_.push_back({name, step, thread, begin, end});
}

std::string Trace::json() const {
  const std::lock_guard guard(mutex_);
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::ostringstream out;
  out.precision(3);
  out << std::fixed << R"({"displayTimeUnit":"ms","traceEvents":[)";
  const auto line = [&](const char* what, int thread, const std::string& name) {
    out << R"({"ph":"M","name":")" << what << R"(","pid":)" << rank_ << R"(,"tid":)" << thread
        << R"(,"args":{"name":")" << name << "\"}}";
  };
  line("process_name", 0, cat("rank ", rank_));
  out << ",\n";
  line("thread_name", 0, "caller");
  out << ",\n";
  line("thread_name", 1, "writer");
  for (const auto& event : events_) {
    const Microseconds at = wall_.time_since_epoch() + Microseconds(event.begin - steady_);
    out << ",\n"
        << R"({"ph":"X","name":")" << event.name << R"(","cat":"save","pid":)" << rank_
        << R"(,"tid":)" << static_cast<int>(event.thread) << R"(,"ts":)" << at.count()
        << R"(,"dur":)" << Microseconds(event.end - event.begin).count() << R"(,"args":{"step":)"
        << event.step << "}}";
  }
  out << "]}\n";
  return std::move(out).str();
}

io::Path trace_file(const io::Path& path, int rank) {
  return cat(path.string(), '.', rank, ".json");
}

}  // namespace cairn
