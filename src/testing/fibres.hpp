#pragma once
/// Runs many calls of one function that take turns on the calling thread, each on its own stack.
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace cairn {

/// For one thread. Stacks are mapped, and take memory as far as they are used. All fibres share the
/// thread's local variables, except for exceptions in flight.
class Fibres {
 public:
  struct Hooks {
    /// Of the fibres that can go on, the one with the lowest clock goes on; of equal ones the one
    /// that has waited longest. Called when a fibre becomes ready.
    std::function<double(int)> clock;
    std::function<void(int)> entered;  ///< called before a fibre goes on
    std::function<void()> stuck;  ///< called if no fibre can go on: must wake some, which then end
  };

  Fibres(int count, Hooks hooks);
  ~Fibres();
  Fibres(const Fibres&) = delete;
  Fibres& operator=(const Fibres&) = delete;

  /// Returns when all calls have returned. The body throws nothing.
  void run(std::function<void(int)> body);

  /// Called inside a fibre: returns after wake().
  void block();
  /// Called inside a fibre: lets fibres with a lower clock go first.
  void pass();
  /// Does nothing if the fibre is not blocked. Called anywhere on the thread of run().
  void wake(int fibre);

  int count() const { return static_cast<int>(fibres_.size()); }

 private:
  class Stack;
  struct Fibre;
  struct Ready {
    double clock;
    std::uint64_t number;
    int fibre;
    bool operator<(const Ready& other) const {  // the least is on top
      return clock != other.clock ? clock > other.clock : number > other.number;
    }
  };
  /// State of the C++ runtime: the exceptions that are being handled, and how many are in flight.
  struct Exceptions {
    void* caught;
    unsigned int has_pending;
  };

  static void begin(unsigned high, unsigned low);
  void make_ready(int fibre);
  void enter(int fibre);
  void leave(bool for_good);

  Hooks hooks_;
  std::function<void(int)> body_;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::priority_queue<Ready> ready_;
  std::uint64_t numbers_ = 0;
  int current_ = -1;
  ucontext_t caller_ = {};
  Exceptions callers_exceptions_ = {};
  // Used in builds with sanitizers only.
  [[maybe_unused]] void* callers_sanitizer_ = nullptr;
  [[maybe_unused]] const void* callers_stack_ = nullptr;
  [[maybe_unused]] std::size_t callers_stack_bytes_ = 0;
};

}  // namespace cairn
