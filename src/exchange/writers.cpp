// Chooses who writes the slices that several ranks hold. Each slice, largest first, goes to its
// least loaded holder. That alone can end badly if holders differ from slice to slice. So
// afterwards the fullest rank hands slices on, along chains of ranks, as long as that helps. For
// replicas of one size no choice is better.
#include <algorithm>
#include <map>
#include <queue>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/shared_slices.hpp"

namespace cairn {
namespace {

using Holders = std::vector<int>;

// A slice that several ranks hold, and the index of the holder that writes it.
struct Replica {
  double bytes;
  std::size_t slice;
  const Holders* holders;
  int chosen = 0;
  std::size_t writer() const {
    return static_cast<std::size_t>((*holders)[static_cast<std::size_t>(chosen)]);
  }
};

/// Finds the least loaded holder of a set, the first of equal ones, while loads only grow. Entries
/// of the heap may be out of date; an entry is renewed when it comes to the top.
class LeastHolder {
 public:
  LeastHolder(const Holders& holders, const std::vector<double>& load)
      : holders_(holders), load_(load) {
    for (std::size_t h = 0; h < holders.size(); ++h) heap_.push_back({now(h), h});
    std::make_heap(heap_.begin(), heap_.end());
  }
  int get() {
    for (;;) {
      auto& top = heap_.front();
      if (top.load == now(top.holder)) return static_cast<int>(top.holder);
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back().load = now(heap_.back().holder);
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

 private:
  struct Entry {
    double load;
    std::size_t holder;
    bool operator<(const Entry& other) const {
      return load != other.load ? load > other.load : holder > other.holder;
    }
  };
  double now(std::size_t holder) const { return load_[static_cast<std::size_t>(holders_[holder])]; }
  const Holders& holders_;
  const std::vector<double>& load_;
  std::vector<Entry> heap_;
};

class Balance {
 public:
  Balance(std::vector<double> load, int ranks) : load_(std::move(load)) {
    load_.resize(static_cast<std::size_t>(std::max(ranks, 0)));
  }

  void add(Replica replica) { replicas_.push_back(replica); }

  void deal() {
    // The last replicas are small enough to even things out. Of equal ones, those with the fewest
    // holders come first.
    std::stable_sort(replicas_.begin(), replicas_.end(), [](const Replica& a, const Replica& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.holders->size() < b.holders->size();
    });
    // One heap for each set of holders.
    std::map<const Holders*, LeastHolder> least;
    for (auto& replica : replicas_) {
      const auto& holders = *replica.holders;
      replica.chosen = least.try_emplace(&holders, holders, load_).first->second.get();
      load_[replica.writer()] += replica.bytes;
      looks_left_ += looks_a_holder * static_cast<std::int64_t>(holders.size());
    }
    looks_left_ = std::min(looks_left_, most_looks);
  }

  // Relieves the fullest rank again and again, until no chain of moves helps or looks_left_ is used
  // up.
  void improve() {
    if (replicas_.empty()) return;
    double total = 0;
    for (const auto load : load_) total += load;
    const double mean = total / static_cast<double>(load_.size());
    written_.resize(load_.size());
    for (std::size_t i = 0; i < replicas_.size(); ++i) written_[replicas_[i].writer()].push_back(i);
    for (;;) {
      const auto fullest =
          static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
      looks_left_ -= static_cast<std::int64_t>(load_.size());
      if (load_[fullest] <= mean || !relieve(fullest)) return;
    }
  }

  const std::vector<Replica>& replicas() const { return replicas_; }

 private:
  // These bound the time of improve().
  static constexpr std::int64_t looks_a_holder = 32, most_looks = std::int64_t{1} << 23;

  /// How the search came to a rank: which replica it would take over from which rank.
  struct Arrival {
    bool seen = false;
    std::size_t replica = 0, from = 0;
    int as_holder = 0;
    double bytes = 0;
    std::size_t first = 0;  // the replica that leaves the fullest rank on this way
  };

  /// Looks for a chain of moves, shortest first, after which this rank has less, and each other
  /// rank of the chain has less than this one had. The chain may come back to this rank with
  /// something smaller. A breadth-first search over ranks: a rank leads to those that could take
  /// over one of its replicas.
  bool relieve(std::size_t fullest) {
    const double most = load_[fullest];
    std::vector<Arrival> arrivals(load_.size());
    arrivals[fullest].seen = true;
    std::queue<std::size_t> open;
    for (open.push(fullest); !open.empty(); open.pop()) {
      const auto rank = open.front();
      for (const auto i : written_[rank]) {
        const auto& replica = replicas_[i];
        // A rank of the chain must end below the fullest one's load: it gets one replica and gives
        // this one away.
        if (replica.bytes == 0 ||
            (rank != fullest && load_[rank] + arrivals[rank].bytes - replica.bytes >= most)) {
          continue;
        }
        const auto first = rank == fullest ? i : arrivals[rank].first;
        const auto& holders = *replica.holders;
        looks_left_ -= static_cast<std::int64_t>(holders.size());
        if (looks_left_ < 0) return false;
        for (std::size_t h = 0; h < holders.size(); ++h) {
          const auto next = static_cast<std::size_t>(holders[h]);
          const Arrival arrival{true, i, rank, static_cast<int>(h), replica.bytes, first};
          // A circle helps only if what comes back is smaller than what has left.
          if (next == fullest) {
            if (rank == fullest || replica.bytes >= replicas_[first].bytes) continue;
            follow(arrival, arrivals, fullest);
            return true;
          }
          if (arrivals[next].seen) continue;
          if (load_[next] + replica.bytes < most) {
            follow(arrival, arrivals, fullest);
            return true;
          }
          arrivals[next] = arrival;
          open.push(next);
        }
      }
    }
    return false;
  }

  // Makes the moves of a chain, from its end back to the fullest rank.
  void follow(Arrival last, const std::vector<Arrival>& arrivals, std::size_t fullest) {
    for (;;) {
      const auto from = last.from;
      move(last.replica, last.as_holder);
      if (from == fullest) return;
      last = arrivals[from];
    }
  }

  void move(std::size_t i, int holder) {
    auto& replica = replicas_[i];
    auto& list = written_[replica.writer()];
    list.erase(std::find(list.begin(), list.end(), i));
    load_[replica.writer()] -= replica.bytes;
    replica.chosen = holder;
    load_[replica.writer()] += replica.bytes;
    written_[replica.writer()].push_back(i);
  }

  std::vector<double> load_;  // by rank
  std::vector<Replica> replicas_;
  // Used by improve() only: the replicas that a rank writes.
  std::vector<std::vector<std::size_t>> written_;  // by rank
  // How many holders improve() may still look at.
  std::int64_t looks_left_ = 0;
};

// One number for a slice: its tensor's number in the upper half, its own in the lower.
std::size_t origin_of(std::size_t tensor, std::size_t slice) { return tensor << 32 | slice; }

}  // namespace

double bytes_to_write(const CoveredTensor& tensor, const HeldSlice& slice) {
  if (slice.holders.front().fill) return 0;  // a gap has one value, which is not kept in memory
  if (tensor.dtype == DType::string) return static_cast<double>(tensor.string_bytes);
  return static_cast<double>(slice.box.count()) * static_cast<double>(dtype_size(tensor.dtype));
}

int SharedSlices::add_holders(const std::vector<int>& ranks) {
  const auto [at, is_new] = numbers_.try_emplace(ranks, static_cast<int>(sets_.size()));
  if (!is_new) return at->second;
  if (ranks.empty() || ranks.front() < 0 || ranks.back() >= ranks_) {
    throw Error(Code::internal, cat("a slice is held by what is no rank of ", ranks_));
  }
  sets_.push_back(&at->first);
  return at->second;
}

void SharedSlices::choose_writers(const std::vector<double>& load) {
  Balance balance(load, ranks_);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    balance.add({all_[i].bytes, i, &holders_of(all_[i])});
  }
  balance.deal();
  balance.improve();
  for (const auto& replica : balance.replicas()) all_[replica.slice].writer = replica.chosen;
}

SharedSlices shared_slices_of(const std::vector<CoveredTensor>& tensors, int ranks,
                              std::vector<double>& load) {
  load.resize(static_cast<std::size_t>(std::max(ranks, 0)));
  SharedSlices shared(ranks);
  std::vector<int> holders;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& tensor = tensors[t];
    const bool may_be_cut = dtype_size(tensor.dtype) != 0 && tensor.storage != Storage::sliced;
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      const auto& slice = tensor.slices[s];
      holders.clear();
      for (const auto& holder : slice.holders) {
        if (holder.rank < 0 || holder.rank >= ranks) {
          throw Error(Code::internal,
                      cat("tensor '", tensor.key, "' is held by rank ", holder.rank, " of ", ranks))
              .of_tensor(tensor.key);
        }
        holders.push_back(holder.rank);
      }
      if (holders.empty()) {
        throw Error(Code::internal, cat("a slice of tensor '", tensor.key, "' has no holder"))
            .of_tensor(tensor.key);
      }
      const double bytes = bytes_to_write(tensor, slice);
      if (holders.size() == 1) {
        load[static_cast<std::size_t>(holders[0])] += bytes;
      } else {
        shared.add({slice.box, bytes, may_be_cut, shared.add_holders(holders), origin_of(t, s)});
      }
    }
  }
  return shared;
}

