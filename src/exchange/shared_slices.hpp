#pragma once
/// Slices that several ranks hold, and which of these ranks writes each.
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "exchange/coverage.hpp"

namespace cairn {

/// A slice, or a piece of one.
struct SharedSlice {
  Box box;
  double bytes = 0;         ///< as bytes_to_write counts them
  bool may_be_cut = false;  ///< so that its holders share it
  int holders = 0;          ///< number of the set of ranks that hold it
  std::size_t origin = 0;   ///< the caller's number of the slice
  int writer = 0;           ///< index among its holders
};

/// Many slices are held by the same ranks, so each set of holders is kept and searched once.
class SharedSlices {
 public:
  explicit SharedSlices(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }
  /// `ranks` ascend. Returns the number of the set. Throws internal for numbers that are no ranks.
  int add_holders(const std::vector<int>& ranks);
  void add(SharedSlice slice) { all_.push_back(std::move(slice)); }
  const std::vector<SharedSlice>& all() const { return all_; }
  std::vector<SharedSlice>& all() { return all_; }
  const std::vector<int>& holders_of(const SharedSlice& slice) const {
    return *sets_[static_cast<std::size_t>(slice.holders)];
  }
  int writer_of(const SharedSlice& slice) const {
    return holders_of(slice)[static_cast<std::size_t>(slice.writer)];
  }

  /// Like choose_writers and share_replicas (coverage.hpp). `load`: the bytes of everything else
  /// that each rank writes.
  void choose_writers(const std::vector<double>& load);
  bool cut(const std::vector<double>& load, std::int64_t least_bytes = std::int64_t{1} << 20);
  /// Both in turn, until nothing more is cut, or three times.
  void deal(const std::vector<double>& load);

 private:
  int ranks_;
  std::vector<SharedSlice> all_;
  // The number of each set; a std::map, since sets_ points to its keys.
  std::map<std::vector<int>, int> numbers_;
  std::vector<const std::vector<int>*> sets_;  // keys of numbers_
};

/// The slices of these tensors that several ranks hold. The bytes of all other slices are added to
/// the load of their holders. Origins are numbers for take_pieces.
SharedSlices shared_slices_of(const std::vector<CoveredTensor>&, int ranks,
                              std::vector<double>& load);
/// Replaces the slices by the pieces that they were cut into. Returns the writer of each slice.
Writers take_pieces(std::vector<CoveredTensor>&, std::span<const SharedSlice>);

}  // namespace cairn
