#pragma once
/// Moves rows to blocks and back, as a RowPlan says.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cairn/state.hpp"
#include "exchange/row_plan.hpp"

namespace cairn {

/// The rows of one tensor on this rank, one after the other in host memory.
struct RowMemory {
  std::int64_t row_bytes;
  std::byte *rows, *block;  ///< `held` rows, and the `count` rows of the block
};
/// Collective: copies the rows of several tensors to their blocks, or back. Messages are bounded.
/// Throws if there is no memory for them, on all ranks alike.
void rows_to_blocks(Group&, const RowPlan&, std::span<const RowMemory>);
void blocks_to_rows(Group&, const RowPlan&, std::span<const RowMemory>);

/// The rows of a tensor on this rank as one run of bytes: in the application's memory, or else in a
/// copy, which write_back() copies back.
class RunOfRows {
 public:
  /// For a tensor that is whole on its rank. With `reading`, a copy is filled.
  RunOfRows(std::shared_ptr<SliceMemory> memory, Dims extent, DType dtype, bool reading);
  std::byte* data() const { return data_; }
  void write_back();

 private:
  std::shared_ptr<SliceMemory> memory_;
  Dims extent_;
  std::unique_ptr<std::byte[]> copy_;
  std::byte* data_ = nullptr;
};

}  // namespace cairn
