// What a save costs of which nine tenths are frozen (docs/frozen.md), beside a full save of the
// same state in the same run: bytes written, and seconds. Turns of both follow each other; of each
// the median counts.
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

#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

class Bench {
 public:
  Bench(std::filesystem::path directory, std::int64_t mib)
      : directory_(std::move(directory)), elements_(mib * (std::int64_t{1} << 17)) {}

  void run(int turns) {
    std::vector<double> head(static_cast<std::size_t>(elements_ / 10)),
        base(static_cast<std::size_t>(elements_ - elements_ / 10));
    for (std::size_t i = 0; i < base.size(); ++i) {
      base[i] = static_cast<double>(i) * 1.5 + ranks_.rank();
    }
    State state;
    add(state, "head", head);
    add(state, "base", base);
    ManagerOptions full;
    full.keep.last = 2;
    full.frozen.read_every = 0;
    auto frozen = full;
    frozen.frozen.keys = {"base"};
    CheckpointManager wholes(group_, directory_ / "full", full),
        shares(group_, directory_ / "frozen", frozen);
    // Later ones overwrite what expired ones left, which is what a full save is to be compared
    // with.
    constexpr int first = 4;
    for (int step = 1; step <= first + turns; ++step) {
      head.assign(head.size(), step);
      const auto whole = timed([&] { wholes.save(step, state); });
      const auto shared = timed([&] { shares.save(step, state); });
      if (step <= first) continue;
      whole_.push_back(whole);
      shared_.push_back(shared);
    }
    const auto bytes = [](const CheckpointManager& manager) {
      return static_cast<double>(manager.statistics().last.back().bytes);
    };
    whole_bytes_ = bytes(wholes), shared_bytes_ = bytes(shares);
    const auto saved = base;
    base.assign(base.size(), 0);
    shares.restore_latest(state);
    if (base != saved) throw std::runtime_error("what was restored is not what was saved");
  }

  void report(const std::string& file) const {
    if (ranks_.rank() != 0) return;
    const auto whole = bench::median(whole_), shared = bench::median(shared_);
    std::printf(
        "%.0f MiB on %d ranks, nine tenths frozen: %.1f %% of the bytes written (at most "
        "11), %.3f of the time of a full save (at most 0.2): %.4f s of %.4f s\n",
        whole_bytes_ / (1 << 20), ranks_.size(), 100 * shared_bytes_ / whole_bytes_, shared / whole,
        shared, whole);
    auto rows = nlohmann::json::array();
    rows.push_back(bench::row_of("save in full", "", ranks_.size(), whole_bytes_, whole_, whole_));
    rows.push_back(bench::row_of("save, nine tenths frozen", "", ranks_.size(), shared_bytes_,
                                 shared_, whole_));
    bench::write_rows(file, rows);
  }

 private:
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
  std::vector<double> whole_, shared_;
  double whole_bytes_ = 0, shared_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) throw std::runtime_error("usage: frozen_bench DIRECTORY [MIB [TURNS [FILE]]]");
    Bench bench(argv[1], argc > 2 ? std::atoll(argv[2]) : 256);
    bench.run(argc > 3 ? std::atoi(argv[3]) : 5);
    bench.report(argc > 4 ? argv[4] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "frozen_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
