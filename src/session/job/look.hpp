#pragma once
/// A state while a save or restore runs.
#include <optional>

#include "cairn/state.hpp"
#include "group/collectives.hpp"

namespace cairn {

/// Reads what the state was given by reference, and gives it up when it is destroyed. Local: an
/// error is kept until ranks meet.
class Look {
 public:
  explicit Look(const State& state) : state(state) {
    kept_.guard([&] { state.look(); });
  }
  /// Of a state to be restored, which may be made of what is stored.
  Look(State& state, const CheckpointContents& contents) : state(state) {
    kept_.guard([&] {
      state.make(contents);
      state.look();
    });
  }
  ~Look() { state.let_go(); }
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;

  const std::optional<Error>& error() const { return kept_.first(); }

  const State& state;

 private:
  KeptError kept_;
};

}  // namespace cairn
