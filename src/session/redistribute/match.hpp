#pragma once
/// Finds out which rank has what another wants. Coverage of the state is proved as in a save; then,
/// for each box that a rank wants, the slices that share elements with it are found. The rank that
/// proves the coverage of a key knows all its boxes, so it answers the others. A rank learns only
/// of slices that it sends or gets.
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

/// Numbers the slices of all ranks, with the same numbers on all of them. The slices of a rank have
/// consecutive numbers, tensor by tensor.
class HeldSlices {
 public:
  HeldSlices() = default;
  /// Collective. `mine` is a state of plain tensors. Throws unsupported for 2^31 slices or more.
  HeldSlices(Group&, const RefreshedState& mine);

  int holder_of(int number) const;
  bool is_mine(int number) const { return holder_of(number) == rank_; }
  /// The number of this rank's first slice.
  int first() const { return begins_[static_cast<std::size_t>(rank_)]; }
  /// The number of the first slice of this rank's tensor.
  int first_of(std::size_t tensor) const { return first_of_[tensor]; }

 private:
  int rank_ = 0;
  std::vector<int> begins_{0};  // of each rank, and one past the last
  std::vector<int> first_of_;
};

/// A slice that shares elements with a wanted box.
struct MatchedSlice {
  int source;  ///< number of the slice
  int id;      ///< number of the wanted box
};
struct Matched {
  std::vector<MatchedSlice> parts;
  std::map<int, Box> boxes;  ///< boxes of the slices in `parts` that other ranks hold
  std::map<std::string, int> strings_from;  ///< for each wanted string tensor, a rank that has it
};

/// Proves the coverage and answers questions about it. The key of a tensor decides which rank
/// answers for it.
class Matching {
 public:
  /// Collective. Throws coverage and disagreement, as a save does. `keys`: what this rank asks for.
  Matching(Group&, const RefreshedState& plain, const HeldSlices&,
           const std::vector<std::string>& keys);

  /// The tensors of those keys that exist, ascending, without slices.
  const CheckpointContents& contents() const { return contents_; }
  /// Collective. The keys that exist and that no rank has asked for, ascending.
  std::vector<std::string> find_unused(Group&) const;
  /// Adds the gaps of sparse tensors: the parts that no rank holds.
  void note_gaps(const GapsByKey&);
  /// Collective. `wanted` refers to these contents.
  Matched match(Group&, const HeldSlices&, const WantedState& wanted) const;
  /// Frees the slices. match() must not be called afterwards.
  void forget_slices();

 private:
  // The number of the first slice of a tensor that a rank declares.
  struct First {
    std::uint32_t tensor;  // index into answered_
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
  std::vector<std::string> unasked_;     // keys of answered_ that no rank asked for
  CheckpointContents contents_;
  std::vector<int> nodes_;  // the node of each rank; empty if not known
};

/// A text that stays the same as long as keys, dtypes, shapes and boxes do.
std::string structure_of(const RefreshedState& plain);
std::string structure_of(const CheckpointContents&, const WantedState&);

}  // namespace cairn
