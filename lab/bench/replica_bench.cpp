// How evenly replicas are dealt out: for each layout the bytes of the fullest rank over the mean,
// if the first holder wrote each slice, as choose_writers has it, and with large replicas shared by
// their holders; what no choice of one writer a slice can beat; and the same for data files (a
// rank's host and device memory make a file each).
//
// "dealt" is what a large job gets, whose slices are dealt by several ranks; here each has about 64
// slices, where a save gives it 16,384.
//
//   replica_bench [LARGEST RANKS]     (default 64)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "cairn/log.hpp"
#include "cairn/sharding.hpp"
#include "exchange/assign_replicas.hpp"
#include "exchange/coverage.hpp"

namespace {

using namespace cairn;
using Random = std::mt19937_64;

std::vector<int> range(int from, int to, int by = 1) {
  std::vector<int> all;
  for (int i = from; i < to; i += by) all.push_back(i);
  return all;
}

/// The tensors of a job, and which rank holds which slice.
class Layout {
 public:
  explicit Layout(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }

  /// A tensor in rows, one slice after the other.
  void tensor(const std::vector<std::pair<std::int64_t, std::vector<int>>>& slices,
              DType dtype = DType::float32, bool on_device = false) {
    CoveredTensor one{"t" + std::to_string(tensors_.size()), dtype, {0}, {}};
    for (const auto& [rows, holders] : slices) {
      HeldSlice slice{{{one.shape[0]}, {rows}}, {}};
      for (const int rank : holders) slice.holders.push_back({rank, 0});
      one.slices.push_back(std::move(slice));
      one.shape[0] += rows;
    }
    tensors_.push_back(std::move(one));
    on_device_.push_back(on_device);
  }
  void replica(std::int64_t count, std::vector<int> holders, bool on_device = false) {
    tensor({{count, std::move(holders)}}, DType::float32, on_device);
  }
  void words(std::int64_t bytes, std::vector<int> holders) {
    tensor({{1, std::move(holders)}}, DType::string);
    tensors_.back().string_bytes = bytes;
  }

  const std::vector<CoveredTensor>& tensors() const { return tensors_; }
  std::vector<CoveredTensor>& tensors() { return tensors_; }
  bool on_device(std::size_t tensor) const { return on_device_[tensor]; }
  std::int64_t bytes(std::size_t t, std::size_t s) const {
    return static_cast<std::int64_t>(bytes_to_write(tensors_[t], tensors_[t].slices[s]));
  }

