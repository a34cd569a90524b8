// What a save costs that leaves out the blocks which the overwritten file holds already
// (WriteOptions::skip_unchanged), compared with one that writes all of them: bytes written, and
// seconds. Two managers save the same states in turn; the medians of the turns count, and where
// nothing is unchanged their sums, since some saves look whether something is. A gain depends on
// how much slower than memory the disk is: it is measured with the writes of all ranks together
// limited to 1 GB/s, and on the disk as it is.
//
//   mpirun -n 1 unchanged_bench DIRECTORY [MIB OF EACH RANK [TURNS [FILE.json]]]      (512 24)
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
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/paced.hpp"
#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

constexpr std::size_t elements_a_mib = std::size_t{1} << 17;
constexpr int keeps = 2;  // so the overwritten file is three saves old

class Bench {
 public:
  Bench(std::filesystem::path directory, std::int64_t mib)
      : directory_(std::move(directory)), values_(static_cast<std::size_t>(mib) * elements_a_mib) {}

  // bytes_per_second 0: as fast as the disk is. tenths: of the overwritten file that are unchanged.
  void run(int turns, double bytes_per_second, int tenths) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<double>(i) * 1.5 + ranks_.rank();
    }
    State state;
    const auto count = static_cast<std::int64_t>(values_.size());
    state.add("u", slice(values_.data(), {ranks_.size(), count}, {ranks_.rank(), 0}, {1, count}));
    io::Pace pace(bytes_per_second / ranks_.size());
    ManagerOptions options;
    options.write.file_system =
        std::make_shared<io::PacedFileSystem>(io::posix_file_system(), pace);
    options.keep.last = keeps;
    auto full = options;
    full.write.skip_unchanged = SkipUnchanged::off;
    const auto place = directory_ / std::to_string(run_++);
    CheckpointManager fulls(group_, place / "full", full), skips(group_, place / "skips", options);
    // Until all blocks of a file are known: see KnownBlocks.
    constexpr int first = 4 * (keeps + 1);
    std::vector<double> full_seconds, skip_seconds;
    double full_bytes = 0, skip_bytes = 0;
    for (int step = 1; step <= first + turns; ++step) {
      change(step, tenths);
      double times[2] = {};
      const auto save = [&](bool skip) {
        times[skip] = timed([&] { (skip ? skips : fulls).save(step, state); });
      };
      save(step % 2 == 0), save(step % 2 != 0);
      if (step <= first) continue;
      full_seconds.push_back(times[0]);
      skip_seconds.push_back(times[1]);
      const auto bytes = [](const CheckpointManager& manager) {
        return static_cast<double>(manager.statistics().last.back().bytes);
      };
      full_bytes += bytes(fulls), skip_bytes += bytes(skips);
    }
    report(bytes_per_second, tenths, full_bytes / turns, skip_bytes / turns, full_seconds,
           skip_seconds);
    const auto saved = values_;
    values_.assign(values_.size(), 0);
    skips.restore_latest(state);
    if (values_ != saved) throw std::runtime_error("what was restored is not what was saved");
  }

  const nlohmann::json& rows() const { return rows_; }

 private:
  // Each save changes so many pieces of 1 MiB, at random, that in as many saves as the overwritten
  // file is old no piece changes twice.
  void change(int step, int tenths) {
    if (tenths == 0) return values_.assign(values_.size(), step);
    const auto pieces = values_.size() / elements_a_mib;
    if (order_.size() != pieces) {
      order_.resize(pieces);
      std::iota(order_.begin(), order_.end(), std::size_t{0});
      std::shuffle(order_.begin(), order_.end(), std::mt19937(7));
    }
    const auto changes = pieces * static_cast<std::size_t>(10 - tenths) / 10 / (keeps + 1);
    for (std::size_t i = 0; i < changes; ++i) {
      const auto piece = order_[next_++ % pieces] * elements_a_mib;
      std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(piece), elements_a_mib, step);
    }
  }
  void report(double pace, int tenths, double full_bytes, double skip_bytes,
              const std::vector<double>& full, const std::vector<double>& skip) {
    char what[80];
    std::snprintf(what, sizeof what, "%d tenths unchanged, %s", tenths,
                  pace > 0 ? "1 GB/s" : "the disk as it is");
    rows_.push_back(bench::row_of("save in full", what, ranks_.size(), full_bytes, full, full));
    rows_.push_back(
        bench::row_of("save of what differs", what, ranks_.size(), skip_bytes, skip, full));
    const auto sum = [](const auto& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
    const double together = sum(skip) / sum(full);
    rows_.back()["together"] = together;
    if (ranks_.rank() != 0) return;
    std::printf(
        "%.0f MiB on %d ranks, %s: %.1f %% of the bytes written, %.3f of the time of a full "
        "save (median; of all turns together %.3f), %.4f s of %.4f s\n",
        full_bytes / (1 << 20), ranks_.size(), what, 100 * skip_bytes / full_bytes,
        bench::median_ratio(skip, full), together, bench::median(skip), bench::median(full));
    std::fflush(stdout);
  }
  double timed(const std::function<void()>& what) const {
    ranks_.barrier();
    const double begin = MPI_Wtime();
    what();
    return ranks_.max(MPI_Wtime() - begin);
  }

  const bench::Ranks ranks_{MPI_COMM_WORLD};
  const std::shared_ptr<Group> group_ = cairn::mpi(MPI_COMM_WORLD);
  const std::filesystem::path directory_;
  std::vector<double> values_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  int run_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) throw std::runtime_error("usage: unchanged_bench DIRECTORY [MIB [TURNS [FILE]]]");
    Bench bench(argv[1], argc > 2 ? std::atoll(argv[2]) : 512);
    for (const double pace : {1e9, 0.0}) {
      for (const int tenths : {9, 0}) bench.run(argc > 3 ? std::atoi(argv[3]) : 24, pace, tenths);
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) bench::write_rows(argc > 4 ? argv[4] : "", bench.rows());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unchanged_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
