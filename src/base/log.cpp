#include "cairn/log.hpp"

#include <cstdio>
#include <mutex>
#include <string>

namespace cairn {
namespace {

std::mutex mutex;

void to_standard_error(LogLevel level, std::string_view message) {
  if (level == LogLevel::info) return;
  const std::string line = std::string(level == LogLevel::error ? "cairn: error: " : "cairn: ") +
                           std::string(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

LogSink& sink() {
  static LogSink instance = to_standard_error;
  return instance;
}

}  // namespace

void set_log_sink(LogSink replacement) {
  std::lock_guard lock(mutex);
  sink() = std::move(replacement);
}

void log(LogLevel level, std::string_view message) {
  std::lock_guard lock(mutex);
  if (sink()) sink()(level, message);
}

}  // namespace cairn
