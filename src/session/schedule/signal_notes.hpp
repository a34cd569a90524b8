#pragma once
/// Signal handlers that take a note, shared by all that want to know of a signal.
#include <csignal>
#include <cstdint>

namespace cairn {

/// As long as one lives for a signal, notes are taken of it. The handler that was there before is
/// called after that, and is put back with the last one, unless somebody has installed another
/// meanwhile: then ours stays, for that one may call it. Where nobody wants to know any more, and
/// in forked children that have made none, the default action is taken if that is what was there
/// before.
class SignalNotes {
 public:
  /// Throws invalid_argument for what is no signal that can be caught.
  explicit SignalNotes(int signal);
  ~SignalNotes();
  SignalNotes(SignalNotes&& other) noexcept;
  SignalNotes& operator=(SignalNotes&&) = delete;

  /// How often it came since this was made. Any thread.
  std::uint32_t count() const noexcept;
  int signal() const { return signal_; }

 private:
  int signal_;
  int process_;  // that made it; a forked child has copies, which do not count
  std::uint32_t first_;
};

}  // namespace cairn
