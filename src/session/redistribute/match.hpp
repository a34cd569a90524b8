#pragma once
/// Who has what of what is wanted: the coverage of a state, proved as at a save, and for each box
/// that a rank wants the slices that it is in. The rank that proves the coverage of a key has all
/// its boxes in its hands, so it answers. No rank learns of slices that it has nothing to do with.
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "exchange/by_key.hpp"
#include "exchange/coverage.hpp"
#include "exchange/spread.hpp"
#include "model/refreshed_state.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// The slices of all ranks under numbers that mean the same on all of them: a rank's follow each
/// other, tensor by tensor.
class HeldSlices {
 public:
  HeldSlices() = default;
  /// Collective. `mine` is a state of plain tensors. Throws unsupported for 2^31 slices.
  HeldSlices(Group&, const RefreshedState& mine);

  int holder_of(int number) const;
  bool is_mine(int number) const { return holder_of(number) == rank_; }
  /// The first of this rank's.
  int first() const { return begins_[static_cast<std::size_t>(rank_)]; }
  /// The first of a tensor of this rank.
  int first_of(std::size_t tensor) const { return first_of_[tensor]; }

 private:
  int rank_ = 0;
  std::vector<int> begins_{0};  // of each rank, and one past the last
  std::vector<int> first_of_;
};

/// A slice that a wanted box has elements of.
struct MatchedSlice {
  int source;  ///< number of the slice
  int id;      ///< of the wanted box
};
struct Matched {
  std::vector<MatchedSlice> parts;
  std::map<int, Box> boxes;                 ///< of the slices of other ranks in `parts`
  std::map<std::string, int> strings_from;  ///< wanted string tensors, by key: who has one
};

/// The proof, and what came of it. Each tensor is some rank's to answer for, by its key.
class Matching {
 public:
  /// Collective. Throws coverage and disagreement, as a save does. `keys`: what this rank asks for.
  Matching(Group&, const RefreshedState& plain, const HeldSlices&,
           const std::vector<std::string>& keys);

  /// Those of the keys that are there, ascending, without slices.
  const CheckpointContents& contents() const { return contents_; }
  /// Collective. Keys that are there and that no rank has asked for, ascending.
  std::vector<std::string> find_unused(Group&) const;
  /// Of sparse tensors, what no rank holds.
  void note_gaps(const GapsByKey&);
  /// Collective. `wanted` is of these contents.
  Matched match(Group&, const HeldSlices&, const WantedState& wanted) const;
  /// Nothing will be matched any more.
  void forget_slices();

 private:
  // Number of the first slice of a rank that declares a tensor.
  struct First {
    std::uint32_t tensor;  // of answered_
    int rank, number;
    auto operator<=>(const First&) const = default;
  };
  class Finder;
  Messages hear(const Messages&);
  Messages answer(const Messages&) const;
  const CoveredTensor* find_answered(std::string_view key) const;
  int first_of(const CoveredTensor&, int rank) const;

  KeyPlanners planners_;
  std::vector<CoveredTensor> answered_;  // ascending by key
  std::vector<First> firsts_;            // ascending
  std::vector<std::string> unasked_;     // of answered_
  CheckpointContents contents_;
  std::vector<int> nodes_;  // of the ranks; empty: not known
};

/// As text that is the same while keys, dtypes, shapes and boxes are.
std::string structure_of(const RefreshedState& plain);
std::string structure_of(const CheckpointContents&, const WantedState&);

}  // namespace cairn
