#include "exchange/deal.hpp"

#include <algorithm>
#include <cmath>

namespace cairn::plan {
namespace {

std::size_t slot(int i) { return static_cast<std::size_t>(i); }

/// Finds the least loaded rank while loads only grow. Entries of the heap may be out of date; an
/// entry is renewed when it comes to the top.
class LeastLoaded {
 public:
  LeastLoaded(const std::vector<double>& load, std::vector<int> ranks, int turn)
      : load_(load), turn_(turn) {
    for (const auto rank : ranks) heap_.push_back({load[slot(rank)], rank});
    std::make_heap(heap_.begin(), heap_.end(), Later{turn});
  }

  int get() {
    for (;;) {
      auto& top = heap_.front();
      if (top.load == load_[slot(top.rank)]) return top.rank;
      std::pop_heap(heap_.begin(), heap_.end(), Later{turn_});
      heap_.back().load = load_[slot(heap_.back().rank)];
      std::push_heap(heap_.begin(), heap_.end(), Later{turn_});
    }
  }

 private:
  struct Entry {
    double load;
    int rank;
  };
  struct Later {
    int turn;
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.load != b.load) return a.load > b.load;
      const bool a_wraps = a.rank < turn, b_wraps = b.rank < turn;
      return a_wraps != b_wraps ? a_wraps : a.rank > b.rank;
    }
  };
  const std::vector<double>& load_;
  const int turn_;
  std::vector<Entry> heap_;
};

}  // namespace

void join_wishes(std::vector<Wish>& wishes) {
  std::sort(wishes.begin(), wishes.end(),
            [](const Wish& a, const Wish& b) { return a.rank < b.rank; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < wishes.size(); ++i) {
    if (wishes[i].rank == wishes[kept].rank) {
      wishes[kept].bytes += wishes[i].bytes;
    } else {
      wishes[++kept] = wishes[i];
    }
  }
  if (!wishes.empty()) wishes.resize(kept + 1);
}

Dealer::Dealer(int ranks, const std::vector<int>& served_by)
    : ranks_(ranks), served_by_(served_by) {}

bool Dealer::acquires(int rank) const {
  return served_by_.empty() || served_by_[slot(rank)] == rank;
}

void Dealer::add(std::int64_t bytes, int rank, std::span<const Wish> wishes, int turn) {
  const auto size = static_cast<double>(bytes);
  const auto number = chosen_.size();
  // Only planners with chunks take memory for each rank.
  for (auto* const by_rank : {&pinned_, &alone_, &fair_}) by_rank->resize(slot(ranks_));
  total_ += size;
  chosen_.push_back(rank);
  if (rank >= 0) {
    pinned_[slot(rank)] += size;
  } else if (wishes.size() == 1) {
    // Its share includes this chunk by definition. It is dealt before chunks that others could
    // take, too.
    chosen_.back() = wishes[0].rank;
    alone_[slot(wishes[0].rank)] += size;
  } else if (wishes.empty()) {
    unwanted_.push_back({number, 0, 0, size, turn});
  } else {
    double sum = 0;
    for (const auto& wish : wishes) sum += static_cast<double>(wish.bytes);
    for (const auto& wish : wishes) {
      fair_[slot(wish.rank)] += size * (static_cast<double>(wish.bytes) / sum);
    }
    const auto first = wishes_.size();
    wishes_.insert(wishes_.end(), wishes.begin(), wishes.end());
    shared_.push_back({number, first, wishes_.size(), size, turn});
  }
}

// Rounded, since a Group adds up integers only.
std::vector<std::int64_t> Dealer::known() const {
  std::vector<std::int64_t> all;
  if (chosen_.empty()) return all;
  all.reserve(2 * slot(ranks_) + 1);
  for (const auto bytes : alone_) all.push_back(std::llround(bytes));
  for (const auto bytes : fair_) all.push_back(std::llround(bytes));
  all.push_back(std::llround(total_));
  return all;
}

// The best wish of a rank that has less than its share; null: there is none. Wishes ascend by rank.
const Wish* Dealer::best_wish(const Open& open, const std::vector<double>& load,
                              const std::vector<double>& share) const {
  const Wish* best = nullptr;
  for (auto w = open.first; w < open.end; ++w) {
    const auto& wish = wishes_[w];
    if (load[slot(wish.rank)] >= share[slot(wish.rank)]) continue;
    const auto better = [&] {
      if (!best) return true;
      if (wish.bytes != best->bytes) return wish.bytes > best->bytes;
      const auto mine = load[slot(wish.rank)], its = load[slot(best->rank)];
      if (mine != its) return mine < its;
      return from_turn(wish.rank, open.turn) < from_turn(best->rank, open.turn);
    };
    if (better()) best = &wish;
  }
  return best;
}

std::vector<int> Dealer::deal(std::span<const std::int64_t> sums) {
  if (shared_.empty() && unwanted_.empty()) return std::move(chosen_);
  // `load` is what each rank has so far, `share` how much it may have before a wish of it no longer
  // counts.
  auto load = pinned_;
  std::vector<double> share(slot(ranks_));
  std::vector<int> acquirers;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (acquires(rank)) acquirers.push_back(rank);
  }
  const auto total = sums.empty() ? total_ : static_cast<double>(sums[2 * slot(ranks_)]);
  const auto mean = total / static_cast<double>(acquirers.size());
  for (std::size_t r = 0; r < share.size(); ++r) {
    const auto alone = sums.empty() ? alone_[r] : static_cast<double>(sums[r]);
    const auto fair = sums.empty() ? fair_[r] : static_cast<double>(sums[share.size() + r]);
    // What other dealers deal counts as dealt.
    load[r] += alone + std::max(0.0, fair - fair_[r]);
    share[r] = std::max(alone + fair, mean);
  }
  // Several dealers that know no loads yet begin at different ranks, or all would give their first
  // chunks to the same ones.
  const int turn = sums.empty() ? 0 : (shared_.empty() ? unwanted_ : shared_).front().turn;
  LeastLoaded least(load, std::move(acquirers), turn);
  const auto give = [&](const Open& open, int rank) {
    load[slot(rank)] += open.bytes;
    chosen_[open.chunk] = rank;
  };
  for (const auto& open : shared_) {
    // If all that want the chunk have their share already, any rank may have it.
    const auto* best = best_wish(open, load, share);
    give(open, best ? best->rank : least.get());
  }
  for (const auto& open : unwanted_) give(open, least.get());
  return std::move(chosen_);
}

}  // namespace cairn::plan
