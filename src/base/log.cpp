#include "cairn/log.hpp"

#include <cstdio>
#include <string>

#include "base/mutex.hpp"
#include "base/shows_info.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

// Guards the sink and the handler, which any thread may replace or call.
Mutex mutex;

// The sink unless the application sets another one.
void to_standard_error(LogLevel level, std::string_view message) {
  if (level == LogLevel::info && !shows_info()) return;
  const std::string line = std::string(level == LogLevel::error ? "cairn: error: " : "cairn: ") +
                           std::string(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

// Made at the first use: static objects of other files may log before those of this file are made.
LogSink& sink() CAIRN_REQUIRES(mutex) {
  static LogSink instance = to_standard_error;
  return instance;
}

FatalHandler& fatal_handler() CAIRN_REQUIRES(mutex) {
  static FatalHandler instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink replacement) {
  const MutexLock lock(mutex);
  sink() = std::move(replacement);
}

void log(LogLevel level, std::string_view message) {
  // The sink is called without the lock, so that it may log or replace itself. Its exceptions are
  // dropped: a message must not make one rank take another path than the others.
  const auto current = [] {
    const MutexLock lock(mutex);
    return sink();
  }();
  try {
    if (current) current(level, printable(message));
  } catch (...) {
  }
}

void set_fatal_handler(FatalHandler replacement) {
  const MutexLock lock(mutex);
  fatal_handler() = std::move(replacement);
}

void tell_fatal(std::string_view message) {
  bool silent = false;
  const auto current = [&] {
    const MutexLock lock(mutex);
    silent = !sink() && !fatal_handler();
    return fatal_handler();
  }();
  if (silent) to_standard_error(LogLevel::error, message);  // a job must not end without a message
  log(LogLevel::error, message);
  try {
    if (current) current(message);
  } catch (...) {  // the job ends all the same
  }
}

}  // namespace cairn