Writers choose_writers(const std::vector<CoveredTensor>& tensors, int ranks,
                       const std::vector<double>& load) {
  auto others = load;
  auto shared = shared_slices_of(tensors, ranks, others);
  shared.choose_writers(others);
  Writers writers(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) writers[t].resize(tensors[t].slices.size());
  for (const auto& one : shared.all()) {
    writers[one.origin >> 32][one.origin & 0xffffffffu] = one.writer;
  }
  return writers;
}

Writers take_pieces(std::vector<CoveredTensor>& tensors, std::span<const SharedSlice> pieces) {
  std::vector<std::size_t> order(pieces.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(pieces[a].origin, a) < std::pair(pieces[b].origin, b);
  });
  Writers writers(tensors.size());
  auto next = order.begin();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<std::pair<HeldSlice, int>> all;
    bool cut = false;
    for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
      auto& slice = tensors[t].slices[s];
      const auto first = next;
      while (next != order.end() && pieces[*next].origin == origin_of(t, s)) ++next;
      cut = cut || next - first > 1;
      for (auto i = first; i != next; ++i) {
        // Each piece has the holders of its slice; the last one takes the list itself.
        auto holders = i + 1 == next ? std::move(slice.holders) : slice.holders;
        all.push_back({{pieces[*i].box, std::move(holders)}, pieces[*i].writer});
      }
      // A slice with one holder was not shared; that holder writes it.
      if (first == next) all.push_back({std::move(slice), 0});
    }
    // Slices of a tensor ascend by box; pieces may not.
    if (cut) {
      std::sort(all.begin(), all.end(),
                [](const auto& a, const auto& b) { return a.first.box < b.first.box; });
    }
    tensors[t].slices.clear();
    for (auto& [slice, writer] : all) {
      tensors[t].slices.push_back(std::move(slice));
      writers[t].push_back(writer);
    }
  }
  return writers;
}

}  // namespace cairn
