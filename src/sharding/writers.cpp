// Who writes what several ranks hold. Largest first, each to its least loaded holder; that alone
// can end badly where holders differ from slice to slice, so the fullest rank is relieved after it,
// along chains of ranks that hand slices on, for as long as that helps.
#include <algorithm>
#include <queue>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "sharding/coverage.hpp"

namespace cairn {
namespace {

using Holders = std::vector<HeldSlice::Holder>;

struct Replica {
  double bytes;
  std::size_t tensor, slice;
  const Holders* holders;
  int chosen = 0;
  std::size_t writer() const {
    return static_cast<std::size_t>((*holders)[static_cast<std::size_t>(chosen)].rank);
  }
};

class Balance {
 public:
  explicit Balance(int ranks) : load_(static_cast<std::size_t>(std::max(ranks, 0)), 0.0) {}

  void add_fixed(int rank, double bytes) { load_[static_cast<std::size_t>(rank)] += bytes; }
  void add(Replica replica) { replicas_.push_back(replica); }

  void deal() {
    // What comes last is small enough to even things out; of equal ones, first those that have the
    // least choice.
    std::stable_sort(replicas_.begin(), replicas_.end(), [](const Replica& a, const Replica& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.holders->size() < b.holders->size();
    });
    for (auto& replica : replicas_) {
      const auto& holders = *replica.holders;
      const auto least =
          std::min_element(holders.begin(), holders.end(), [&](const auto& a, const auto& b) {
            return load_[static_cast<std::size_t>(a.rank)] <
                   load_[static_cast<std::size_t>(b.rank)];
          });
      replica.chosen = static_cast<int>(least - holders.begin());
      load_[replica.writer()] += replica.bytes;
      looks_left_ += looks_a_holder * static_cast<std::int64_t>(holders.size());
    }
  }

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
  static constexpr std::int64_t looks_a_holder = 32;  // bounds the time of improve

  /// How the search came to a rank: what it would take over from whom.
  struct Arrival {
    bool seen = false;
    std::size_t replica = 0, from = 0;
    int as_holder = 0;
    double bytes = 0;
    std::size_t first = 0;  // what leaves the fullest rank on this way
  };

  /// Looks for a chain of moves, shortest first, after which this rank has less and each other rank
  /// of the chain less than this one had. It may come back to this rank with something smaller.
  bool relieve(std::size_t fullest) {
    const double most = load_[fullest];
    std::vector<Arrival> arrivals(load_.size());
    arrivals[fullest].seen = true;
    std::queue<std::size_t> open;
    for (open.push(fullest); !open.empty(); open.pop()) {
      const auto rank = open.front();
      for (const auto i : written_[rank]) {
        const auto& replica = replicas_[i];
        if (replica.bytes == 0 ||
            (rank != fullest && load_[rank] + arrivals[rank].bytes - replica.bytes >= most)) {
          continue;
        }
        const auto first = rank == fullest ? i : arrivals[rank].first;
        const auto& holders = *replica.holders;
        looks_left_ -= static_cast<std::int64_t>(holders.size());
        if (looks_left_ < 0) return false;
        for (std::size_t h = 0; h < holders.size(); ++h) {
          const auto next = static_cast<std::size_t>(holders[h].rank);
          const Arrival arrival{true, i, rank, static_cast<int>(h), replica.bytes, first};
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
  std::vector<std::vector<std::size_t>> written_;  // by rank
  std::int64_t looks_left_ = 0;
};

}  // namespace

double bytes_to_write(const CoveredTensor& tensor, const HeldSlice& slice) {
  if (tensor.dtype == DType::string) return static_cast<double>(tensor.string_bytes);
  return static_cast<double>(slice.box.count()) * static_cast<double>(dtype_size(tensor.dtype));
}

Writers choose_writers(const std::vector<CoveredTensor>& tensors, int ranks,
                       const std::vector<double>& load) {
  Balance balance(ranks);
  for (std::size_t r = 0; r < load.size(); ++r) balance.add_fixed(static_cast<int>(r), load[r]);
  Writers writers(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& slices = tensors[t].slices;
    writers[t].assign(slices.size(), 0);
    for (std::size_t s = 0; s < slices.size(); ++s) {
      const auto& holders = slices[s].holders;
      for (const auto& holder : holders) {
        if (holder.rank < 0 || holder.rank >= ranks) {
          throw Error(Code::internal, cat("tensor '", tensors[t].key, "' is held by rank ",
                                          holder.rank, " of ", ranks))
              .of_tensor(tensors[t].key);
        }
      }
      if (holders.empty()) {
        throw Error(Code::internal, cat("a slice of tensor '", tensors[t].key, "' has no holder"))
            .of_tensor(tensors[t].key);
      }
      const double bytes = bytes_to_write(tensors[t], slices[s]);
      if (holders.size() == 1) {
        balance.add_fixed(holders[0].rank, bytes);
      } else {
        balance.add({bytes, t, s, &holders});
      }
    }
  }
  balance.deal();
  balance.improve();
  for (const auto& replica : balance.replicas()) {
    writers[replica.tensor][replica.slice] = replica.chosen;
  }
  return writers;
}

}  // namespace cairn
