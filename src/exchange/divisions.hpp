#pragma once
/// Tensors of so many slices that no rank proves or joins one alone: each is divided into regions,
/// which are proved on ranks of their own, and, where it is stored in slices, into runs of the
/// index, which are joined on such ranks. No cut serves both: neighbours in space lie far from each
/// other in the order of keys. A region only says that something is wrong in it. Then the key's
/// planner gets all slices of the tensor and makes the error, in the words for undivided tensors.
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

struct Division {
  std::string key;
  DType dtype{};
  Dims shape;
  Regions regions;
  SliceRuns runs;
  Storage storage = Storage::automatic;  ///< as of CoveredTensor
  bool dense = false;                    ///< known when the tensor is proved; it has no runs then

  /// `samples` as of sample_slices, of all ranks. One region: the tensor is not worth dividing.
  static Division of(std::string key, DType, Dims shape, const std::vector<Box>& samples);
  /// Who proves a region, and who joins a run; rank 0 never.
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
  /// -1: it is not divided.
  int find(std::string_view key) const;

 private:
  std::vector<Division> all_;
};

/// Some of a rank's slices of a tensor, by their number and not by where they lie: those of all
/// ranks tell where slices lie.
std::vector<Box> sample_slices(const std::vector<Box>&, std::string_view key, int rank);

/// How many slices ranks have, by a hash of the key: of all ranks after a sum.
class SliceCounts {
 public:
  explicit SliceCounts(const std::vector<Declaration>& mine);
  std::span<std::int64_t> values() { return counts_; }
  std::int64_t all() const;
  /// Whether a tensor of this key may be worth dividing.
  bool may_be_many(std::string_view key) const;
  bool any_may_be_many() const;

 private:
  std::array<std::int64_t, 256> counts_{};
};

/// Collective. Which tensors are divided. None of which ranks say what cannot be: these are for
/// check_coverage to refuse.
Divisions divide(Group&, const std::vector<Declaration>& mine, const SliceCounts& of_all,
                 const KeyPlanners&);

}  // namespace cairn
