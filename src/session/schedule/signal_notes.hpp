#pragma once
/// Signal handlers that count signals, shared by all who want to know of one.
#include <csignal>
#include <cstdint>

namespace cairn {

/// While an object for a signal exists, the signal is counted. After that, the handler calls the
/// one that was installed before it. When the last object is destroyed, the previous handler is
/// restored, unless somebody has installed another one meanwhile: that one may call ours, so ours
/// stays. In that case, and in forked children that have made no object, the default action is
/// taken if that is what was there before.
class SignalNotes {
 public:
  /// Throws invalid_argument if `signal` is not a signal that can be caught.
  explicit SignalNotes(int signal);
  ~SignalNotes();
  SignalNotes(SignalNotes&& other) noexcept;
  SignalNotes& operator=(SignalNotes&&) = delete;

  /// How often the signal came since this was made. Any thread.
  std::uint32_t count() const noexcept;
  int signal() const { return signal_; }

 private:
  int signal_;
  int process_;  // that made it; a forked child's copies do not count
  std::uint32_t first_;
};

}  // namespace cairn
