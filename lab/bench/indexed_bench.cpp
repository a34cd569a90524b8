// Rows by global id beside a block of the same bytes: saves into new files and over files that are
// there, and restores with an empty page cache; with the plan of the exchange kept, and made anew.
// Contestants take turns in an order drawn anew; medians, and ratios to the block.
//
//   mpirun -n 2 indexed_bench DIRECTORY [MILLIONS OF ROWS OF ALL RANKS [REPETITIONS [FILE.json]]]
#include <mpi.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

constexpr std::int64_t columns = 8;  // of doubles: rows of 64 bytes

double value(std::int64_t id, std::int64_t column) {
  return std::sqrt(static_cast<double>(id * columns + column));
}

// Every rank has the same number of rows; their ids are scattered, in no order.
std::vector<std::int64_t> scattered(std::int64_t rows, int rank, int ranks) {
  std::vector<std::int64_t> ids;
  std::mt19937_64 random(7);
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::shuffle(all.begin(), all.end(), random);
  return {all.begin() + rank * rows / ranks, all.begin() + (rank + 1) * rows / ranks};
}

struct Contestant {
  std::string name;
  std::function<void()> save, restore;
  std::vector<double> saves = {}, restores = {};
};

class Bench {
 public:
  Bench(const std::filesystem::path& directory, std::int64_t rows, int repetitions)
      : ranks_(MPI_COMM_WORLD),
        group_(cairn::mpi(MPI_COMM_WORLD)),
        directory_(directory),
        rows_(rows),
        repetitions_(repetitions),
        list_(scattered(rows, ranks_.rank(), ranks_.size())),
        values_(list_.size() * columns) {
    fill(list_);
  }

  void run() {
    for (const bool recycle : {false, true}) {
      const auto what = recycle ? "over files that are there" : "new files";
      turns(what, contestants(recycle), recycle);
    }
  }
  const nlohmann::json& rows() const { return json_; }

 private:
  void fill(const std::vector<std::int64_t>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        values_[i * columns + static_cast<std::size_t>(k)] = value(ids[i], k);
      }
    }
  }
  void require(const std::vector<std::int64_t>& ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        if (values_[i * columns + static_cast<std::size_t>(k)] != value(ids[i], k)) {
          throw std::runtime_error("what was restored is not what was saved");
        }
      }
    }
  }
  // Switches to another list, so that what is known of the last one is of no use.
  void exchange_two() {
    std::swap(list_[0], list_[1]);
    for (std::size_t k = 0; k < columns; ++k) std::swap(values_[k], values_[columns + k]);
  }

  std::vector<Contestant> contestants(bool recycle) {
    ManagerOptions options;
    options.keep.last = 1;
    options.write.skip_unchanged = SkipUnchanged::off;  // the state never changes
    options.write.recycle = recycle;
    const auto held = static_cast<std::int64_t>(list_.size());
    std::vector<Contestant> all;
    const auto add = [&](const std::string& name, const std::function<void(State&)>& fill,
                         const std::function<void()>& before) {
      auto state = std::make_shared<State>();
      fill(*state);
      auto manager = std::make_shared<CheckpointManager>(
          group_, directory_ / std::to_string(all.size()), options);
      auto step = std::make_shared<std::int64_t>(0);
      all.push_back({name,
                     [=, this] {
                       before();
                       timed_ = [=, this] { manager->save(++*step, *state); };
                     },
                     [=, this] {
                       before();
                       timed_ = [=, this] { manager->restore_latest(*state); };
                     }});
    };
    const auto block = [=, this](State& state, Storage storage) {
      state.add(
          "u", stored(storage, slice(values_.data(), {rows_, columns},
                                     {ranks_.rank() * rows_ / ranks_.size(), 0}, {held, columns})));
    };
    const auto rows = [=, this](State& state) {
      state.add("u", indexed(ids(&list_), std::span(values_), {columns}));
    };
    const auto nothing = [] {};
    add(
        "block", [&](State& state) { block(state, Storage::automatic); }, nothing);
    add(
        "block, dense", [&](State& state) { block(state, Storage::dense); }, nothing);
    add("by id, plan kept", rows, nothing);
    add("by id, first time", rows, [this] { exchange_two(); });
    return all;
  }

  double time() const {
    ranks_.barrier();
    const auto begin = MPI_Wtime();
    timed_();
    return ranks_.max(MPI_Wtime() - begin);
  }

  void turns(const char* what, std::vector<Contestant> all, bool restores) {
    std::mt19937 random(3);
    std::vector<std::size_t> order(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) order[i] = i;
    for (int turn = -2; turn < repetitions_; ++turn) {  // two to begin with
      std::shuffle(order.begin(), order.end(), random);
      for (const auto i : order) {
        auto& one = all[i];
        one.save();
        bench::sync_file_system(directory_);
        const auto saved = time();
        if (turn >= 0) one.saves.push_back(saved);
        if (!restores) continue;
        one.restore();
        const auto ids = list_;
        std::fill(values_.begin(), values_.end(), -1);
        bench::drop_caches(directory_);
        const auto restored = time();
        require(ids);
        if (turn >= 0) one.restores.push_back(restored);
      }
    }
    print("save, ", what, all, &Contestant::saves);
    if (restores) print("restore", "", all, &Contestant::restores);
    all.clear();
    group_->barrier();
    if (ranks_.rank() == 0) std::filesystem::remove_all(directory_);
    group_->barrier();
  }

  void print(const char* verb, const char* what, const std::vector<Contestant>& all,
             std::vector<double> Contestant::*times) {
    if (ranks_.rank() != 0) return;
    std::printf("%s%s, %lld rows of %lld bytes on %d ranks\n", verb, what,
                static_cast<long long>(rows_), static_cast<long long>(8 * columns), ranks_.size());
    const auto bytes = static_cast<double>(rows_ * 8 * columns);
    for (const auto& one : all) {
      const auto row = bench::row_of(std::string("indexed, ") + verb + what, one.name,
                                     ranks_.size(), bytes, one.*times, all.front().*times);
      const auto seconds = row["median"].get<double>();
      std::printf("  %-20s %7.3f s (%.3f to %.3f)  %5.2f GB/s  %5.2f of the block's time\n",
                  one.name.c_str(), seconds, row["min"].get<double>(), row["max"].get<double>(),
                  bytes / seconds * 1e-9, row["ratio"].get<double>());
      json_.push_back(row);
    }
    std::fflush(stdout);
  }

  bench::Ranks ranks_;
  std::shared_ptr<Group> group_;
  std::filesystem::path directory_;
  std::int64_t rows_;
  int repetitions_;
  std::vector<std::int64_t> list_;
  std::vector<double> values_;
  std::function<void()> timed_;
  nlohmann::json json_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2)
      throw std::runtime_error("usage: indexed_bench DIRECTORY [MILLIONS [REPETITIONS [FILE]]]");
    const auto millions = argc > 2 ? std::atof(argv[2]) : 10;
    const auto repetitions = argc > 3 ? std::atoi(argv[3]) : 9;
    Bench bench(std::filesystem::path(argv[1]) / "cairn_bench",  // which is removed
                static_cast<std::int64_t>(millions * 1e6), repetitions);
    bench.run();
    if (!bench.rows().empty()) bench::write_rows(argc > 4 ? argv[4] : "", bench.rows());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "indexed_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
