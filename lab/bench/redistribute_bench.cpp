// From memory to memory beside one MPI_Alltoallv of the same bytes between the same ranks, which
// finds them packed and leaves them packed; and beside packing, MPI_Alltoallv and unpacking by hand
// as a program would that has no library. Whoever's turn it is, an order drawn anew; seconds from a
// barrier until the slowest rank is done.
//
//   mpirun -n 2 redistribute_bench [MIB [REPETITIONS [FILE.json [CHUNK BYTES]]]]   (256, 15)
#include <mpi.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using cairn::Box;
using cairn::Dims;

std::size_t nth(std::int64_t i) { return static_cast<std::size_t>(i); }

void check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error("MPI fails");
}

/// The boxes that a rank has or wants of a tensor [rows, columns].
using Layout = std::function<std::vector<Box>(const Dims& shape, int rank, int ranks)>;

/// Blocks along a dimension.
Layout blocks(std::size_t dim) {
  return [=](const Dims& shape, int rank, int ranks) {
    auto box = Box::whole(shape);
    box.start[dim] = shape[dim] * rank / ranks;
    box.extent[dim] = shape[dim] * (rank + 1) / ranks - box.start[dim];
    return std::vector{box};
  };
}

/// Blocks of rows, each moved by half a block; what exceeds the end becomes the first half of a
/// block.
std::vector<Box> shifted(const Dims& shape, int rank, int ranks) {
  auto box = blocks(0)(shape, rank, ranks)[0];
  std::vector<Box> boxes;
  box.start[0] += shape[0] / ranks / 2;
  if (box.end(0) > shape[0]) {
    auto front = box;
    front.start[0] = 0;
    front.extent[0] = box.end(0) - shape[0];
    box.extent[0] -= front.extent[0];
    boxes.push_back(front);
  }
  boxes.insert(boxes.begin(), box);
  return boxes;
}

/// Ranks take so many rows in turn; each run of rows is a slice.
Layout cyclic(std::int64_t rows) {
  return [=](const Dims& shape, int rank, int ranks) {
    std::vector<Box> boxes;
    for (auto at = rank * rows; at < shape[0]; at += ranks * rows) {
      auto box = Box::whole(shape);
      box.start[0] = at;
      box.extent[0] = std::min(rows, shape[0] - at);
      boxes.push_back(box);
    }
    return boxes;
  };
}

struct Case {
  const char* name;
  Layout from, to;
};

/// One rank's boxes, one after the other in memory.
struct Side {
  std::vector<Box> boxes;
  std::vector<std::int64_t> begins;
  std::vector<double> memory;

  explicit Side(std::vector<Box> all) : boxes(std::move(all)) {
    std::int64_t size = 0;
    for (const auto& box : boxes) begins.push_back(size), size += box.count();
    memory.assign(nth(size), -1);
  }
  cairn::LocalTensor tensor(const Dims& shape) {
    std::vector<cairn::LocalTensor> parts;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      auto* const begin = memory.data() + begins[b];
      parts.push_back(cairn::slice(begin, shape, boxes[b].start, boxes[b].extent));
    }
    return parts.size() == 1 ? parts[0] : cairn::patches(parts);
  }
  /// Calls visit with each element and its number in the tensor.
  template <class Visit>
  void each(const Dims& shape, const Visit& visit) {
    auto* at = memory.data();
    for (const auto& box : boxes) {
      for (auto i = box.start[0]; i < box.end(0); ++i) {
        for (auto j = box.start[1]; j < box.end(1); ++j) visit(*at++, i * shape[1] + j);
      }
    }
  }
};

/// The parts that a side shares with others' boxes, row by row: addresses and numbers of elements.
using Runs = std::vector<std::pair<double*, std::int64_t>>;

Runs runs_in(Side& side, const std::vector<Box>& others) {
  Runs runs;
  for (const auto& other : others) {
    for (std::size_t b = 0; b < side.boxes.size(); ++b) {
      const auto& box = side.boxes[b];
      const auto common = cairn::intersect(box, other);
      if (!common) continue;
      for (auto i = common->start[0]; i < common->end(0); ++i) {
        auto* row = side.memory.data() + side.begins[b] + (i - box.start[0]) * box.extent[1];
        runs.emplace_back(row + common->start[1] - box.start[1], common->extent[1]);
      }
    }
  }
  return runs;
}

/// Packs, sends and unpacks, with counts and runs that are known beforehand.
class ByHand {
 public:
  ByHand(const Case& one, const Dims& shape, Side& from, Side& to, int ranks)
      : from_(from.memory), to_(to.memory), packed_(from_.size()), arrived_(to_.size()) {
    for (int r = 0; r < ranks; ++r) {
      add(out_, sends_, runs_in(from, one.to(shape, r, ranks)));
      add(in_, receives_, runs_in(to, one.from(shape, r, ranks)));
    }
  }

  /// Sends from unpacked to unpacked memory: the right bytes arrive in the wrong places.
  void send_only() { all_to_all(from_.data(), to_.data()); }

  void run() {
    auto* at = packed_.data();
    for (const auto& [address, count] : out_) at = std::copy_n(address, count, at);
    all_to_all(packed_.data(), arrived_.data());
    const auto* next = arrived_.data();
    for (const auto& [address, count] : in_) {
      std::copy_n(next, count, address);
      next += count;
    }
  }

