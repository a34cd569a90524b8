#pragma once
/// Decides which rank acquires which chunk: in fair shares, also with several dealers.
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::plan {

/// How many bytes of a chunk a rank wants.
struct Wish {
  int rank = 0;
  std::int64_t bytes = 0;
};

/// Joins the wishes of each rank; they then ascend by rank.
void join_wishes(std::vector<Wish>&);

/// Deals chunks to ranks by the rule of plan_exchange. Several dealers may each deal a part. Then
/// each assumes that the others give every rank its fair share of the chunks that several ranks
/// want.
class Dealer {
 public:
  /// `served_by` as in plan_exchange; only ranks that acquire get chunks.
  Dealer(int ranks, const std::vector<int>& served_by);

  /// Adds a chunk, in the order in which chunks are dealt. `rank`: the rank that must have it, or
  /// -1. Of ranks that want as much and have as much, the first one at or after `turn` comes first.
  void add(std::int64_t bytes, int rank, std::span<const Wish> wishes, int turn = 0);

  /// What this dealer knows, to be summed over dealers: for each rank the bytes that only it wants,
  /// then for each rank its fair share of the other chunks, then the bytes of all chunks. Empty,
  /// which counts as zeros, if it has no chunk, as on most ranks of a large job.
  std::vector<std::int64_t> known() const;

  /// The rank that gets each chunk. `sums` are those of all dealers; empty: this is the only one.
  std::vector<int> deal(std::span<const std::int64_t> sums = {});

 private:
  // A chunk that no rank must have, and that not just one rank wants.
  struct Open {
    std::size_t chunk, first, end;  // of its wishes
    double bytes;
    int turn;
  };
  int from_turn(int rank, int turn) const {
    return rank >= turn ? rank - turn : rank - turn + ranks_;
  }
  bool acquires(int rank) const;
  const Wish* best_wish(const Open&, const std::vector<double>& load,
                        const std::vector<double>& share) const;

  const int ranks_;
  // As in plan_exchange; empty: each rank acquires for itself.
  const std::vector<int>& served_by_;
  // The rank of each chunk that was added.
  std::vector<int> chosen_;  // -1: not yet
  std::vector<Open> shared_, unwanted_;
  std::vector<Wish> wishes_;  // of the chunks in shared_
  // Bytes of chunks that a rank must have; that it alone wants; and its fair share of those that
  // several want.
  std::vector<double> pinned_, alone_, fair_;  // bytes by rank; empty until there is a chunk
  double total_ = 0;
};

}  // namespace cairn::plan