 private:
  int ranks_;
  std::vector<CoveredTensor> tensors_;
  std::vector<bool> on_device_;
};

/// The weights of a transformer, layer by layer, given to `add`.
void transformer(int layers, std::int64_t width,
                 const std::function<void(int layer, std::int64_t count)>& add) {
  for (int layer = 0; layer < layers; ++layer) {
    for (const std::int64_t count : {4 * width * width, 4 * width * width, 3 * width * width,
                                     width * width, 4 * width, 3 * width, width, width, width}) {
      add(layer, count);
    }
  }
  add(0, 50'000 * width);
  add(layers - 1, width);
}

struct Named {
  const char* name;
  std::function<Layout(int ranks)> make;
};

const std::vector<Named> layouts{
    {"each slice once, a few replicas",
     [](int ranks) {
       Layout one(ranks);
       std::vector<std::pair<std::int64_t, std::vector<int>>> rows;
       for (int rank = 0; rank < ranks; ++rank) rows.push_back({100'000, {rank}});
       one.tensor(rows);
       for (int i = 0; i < 20; ++i) one.replica(1 + 37 * i, range(0, ranks));
       return one;
     }},
    {"a model on every rank",
     [](int ranks) {
       Layout one(ranks);
       transformer(24, 1024, [&](int, std::int64_t n) { one.replica(n, range(0, ranks)); });
       return one;
     }},
    {"one large tensor on every rank",
     [](int ranks) {
       Layout one(ranks);
       one.replica(200'000'000, range(0, ranks));
       for (int i = 0; i < 100; ++i) one.replica(1000, range(0, ranks));
       return one;
     }},
    {"a model cut in 2, copies of each half",
     [](int ranks) {
       Layout one(ranks);
       const int ways = std::min(2, ranks);
       transformer(24, 1024, [&](int, std::int64_t n) {
         std::vector<std::pair<std::int64_t, std::vector<int>>> parts;
         for (int i = 0; i < ways; ++i) parts.push_back({n / ways, range(i, ranks, ways)});
         one.tensor(parts);
       });
       return one;
     }},
    {"a model cut in ranks/2, two copies",
     [](int ranks) {
       Layout one(ranks);
       const int ways = std::max(1, ranks / 2);
       transformer(24, 1024, [&](int, std::int64_t n) {
         std::vector<std::pair<std::int64_t, std::vector<int>>> parts;
         for (int i = 0; i < ways; ++i) parts.push_back({n / ways, range(i, ranks, ways)});
         one.tensor(parts);
       });
       return one;
     }},
    {"pipeline stages, embedding on two",
     [](int ranks) {
       Layout one(ranks);
       const int stages = std::min(ranks, 4), layers = 24;
       transformer(layers, 1024, [&](int layer, std::int64_t n) {
         const int stage = layer * stages / layers;
         auto holders = range(stage * ranks / stages, (stage + 1) * ranks / stages);
         if (n == 50'000 * 1024) {
           for (const int rank : range((stages - 1) * ranks / stages, ranks)) {
             if (std::find(holders.begin(), holders.end(), rank) == holders.end())
               holders.push_back(rank);
           }
         }
         one.replica(n, holders);
       });
       return one;
     }},
    {"experts on pairs, the rest everywhere",
     [](int ranks) {
       Layout one(ranks);
       for (int expert = 0; expert < 4 * ranks; ++expert) {
         const int rank = expert % ranks, other = (rank + ranks / 2) % ranks;
         one.replica(2'000'000 + 1000 * (expert % 7),
                     rank == other ? std::vector{rank}
                                   : std::vector{std::min(rank, other), std::max(rank, other)});
       }
       transformer(6, 512, [&](int, std::int64_t n) { one.replica(n, range(0, ranks)); });
       return one;
     }},
    {"blocks on neighbours in a ring",
     [](int ranks) {
       Layout one(ranks);
       Random random(1);
       auto order = range(0, ranks);
       std::shuffle(order.begin(), order.end(), random);
       for (const int rank : order) {
         const int next = (rank + 1) % ranks;
         if (rank == next) {
           one.replica(1000, {rank});
         } else {
           one.replica(1000, {std::min(rank, next), std::max(rank, next)});
         }
       }
       return one;
     }},
    {"patches of all sizes, each with a buddy",
     [](int ranks) {
       Layout one(ranks);
       Random random(2);
       for (int i = 0; i < 12 * ranks; ++i) {
         const auto size = std::int64_t{1000} << (random() % 7);
         const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
         const int buddy = static_cast<int>(random() % static_cast<unsigned>(ranks));
         one.replica(size, rank == buddy
                               ? std::vector{rank}
                               : std::vector{std::min(rank, buddy), std::max(rank, buddy)});
       }
       return one;
     }},
    {"three random holders, random sizes",
     [](int ranks) {
       Layout one(ranks);
       Random random(3);
       for (int i = 0; i < 3 * ranks; ++i) {
         std::set<int> holders;
         for (int k = 0; k < 3; ++k)
           holders.insert(static_cast<int>(random() % static_cast<unsigned>(ranks)));
         one.replica(static_cast<std::int64_t>(1 + random() % 100'000),
                     {holders.begin(), holders.end()});
       }
       return one;
     }},
    {"rank 0 has much of its own",
     [](int ranks) {
       Layout one(ranks);
       one.replica(1'000'000, {0});
       for (int i = 0; i < 8 * ranks; ++i) one.replica(500'000, range(0, ranks));
       return one;
     }},
    {"strings of all lengths",
     [](int ranks) {
       Layout one(ranks);
       Random random(4);
       for (int i = 0; i < 10 * ranks; ++i)
         one.words(std::int64_t{1} << (random() % 20), range(0, ranks));
       return one;
     }},
    {"fields on the device, tables on the host",
     [](int ranks) {
       Layout one(ranks);
       Random random(5);
       for (int field = 0; field < 6; ++field) {
         std::vector<std::pair<std::int64_t, std::vector<int>>> rows;
         for (int rank = 0; rank < ranks; ++rank)
           rows.push_back({90'000 + static_cast<std::int64_t>(random() % 20'000), {rank}});
         one.tensor(rows, DType::float64, true);
       }
       for (int i = 0; i < 4 * ranks; ++i)
         one.replica(static_cast<std::int64_t>(random() % 100'000), range(0, ranks), i % 2 == 0);
       return one;
     }},
};

struct Spread {
  double largest = 0, mean = 0;
  std::size_t count = 0;
  double ratio() const { return mean == 0 ? 1 : largest / mean; }
};

Spread spread_of(const std::vector<double>& loads) {
  Spread spread;
  spread.count = loads.size();
  for (const auto load : loads)
    spread.largest = std::max(spread.largest, load), spread.mean += load;
  if (!loads.empty()) spread.mean /= static_cast<double>(loads.size());
  return spread;
}

template <class Visit>  // (tensor, slice, writer)
void each_slice(const Layout& layout, const Writers& writers, const Visit& visit) {
  for (std::size_t t = 0; t < writers.size(); ++t) {
    for (std::size_t s = 0; s < writers[t].size(); ++s) {
      const auto& holders = layout.tensors()[t].slices[s].holders;
      visit(t, s, holders[static_cast<std::size_t>(writers[t][s])].rank);
    }
  }
}

/// The same calls as in a save.
Writers share(Layout& layout, Writers writers) {
  for (int turn = 0; turn < 3 && share_replicas(layout.tensors(), writers, layout.ranks()); ++turn)
    writers = choose_writers(layout.tensors(), layout.ranks());
  return writers;
}

Spread over_ranks(const Layout& layout, const Writers& writers) {
  std::vector<double> loads(static_cast<std::size_t>(layout.ranks()));
  each_slice(layout, writers, [&](auto t, auto s, int rank) {
    loads[static_cast<std::size_t>(rank)] += static_cast<double>(layout.bytes(t, s));
  });
  return spread_of(loads);
}

/// The same by dealers of a few slices each, which know each other's load by estimates.
Spread over_ranks_dealt(const Layout& layout) {
  const int ranks = layout.ranks();
  std::vector<double> load, fair(static_cast<std::size_t>(ranks));
  const auto all = shared_slices_of(layout.tensors(), ranks, load);
  ReplicaDealers dealers{ranks, 1, 0};
  if (ranks > 2) {
    dealers.dealers = std::clamp(static_cast<int>(all.all().size() / 64), 1, ranks - 1);
    dealers.first_rank = 1;
  }
  add_fair_shares(all, fair);
  std::map<int, SharedSlices> parts;
  for (auto slice : all.all()) {
    const auto& holders = all.holders_of(slice);
    auto& part = parts.try_emplace(dealers.of_holders(holders), ranks).first->second;
    slice.holders = part.add_holders(holders);
    part.add(std::move(slice));
  }
  auto loads = load;
  for (auto& [rank, part] : parts) {
    std::vector<double> mine(fair.size());
    add_fair_shares(part, mine);
    part.deal(taken_as_load(load, fair, mine));
    for (const auto& slice : part.all()) {
      loads[static_cast<std::size_t>(part.writer_of(slice))] += slice.bytes;
    }
  }
  return spread_of(loads);
}

/// The data files that the policy makes of each task's slices.
Spread over_files(const Layout& layout, const Writers& writers, const ShardingCallback& policy) {
  std::map<int, std::vector<ShardableTensor>> tasks;  // by rank
  each_slice(layout, writers, [&](auto t, auto s, int rank) {
    const auto& tensor = layout.tensors()[t];
    ShardableTensor one;
    one.name = one.key = tensor.key;
    one.dtype = tensor.dtype;
    one.shape = tensor.shape;
    one.slice = tensor.slices[s].box;
    one.bytes = layout.bytes(t, s);
    one.task.task = rank;
    if (layout.on_device(t)) one.task.device_type = "CUDA";
    tasks[rank].push_back(std::move(one));
  });
  std::vector<double> files;
  for (const auto& [task, tensors] : tasks) {
    for (const auto& shard : policy(tensors)) {
      double bytes = 0;
      for (const auto& [key, slices] : shard) {
        for (const auto& [box, tensor] : slices) bytes += static_cast<double>(tensor.bytes);
      }
      files.push_back(bytes);
    }
  }
  return spread_of(files);
}

/// No choice of writers gives the fullest rank fewer bytes than these: the mean over all ranks; the
/// mean over the holders of each set of the bytes that only they hold; a slice and the bytes that
/// only its writer holds.
double floor_of(const Layout& layout) {
  std::map<std::vector<int>, double> bytes_of_set;
  std::vector<double> alone(static_cast<std::size_t>(layout.ranks()));
  double total = 0, floor = 0;
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    for (std::size_t s = 0; s < layout.tensors()[t].slices.size(); ++s) {
      std::vector<int> set;
      for (const auto& holder : layout.tensors()[t].slices[s].holders) set.push_back(holder.rank);
      std::sort(set.begin(), set.end());
      const auto bytes = static_cast<double>(layout.bytes(t, s));
      bytes_of_set[set] += bytes;
      total += bytes;
      if (set.size() == 1) alone[static_cast<std::size_t>(set[0])] += bytes;
    }
  }
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    for (std::size_t s = 0; s < layout.tensors()[t].slices.size(); ++s) {
      double least = -1;
      const auto& holders = layout.tensors()[t].slices[s].holders;
      for (const auto& holder : holders) {
        const auto own = alone[static_cast<std::size_t>(holder.rank)];
        least = least < 0 ? own : std::min(least, own);
      }
      floor = std::max(floor,
                       least + (holders.size() > 1 ? static_cast<double>(layout.bytes(t, s)) : 0));
    }
  }
  floor = std::max(floor, total / layout.ranks());
  for (const auto& [set, unused] : bytes_of_set) {
    double within = 0;
    for (const auto& [other, bytes] : bytes_of_set) {
      if (std::includes(set.begin(), set.end(), other.begin(), other.end())) within += bytes;
    }
    floor = std::max(floor, within / static_cast<double>(set.size()));
  }
  return floor;
}

}  // namespace

int main(int argc, char** argv) {
  const int largest = argc > 1 ? std::atoi(argv[1]) : 64;
  if (argc > 2 || largest < 1) {
    std::fprintf(stderr, "usage: replica_bench [LARGEST RANKS]\n");
    return 2;
  }
  std::printf(
      "Bytes, largest / mean. Over ranks:\n"
      "  first   the first holder writes\n"
      "  chosen  choose_writers\n"
      "  floor   no choice of one writer a slice beats it\n"
      "  shared  what a save does: large replicas are cut for their holders\n"
      "  dealt   the same, dealt by several ranks\n"
      "over data files:\n"
      "  files   one a task\n"
      "  limit   under MaxShardSizePolicy of half a rank's mean\n\n");
  std::printf("%-40s %6s %8s  %7s %7s %7s %7s %7s  %7s %7s %9s\n", "layout", "ranks", "slices",
              "first", "chosen", "floor", "shared", "dealt", "files", "limit", "time");
  set_log_sink({});  // strings above the limit
  double worst = 1, worst_shared = 1;
  for (const auto& [name, make] : layouts) {
    for (const int ranks : {2, 3, 7, 8, 64, 512}) {
      if (ranks > largest) continue;
      auto layout = make(ranks);
      Writers first;
      std::size_t slices = 0;
      for (const auto& tensor : layout.tensors()) {
        first.emplace_back(tensor.slices.size(), 0);
        slices += tensor.slices.size();
      }
      const auto first_holders = over_ranks(layout, first);
      const auto dealt = over_ranks_dealt(layout);
      const auto begin = std::chrono::steady_clock::now();
      const auto writers = choose_writers(layout.tensors(), ranks);
      auto time = std::chrono::steady_clock::now() - begin;
      const auto chosen = over_ranks(layout, writers);
      const auto floor = floor_of(layout);
      worst = std::max(worst, floor > 0 ? chosen.largest / floor : 1);
      const auto again = std::chrono::steady_clock::now();
      const auto sharing = share(layout, writers);
      time += std::chrono::steady_clock::now() - again;
      const auto shared = over_ranks(layout, sharing);
      worst_shared = std::max(worst_shared, shared.ratio());
      const MaxShardSizePolicy limit(static_cast<std::int64_t>(shared.mean / 2) + 16);
      std::printf("%-40s %6d %8zu  %7.3f %7.3f %7.3f %7.3f %7.3f  %7.3f %7.3f %6.1f ms\n", name,
                  ranks, slices, first_holders.ratio(), chosen.ratio(), floor / chosen.mean,
                  shared.ratio(), dealt.ratio(),
                  over_files(layout, sharing, ShardByTaskPolicy()).ratio(),
                  over_files(layout, sharing, limit).ratio(),
                  std::chrono::duration<double, std::milli>(time).count());
    }
  }
  std::printf("\nThe worst chosen / floor is %.3f, the worst shared %.3f.\n", worst, worst_shared);
  return 0;
}
