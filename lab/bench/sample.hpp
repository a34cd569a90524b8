#pragma once
/// States to be measured: tensors of doubles, cut into blocks of rows over the ranks.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/state.hpp"
#include "raw_io.hpp"

namespace cairn::bench {

/// The tensors of a state; the same for any number of ranks.
struct Recipe {
  struct Tensor {
    std::string key;
    std::int64_t rows, columns;
    bool replicated = false;  ///< whole on each rank
  };
  std::vector<Tensor> tensors;

  std::int64_t bytes() const;  ///< of the job; replicas count once

  static Recipe one_tensor(std::int64_t bytes);
  /// 2,000 tensors, each with 4 KiB on each of so many ranks.
  static Recipe many_small(int ranks);
  /// As a training state has them: 4 large ones, 300 medium ones, 1,000 of 2 KiB, 8 replicas of
  /// 128 KiB and 20 scalars. Throws for less than 8 MiB.
  static Recipe mixed(std::int64_t bytes);
};

/// One rank's part, in memory like an application's (touched, not aligned to pages).
class Sample {
 public:
  enum class Fill { values, nothing };
  /// Values have no pattern that a disk could compress, and depend on their place in the tensor.
  Sample(Recipe recipe, int rank, int ranks, Fill fill);

  State state();
  std::vector<BareDataset> datasets() const;
  void poison();
  bool operator==(const Sample& other) const { return memory_ == other.memory_; }

 private:
  struct Part {
    std::int64_t start, rows;
    std::size_t at;
  };
  Recipe recipe_;
  int rank_;
  std::vector<Part> parts_;
  std::vector<std::byte> memory_;
};

}  // namespace cairn::bench
