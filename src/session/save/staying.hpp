#pragma once
/// What of a state a save may leave in the application's memory until release().
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/async.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/dense.hpp"
#include "session/save/window.hpp"

namespace cairn {

/// Decides for one piece of the state after the other.
class Staying {
 public:
  enum class Place {
    copied,
    stays,
    refused  ///< copied, since the writing thread cannot read it
  };
  /// A part of a slice, of so many bytes. `is_run`: it is one run if the slice is contiguous.
  Place of(const LocalTensor&, std::size_t slice, std::int64_t bytes, bool is_run);

 private:
  std::int64_t small_ = 0;  // bytes of small pieces that are copied
};

/// Why tensors are copied as a whole, if they are.
class CopiedWhole {
 public:
  static constexpr const char* refused = "only the thread that saves may read its memory";
  static constexpr const char* shared = "each of its runs has parts of several ranks or slices";
  void add(std::string_view key, const char* why, std::int64_t bytes);
  /// For SaveHandle::blocked_because; "" if they are few bytes.
  std::string text() const;

 private:
  std::int64_t bytes_ = 0;
  std::string key_;
  const char* why_ = nullptr;
  bool are_more_ = false;
};

/// The piece for a window. `run`: where the part begins in a contiguous slice, in bytes; negative:
/// it is not one run there. `part()`: its box, relative to the slice.
template <class Part>
Window::Piece piece_of(const std::string& key, const LocalTensor& tensor, std::size_t slice,
                       std::int64_t run, std::int64_t bytes, const Part& part) {
  const auto& memory = tensor.slices[slice].memory;
  Window::Piece piece{.key = key, .owner = memory, .bytes = bytes};
  const auto* base = run >= 0 ? std::as_const(*memory).contiguous() : nullptr;
  if (base) {
    piece.run = base + run;
  } else {
    piece.memory = memory->for_any_thread();
    piece.part = part();
    piece.element_bytes = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
  return piece;
}

/// The runs of dense tensors that stay on a rank: each is a part of one of its own slices, so that
/// nothing of it travels.
class StayingRuns {
 public:
  /// The state and the plan outlive it. `told`: gets the tensors of which no run stays.
  StayingRuns(const RefreshedState&, const DensePlan&, Until, CopiedWhole* told = nullptr);
  bool has(int chunk) const;
  std::int64_t bytes() const { return bytes_; }
  /// Adds them to the window, which is not open yet, in the order in which they will be written.
  void leave(Window&) const;

 private:
  struct Run {
    int chunk;
    const std::string* key;
    const LocalTensor* tensor;
    std::size_t slice;
  };
  Staying::Place take(const plan::Passed& whole, const RefreshedState::Named& mine, Staying&);

  const DensePlan& plan_;
  std::vector<Run> runs_;  // ascending by chunk
  std::int64_t bytes_ = 0;
};

}  // namespace cairn
