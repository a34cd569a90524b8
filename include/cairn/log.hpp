#pragma once
/// Where the library's few messages go, and what is done before it ends a job. Rank 0 speaks; other
/// ranks only on errors of their own.
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

/// What the application wants to do before the library ends the job (MPI_Abort, or the end of the
/// process): tell its own log, say. It must return, and must make no collective call, since other
/// ranks know nothing of this. The job ends because a message between ranks failed, or because a
/// rank has waited for too long (cairn/waiting.hpp); then it is called from a thread of the library
/// and may not use MPI.
using FatalHandler = std::function<void(std::string_view message)>;

/// Replaces the handler of this process (default: none). What it throws is ignored. Thread-safe.
void set_fatal_handler(FatalHandler handler);

/// What the library does just before it ends a job, and implementations of Group::abort before they
/// do: sends the message to the log as an error, then calls the handler; with neither, it goes to
/// standard error, since no job should end without a word. Thread-safe; returns.
void tell_fatal(std::string_view message);

}  // namespace cairn
