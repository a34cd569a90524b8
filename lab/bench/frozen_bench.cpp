// What a save costs of which nine tenths are frozen (docs/frozen.md), compared with a full save of
// the same state in the same run: bytes written, and seconds. The turns of both alternate; the
// median of each counts. Frozen bytes are hashed in memory, so the gain depends on how much slower
// than memory the disk is: it is measured on the disk as it is, and with the writes of each rank
// limited to 0.5 GB/s.
//
//   mpirun -n 2 frozen_bench DIRECTORY [MIB OF EACH RANK [TURNS [FILE.json]]]      (256 5)
#include <mpi.h>

#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/paced.hpp"
#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

class Bench {
 public:
  Bench(std::filesystem::path directory, std::int64_t mib)
      : directory_(std::move(directory)), elements_(mib * (std::int64_t{1} << 17)) {}

  // bytes_per_second 0: as fast as the disk is.
  void run(int turns, double bytes_per_second) {
    std::vector<double> head(static_cast<std::size_t>(elements_ / 10)),
        base(static_cast<std::size_t>(elements_ - elements_ / 10));
    for (std::size_t i = 0; i < base.size(); ++i) {
      base[i] = static_cast<double>(i) * 1.5 + ranks_.rank();
    }
    State state;
    add(state, "head", head);
    add(state, "base", base);
    io::Pace pace(bytes_per_second);
    ManagerOptions full;
    full.write.file_system = std::make_shared<io::PacedFileSystem>(io::posix_file_system(), pace);
    full.keep.last = 2;
    full.frozen.read_every = 0;
    full.write.skip_unchanged = SkipUnchanged::off;
    auto frozen = full;
    frozen.frozen.keys = {"base"};
    const auto place = directory_ / std::to_string(pace_++);
    CheckpointManager wholes(group_, place / "full", full),
        shares(group_, place / "frozen", frozen);
    // Later saves overwrite files of expired ones, which is what a full save is compared with.
    constexpr int first = 4;
    std::vector<double> whole_seconds, shared_seconds;
    for (int step = 1; step <= first + turns; ++step) {
      head.assign(head.size(), step);
      const auto whole = timed([&] { wholes.save(step, state); });
      const auto shared = timed([&] { shares.save(step, state); });
      if (step <= first) continue;
      whole_seconds.push_back(whole);
      shared_seconds.push_back(shared);
    }
    const auto bytes = [](const CheckpointManager& manager) {
      return static_cast<double>(manager.statistics().last.back().bytes);
    };
    report(bytes_per_second, bytes(wholes), bytes(shares), whole_seconds, shared_seconds);
    const auto saved = base;
    base.assign(base.size(), 0);
    shares.restore_latest(state);
    if (base != saved) throw std::runtime_error("what was restored is not what was saved");
  }

  const nlohmann::json& rows() const { return rows_; }

 private:
  void report(double pace, double whole_bytes, double shared_bytes,
              const std::vector<double>& whole, const std::vector<double>& shared) {
    char what[40] = "the disk as it is";
    if (pace > 0) std::snprintf(what, sizeof what, "%.1f GB/s a rank", pace / 1e9);
    rows_.push_back(bench::row_of("save in full", what, ranks_.size(), whole_bytes, whole, whole));
    rows_.push_back(bench::row_of("save, nine tenths frozen", what, ranks_.size(), shared_bytes,
                                  shared, whole));
    if (ranks_.rank() != 0) return;
    std::printf(
        "%.0f MiB on %d ranks, nine tenths frozen, %s: %.1f %% of the bytes written (goal: "
        "at most 11), %.3f of the time of a full save (goal: at most 0.2), %.4f s of "
        "%.4f s\n",
        whole_bytes / (1 << 20), ranks_.size(), what, 100 * shared_bytes / whole_bytes,
        bench::median_ratio(shared, whole), bench::median(shared), bench::median(whole));
    std::fflush(stdout);
  }
  void add(State& state, const char* key, std::vector<double>& values) const {
    const auto count = static_cast<std::int64_t>(values.size());
    state.add(key, slice(values.data(), {ranks_.size(), count}, {ranks_.rank(), 0}, {1, count}));
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
  const std::int64_t elements_;
  int pace_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) throw std::runtime_error("usage: frozen_bench DIRECTORY [MIB [TURNS [FILE]]]");
    Bench bench(argv[1], argc > 2 ? std::atoll(argv[2]) : 256);
    for (const double pace : {0.0, 0.5e9}) bench.run(argc > 3 ? std::atoi(argv[3]) : 5, pace);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) bench::write_rows(argc > 4 ? argv[4] : "", bench.rows());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "frozen_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