 private:
  struct Numbers {
    std::vector<int> counts, begins;
  };
  static void add(Runs& all, Numbers& numbers, const Runs& more) {
    std::int64_t count = 0;
    for (const auto& [address, elements] : more) count += elements;
    numbers.begins.push_back(
        numbers.begins.empty() ? 0 : numbers.begins.back() + numbers.counts.back());
    numbers.counts.push_back(static_cast<int>(count));
    all.insert(all.end(), more.begin(), more.end());
  }
  void all_to_all(const double* from, double* to) const {
    check(MPI_Alltoallv(from, sends_.counts.data(), sends_.begins.data(), MPI_DOUBLE, to,
                        receives_.counts.data(), receives_.begins.data(), MPI_DOUBLE,
                        MPI_COMM_WORLD));
  }

  std::vector<double>&from_, &to_;
  std::vector<double> packed_, arrived_;
  Runs out_, in_;
  Numbers sends_, receives_;
};

struct Settings {
  std::int64_t mib;
  int repetitions;
  cairn::RedistributeOptions options;
};

class Bench {
 public:
  explicit Bench(Settings settings) : settings_(std::move(settings)) {}

  nlohmann::json run() {
    if (ranks_.rank() == 0) {
      std::printf("%lld MiB of doubles in rows of 8 KiB on %d ranks, milliseconds\n",
                  static_cast<long long>(settings_.mib), ranks_.size());
      std::printf("%-34s %9s %9s %9s %7s %7s %9s %8s\n", "", "Alltoallv", "by hand", "cairn",
                  "ratio", "hand's", "planning", "buffers");
    }
    for (const auto& one : {Case{"blocks of rows to columns", blocks(0), blocks(1)},
                            Case{"blocks of columns to rows", blocks(1), blocks(0)},
                            Case{"blocks of rows, half a block on", blocks(0), shifted},
                            Case{"blocks of rows to cyclic, by 64", blocks(0), cyclic(64)},
                            Case{"cyclic, by 64, to blocks of rows", cyclic(64), blocks(0)},
                            Case{"blocks of rows to cyclic, by 1", blocks(0), cyclic(1)}}) {
      measure(one);
    }
    return rows_;
  }

 private:
  double timed(const std::function<void()>& what) const {
    ranks_.barrier();
    const double begin = MPI_Wtime();
    what();
    return ranks_.max(MPI_Wtime() - begin);
  }

  static void require(Side& side, const Dims& shape, const char* who) {
    std::int64_t wrong = 0;
    side.each(shape, [&](double& value, std::int64_t at) {
      wrong += value != static_cast<double>(at);
      value = -1;
    });
    if (wrong) throw std::runtime_error(std::string(who) + " moved something wrong");
  }

  void measure(const Case& one) {
    const std::int64_t columns = 1024;
    const Dims shape{settings_.mib * 1024 * 1024 / 8 / columns, columns};
    Side from(one.from(shape, ranks_.rank(), ranks_.size()));
    Side to(one.to(shape, ranks_.rank(), ranks_.size()));
    from.each(shape, [](double& value, std::int64_t at) { value = static_cast<double>(at); });
    ByHand by_hand(one, shape, from, to, ranks_.size());
    cairn::State given, wanted;
    given.add("u", from.tensor(shape));
    wanted.add("u", to.tensor(shape));
    std::optional<cairn::Redistribution> plan;
    const double planned = timed([&] { plan.emplace(group_, given, wanted, settings_.options); });
    const auto report = plan->run();
    require(to, shape, "redistribute");
    by_hand.run();
    require(to, shape, "the program by hand");

    const std::function<void()> contestants[]{[&] { by_hand.send_only(); }, [&] { by_hand.run(); },
                                              [&] { plan->run(); }};
    std::vector<double> seconds[3];
    std::size_t order[]{0, 1, 2};
    for (int i = -1; i < settings_.repetitions; ++i) {  // the first is not counted
      std::shuffle(std::begin(order), std::end(order), random_);
      for (const auto which : order) {
        const double took = timed(contestants[which]);
        if (i >= 0) seconds[which].push_back(took);
      }
    }
    if (ranks_.rank() != 0) return;
    const char* const names[]{"MPI_Alltoallv", "by hand", "Cairn"};
    const auto bytes = static_cast<double>(settings_.mib << 20);
    for (std::size_t i = 0; i < 3; ++i) {
      auto row = cairn::bench::row_of(std::string("redistribute, ") + one.name, names[i],
                                      ranks_.size(), bytes, seconds[i], seconds[0]);
      row["planning"] = planned;
      row["buffers"] = report.buffer_bytes;
      rows_.push_back(row);
    }
    const auto at = rows_.end();
    const auto number = [&](int back, const char* what) {
      return (at - back)->at(what).get<double>();
    };
    std::printf("%-34s %9.1f %9.1f %9.1f %7.2f %7.2f %9.1f %8.2f\n", one.name,
                1e3 * number(3, "median"), 1e3 * number(2, "median"), 1e3 * number(1, "median"),
                number(1, "ratio"), number(2, "ratio"), 1e3 * planned,
                static_cast<double>(report.buffer_bytes) / (1 << 20));
    std::fflush(stdout);
  }

  const Settings settings_;
  const cairn::bench::Ranks ranks_{MPI_COMM_WORLD};
  const std::shared_ptr<cairn::Group> group_ = cairn::mpi(MPI_COMM_WORLD);
  std::mt19937 random_{3};
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    Settings settings{argc > 1 ? std::atoll(argv[1]) : 256, argc > 2 ? std::atoi(argv[2]) : 15, {}};
    if (argc > 4) settings.options.chunk_bytes = std::atoll(argv[4]);
    const auto rows = Bench(settings).run();
    if (!rows.empty()) cairn::bench::write_rows(argc > 3 ? argv[3] : "", rows);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redistribute_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
