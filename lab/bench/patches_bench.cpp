// How saves and restores of patches grow with their number: rows of 64 bytes, each a patch of its
// own, in no order, as a program gives them that has no ids. Sizes follow each other by factors of
// ten; after one that took longer than a minute there is no larger one.
//
//   mpirun -n 2 patches_bench DIRECTORY [MOST PATCHES OF ALL RANKS [FILE.json]]      (1000000)
#include <mpi.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

constexpr std::int64_t columns = 8;

class Bench {
 public:
  explicit Bench(std::filesystem::path directory) : directory_(std::move(directory)) {}

  void run(std::int64_t most) {
    if (ranks_.rank() == 0) {
      std::printf("patches of 64 bytes on %d ranks, seconds\n%10s %10s %10s %10s\n", ranks_.size(),
                  "patches", "first save", "next save", "restore");
    }
    for (std::int64_t n = 1000; n <= most; n *= 10) {
      if (measure(n) > 60) break;
    }
  }
  const nlohmann::json& rows() const { return rows_; }

 private:
  double timed(const std::function<void()>& what) const {
    ranks_.barrier();
    const double begin = MPI_Wtime();
    what();
    return ranks_.max(MPI_Wtime() - begin);
  }

  double measure(std::int64_t n) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    std::mt19937_64 random(7);
    std::shuffle(all.begin(), all.end(), random);
    const auto from = n * ranks_.rank() / ranks_.size(),
               to = n * (ranks_.rank() + 1) / ranks_.size();
    std::vector<double> values(static_cast<std::size_t>((to - from) * columns));
    const auto fill = [&] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>(all[static_cast<std::size_t>(from) + i / columns]) +
                    static_cast<double>(i % columns) / 16;
      }
    };
    fill();
    std::vector<LocalTensor> parts;
    for (std::int64_t i = from; i < to; ++i) {
      parts.push_back(slice(values.data() + (i - from) * columns, {n, columns},
                            {all[static_cast<std::size_t>(i)], 0}, {1, columns}));
    }
    State state;
    state.add("u", patches(std::move(parts)));
    ManagerOptions options;
    options.keep.last = 1;
    options.write.skip_unchanged = SkipUnchanged::off;  // the state never changes
    // The small sizes take milliseconds, so they have several turns, of which the median counts.
    const int turns = n <= 10000 ? 5 : n <= 100000 ? 3 : 1;
    std::vector<double> seconds[3];
    for (int turn = 0; turn < turns; ++turn) {
      CheckpointManager manager(group_, directory_, options);
      seconds[0].push_back(timed([&] { manager.save(1, state); }));
      seconds[1].push_back(timed([&] { manager.save(2, state); }));
      const auto saved = values;
      std::fill(values.begin(), values.end(), -1);
      bench::drop_caches(directory_);
      seconds[2].push_back(timed([&] { manager.restore_latest(state); }));
      if (values != saved) throw std::runtime_error("what was restored is not what was saved");
      group_->barrier();
      if (ranks_.rank() == 0) std::filesystem::remove_all(directory_);
      group_->barrier();
    }
    const char* const names[]{"first save", "next save", "restore"};
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      auto row =
          bench::row_of(std::string("patches, ") + names[i], std::to_string(n), ranks_.size(),
                        static_cast<double>(8 * columns * n), seconds[i], seconds[i]);
      row["patches"] = n;
      sum += row["median"].get<double>();
      rows_.push_back(row);
    }
    if (ranks_.rank() == 0) {
      std::printf("%10lld %10.4f %10.4f %10.4f\n", static_cast<long long>(n),
                  bench::median(seconds[0]), bench::median(seconds[1]), bench::median(seconds[2]));
      std::fflush(stdout);
    }
    return sum;
  }

  const bench::Ranks ranks_{MPI_COMM_WORLD};
  const std::shared_ptr<Group> group_ = cairn::mpi(MPI_COMM_WORLD);
  const std::filesystem::path directory_;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) throw std::runtime_error("usage: patches_bench DIRECTORY [MOST [FILE]]");
    Bench bench(std::filesystem::path(argv[1]) / "cairn_bench");  // which is removed
    bench.run(argc > 2 ? std::atoll(argv[2]) : 1000000);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) bench::write_rows(argc > 3 ? argv[3] : "", bench.rows());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "patches_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
