// Durable saves beside plain files: new files and ones that are overwritten, through the page cache
// and past it.
//
// Contestants take turns within each repetition, in a new order each time. A time runs from a
// barrier to the barrier after the slowest rank; it ends when data and names are synced. The first
// repetition is dropped. CPU seconds are those of all ranks and their threads, not of the kernel's
// own, which write the page cache back.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "raw_io.hpp"

namespace {

namespace fs = std::filesystem;
using cairn::bench::Ranks;

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Contestant {
  std::string what;
  std::function<void()> before, timed, after;
  std::vector<double> seconds = {}, cpu = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

class Bench {
 public:
  Bench(fs::path directory, std::size_t bytes, int repetitions)
      : ranks_(MPI_COMM_WORLD),
        group_(cairn::mpi(MPI_COMM_WORLD)),
        work_(directory / "cairn_write_bench"),
        bytes_(bytes),
        repetitions_(repetitions) {
    // As an application has it, and as a pool has it: on huge pages.
    plain_.resize(bytes);
    auto* all = static_cast<std::byte*>(mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (all == MAP_FAILED) throw std::runtime_error("no memory");
    const auto begin = (reinterpret_cast<std::uintptr_t>(all) + huge_page - 1) / huge_page;
    pool_ = reinterpret_cast<std::byte*>(begin * huge_page);
    madvise(pool_, bytes, MADV_HUGEPAGE);
    std::uint64_t x = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(ranks_.rank() + 1);
    for (std::size_t i = 0; i < bytes; i += 8) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      std::memcpy(plain_.data() + i, &x, 8);
      std::memcpy(pool_ + i, &x, 8);
    }
  }

  void run() {
    if (ranks_.rank() == 0) {
      fs::remove_all(work_);
      fs::create_directories(work_ / "raw");
    }
    ranks_.barrier();
    const auto raw = work_ / "raw";
    ranks_.write_own(raw, plain_, piece);
    for (const bool direct : {false, true}) {
      const std::string how = direct ? ", O_DIRECT, on huge pages" : "";
      const auto source = direct ? cairn::bench::Bytes(pool_, bytes_) : plain_;
      all_.push_back({"raw, new files" + how, [this, raw] { ranks_.remove_own(raw); },
                      [=, this] { ranks_.write_own(raw, source, piece, direct); }, [] {}});
      all_.push_back({"raw, overwritten" + how, [] {},
                      [=, this] { ranks_.overwrite_own(raw, source, piece, direct); }, [] {}});
    }
    for (const bool recycle : {false, true}) {
      for (const auto direct : {cairn::DirectIo::off, cairn::DirectIo::on}) {
        for (const bool pool : {false, true}) {
          const std::string name = std::string(recycle ? "recycled" : "new files") +
                                   (direct == cairn::DirectIo::on ? ", direct" : ", buffered") +
                                   (pool ? ", from a pool" : "");
          auto manager = std::make_shared<cairn::CheckpointManager>(
              group_, work_ / name,
              cairn::ManagerOptions{.max_to_keep = 1, .direct_io = direct, .recycle = recycle});
          all_.push_back({"Cairn, " + name, [] {},
                          [this, manager, pool] {
                            manager->save(++step_, state(pool ? pool_ : plain_.data()));
                          },
                          [] {}});
          if (recycle) {  // two, so that one waits
            for (int i = 0; i < 2; ++i) all_.back().timed();
          }
        }
      }
    }
    compete();
    const auto& names = all_;
    if (ranks_.rank() == 0) report(names);
    all_.clear();
    ranks_.barrier();
    if (ranks_.rank() == 0) fs::remove_all(work_);
  }

 private:
  static constexpr std::size_t piece = std::size_t{1} << 20, huge_page = std::size_t{2} << 20;

  void compete() {
    std::vector<std::size_t> order(all_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(1);  // the same on all ranks
    for (int repetition = -1; repetition < repetitions_; ++repetition) {
      std::shuffle(order.begin(), order.end(), random);
      for (const auto turn : order) {
        auto& one = all_[turn];
        one.before();
        ranks_.barrier();
        if (ranks_.rank() == 0) cairn::bench::sync_file_system(work_);
        ranks_.barrier();
        const double start = MPI_Wtime(), cpu = cpu_seconds();
        one.timed();
        const double mine = cpu_seconds() - cpu;
        ranks_.barrier();
        const double seconds = ranks_.max(MPI_Wtime() - start);
        one.after();
        if (repetition < 0) continue;
        one.seconds.push_back(seconds);
        one.cpu.push_back(mine);
      }
    }
  }

  void report(const std::vector<Contestant>& all) const {
    const auto total = static_cast<double>(bytes_) * ranks_.size();
    std::printf("%d ranks x %zu MiB, %d repetitions\n", ranks_.size(), bytes_ >> 20, repetitions_);
    std::printf("%-44s %27s %9s %9s %6s\n", "", "GB/s: min   median     max", "x new", "x over",
                "CPU s");
    for (const auto& one : all) {
      const auto [fastest, slowest] = std::minmax_element(one.seconds.begin(), one.seconds.end());
      const auto middle = median(one.seconds);
      std::printf("%-44s %11.2f %8.2f %7.2f %9.2f %9.2f %6.3f\n", one.what.c_str(),
                  total / *slowest * 1e-9, total / middle * 1e-9, total / *fastest * 1e-9,
                  median(all[0].seconds) / middle, median(all[1].seconds) / middle,
                  median(one.cpu));
    }
  }

  cairn::State state(std::byte* bytes) {
    const auto n = static_cast<std::int64_t>(bytes_ / sizeof(double));
    cairn::State state;
    state.add("step", step_);
    state.add("u", cairn::slice(cairn::DType::float64, static_cast<void*>(bytes),
                                {ranks_.size(), n}, {ranks_.rank(), 0}, {1, n}));
    return state;
  }

  Ranks ranks_;
  std::shared_ptr<cairn::Group> group_;
  fs::path work_;
  std::size_t bytes_;
  int repetitions_;
  std::vector<std::byte> plain_;
  std::byte* pool_ = nullptr;
  std::int64_t step_ = 0;
  std::vector<Contestant> all_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2 || argc > 4) {
      throw std::runtime_error("usage: mpirun -np N write_bench DIRECTORY [MIB [REPETITIONS]]");
    }
    const auto mib = argc > 2 ? std::stoul(argv[2]) : 256;
    Bench(argv[1], mib << 20, argc > 3 ? std::stoi(argv[3]) : 9).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
