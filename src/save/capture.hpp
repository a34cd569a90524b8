#pragma once
/// Capture: what a save will write, copied into memory of its own.
#include <optional>
#include <span>
#include <vector>

#include "save/dense.hpp"
#include "save/shard_files.hpp"

namespace cairn {

/// Where the copy of a rank's part lies. Entries lie as in their files, from page to page, so that
/// files can be written without another copy.
struct CaptureLayout {
  std::vector<std::int64_t> at;  ///< of each entry of the Outgoing
  std::int64_t shard_bytes = 0;
  std::int64_t bytes = 0;  ///< of shards, and behind them of the runs of dense tensors
};
CaptureLayout capture_layout(const Outgoing&, const DensePlan&, int rank);

/// How to copy a state, and every other one of the same structure.
class CaptureForm {
 public:
  CaptureForm() = default;
  CaptureForm(const State&, const Outgoing&, CaptureLayout);

  bool made() const { return made_; }
  const CaptureLayout& layout() const { return layout_; }
  /// The caller's thread. Allocates nothing for what is one run of bytes.
  void copy(const State&, const StringStore&, std::span<std::byte> memory) const;
  /// Any thread. What to write of the copy; strings have the checksums of this store.
  Outgoing outgoing(std::span<std::byte> memory, const StringStore&) const;

 private:
  struct Piece {
    std::size_t tensor, slice;
    Box part;                         // of the slice
    std::optional<std::int64_t> run;  // its first byte in the slice, if it is one run
    std::int64_t bytes;
  };
  bool made_ = false;
  CaptureLayout layout_;
  std::vector<Piece> pieces_;  // of each entry
  std::vector<StoredTensor> entries_;
};

}  // namespace cairn
