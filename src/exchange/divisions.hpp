#pragma once
/// Divides tensors of so many slices that no rank proves or joins one alone: each into regions,
/// which are proved on ranks of their own, and, if it is stored in slices, into runs of the index,
/// which are joined on such ranks. No cut serves both: neighbours in space are far from each other
/// in the order of keys. The proof of a region only says that something is wrong in it. Then the
/// key's planner gets all slices of the tensor and makes the error, with the text for undivided
/// tensors.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/by_key.hpp"
#include "exchange/coverage.hpp"
#include "exchange/regions.hpp"

namespace cairn {

/// One tensor that is divided.
struct Division {
  std::string key;
  DType dtype{};
  Dims shape;
  Regions regions;
  SliceRuns runs;
  Storage storage = Storage::automatic;  ///< as in CoveredTensor
  bool dense = false;                    ///< known when the tensor is proved; then it has no runs

  /// `samples`: sample_slices() of all ranks. One region: the tensor is not worth dividing.
  static Division of(std::string key, DType, Dims shape, const std::vector<Box>& samples);
  /// The ranks that prove a region and join a run; never rank 0 if there are others.
  int region_planner(int region, int ranks) const;
  int run_planner(int run, int ranks) const;
};

/// Ascending by key, the same on all ranks.
class Divisions {
 public:
  Divisions() = default;
  explicit Divisions(std::vector<Division> all);
  bool empty() const { return all_.empty(); }
  std::vector<Division>& all() { return all_; }
  const std::vector<Division>& all() const { return all_; }
  const Division& operator[](int i) const { return all_[static_cast<std::size_t>(i)]; }
  /// -1: the tensor is not divided.
  int find(std::string_view key) const;

 private:
  std::vector<Division> all_;
};

/// Samples of a rank's slices of a tensor, chosen by number and not by position. The samples of all
/// ranks show where slices lie.
std::vector<Box> sample_slices(const std::vector<Box>&, std::string_view key, int rank);

/// The number of slices, by a hash of the key; those of all ranks after a sum of values().
class SliceCounts {
 public:
  explicit SliceCounts(const std::vector<Declaration>& mine);
  std::span<std::int64_t> values() { return counts_; }
  std::int64_t all() const;
  /// Whether a tensor of this key may be worth dividing.
  bool may_be_many(std::string_view key) const;
  bool any_may_be_many() const;

 private:
  // By bucket, not by key: ranks do not know each other's keys, and these are few enough for one
  // sum. A bucket may hold several tensors, so a large count only says that one of them may be
  // large.
  std::array<std::int64_t, 256> counts_{};
};

/// Collective. Chooses the tensors that are divided. Tensors with impossible declarations are not
/// divided: check_coverage refuses them.
Divisions divide(Group&, const std::vector<Declaration>& mine, const SliceCounts& of_all,
                 const KeyPlanners&);

}  // namespace cairn
