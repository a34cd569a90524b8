#pragma once
/// Where the library's few messages go. Rank 0 speaks; other ranks only on errors of their own.
#include <functional>
#include <string_view>

namespace cairn {

enum class LogLevel { info, warning, error };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Replaces the sink of this process (default: one line on standard error; info is dropped).
/// An empty sink silences the library. What a sink throws is ignored. Thread-safe; the sink itself
/// may be called from several threads at once.
void set_log_sink(LogSink sink);

/// Sends one message, without trailing newline, to the sink. Thread-safe.
void log(LogLevel level, std::string_view message);

}  // namespace cairn
