// Save and restore beside MPI-IO and plain files, in the same run on the same disk.
//
// Contestants take turns within each repetition, in a new order each time: what one leaves behind
// for the next (freed blocks, a busy disk) is shared out evenly. A time runs from a barrier to the
// barrier after the slowest rank; a save's ends when data and names are synced. What a repetition
// wrote is removed, and the file system synced, between the times. Only Cairn computes and checks
// checksums, and only Cairn commits atomically.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
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

struct Settings {
  fs::path directory;
  std::int64_t bytes_per_rank = std::int64_t{256} << 20;
  int repetitions = 9;
  bool drop_caches = false;
  bool mpi_io = false;
  bool hdf5 = false;
  fs::path json;
};

constexpr const char* usage =
    "usage: mpirun -np N save_restore_bench DIRECTORY [--mib-per-rank 256] [--repetitions 9]\n"
    "         [--drop-caches] [--json FILE] [--mpi-io | --hdf5]\n"
    "--mpi-io: only saves, and only what Cairn's MPI-IO writer is to be compared with.\n"
    "--hdf5: only saves, and only those of HDF5 files.\n"
    "DIRECTORY lies on the file system to be measured; a folder of its own is made and removed in "
    "it.\n";

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw std::runtime_error(word + " needs a value\n" + usage);
      return std::string(argv[++i]);
    };
    if (word == "--mib-per-rank") {
      settings.bytes_per_rank = std::stoll(value()) << 20;
    } else if (word == "--repetitions") {
      settings.repetitions = std::stoi(value());
    } else if (word == "--drop-caches") {
      settings.drop_caches = true;
    } else if (word == "--mpi-io") {
      settings.mpi_io = true;
    } else if (word == "--hdf5") {
#ifndef CAIRN_BENCH_HDF5
      throw std::runtime_error("this program was built without HDF5");
#endif
      settings.hdf5 = true;
    } else if (word == "--json") {
      settings.json = value();
    } else if (word.starts_with("-") || !settings.directory.empty()) {
      throw std::runtime_error("cannot use " + word + "\n" + usage);
    } else {
      settings.directory = word;
    }
  }
  if (settings.directory.empty() || settings.bytes_per_rank <= 0 || settings.repetitions < 1) {
    throw std::runtime_error(usage);
  }
  return settings;
}

// What is timed, and what happens before and after it outside of the time.
struct Contestant {
  std::string measure, what;
  std::function<void()> before, timed, after;
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

constexpr const char* shared_row = "Cairn, Writer::mpi_io, one file";
constexpr const char* laid_out_row = "Cairn, HDF5, laid out";
constexpr const char* datasets_row = "Cairn, HDF5, Writer::hdf5_collective";
constexpr const char* bare_row = "H5Dwrite collective, by hand";

class Bench {
 public:
  Bench(Settings settings, MPI_Comm communicator)
      : settings_(std::move(settings)), ranks_(communicator), group_(cairn::mpi(communicator)) {
    work_ = settings_.directory / "cairn_save_restore_bench";
    source_.resize(static_cast<std::size_t>(settings_.bytes_per_rank));
    // Values of no pattern, different on each rank: no file system or disk can compress them.
    std::uint64_t x = 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(ranks_.rank() + 1);
    for (std::size_t i = 0; i < source_.size(); i += 8) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      std::memcpy(source_.data() + i, &x, 8);
    }
    target_.resize(source_.size());
  }

  void run() {
    fresh_directory(work_);
    compete(saves());
    if (settings_.mpi_io || settings_.hdf5) return remove(work_);
    fresh_directory(work_);
    prepare_restores();
    compete(restores());
    remove(work_);
  }

  // Rank 0. Ratios above 1: faster than the named one.
  void report() const {
    const auto raw = [&](const std::string& measure) {
      const Contestant* best = nullptr;
      for (const auto& one : done_) {
        if (one.measure != measure || !one.what.starts_with("POSIX")) continue;
        if (!best || median(one.seconds) < median(best->seconds)) best = &one;
      }
      return best;
    };
    const auto mpi = [&](const std::string& measure) {
      return &*std::find_if(done_.begin(), done_.end(), [&](const auto& one) {
        return one.measure == measure && one.what.starts_with("MPI");
      });
    };
    const auto total = settings_.bytes_per_rank * ranks_.size();
    const auto speed = [&](double seconds) { return static_cast<double>(total) / seconds * 1e-9; };
    std::printf("%d ranks x %lld MiB, %d repetitions (one more, before them, is dropped), %s\n",
                ranks_.size(), static_cast<long long>(settings_.bytes_per_rank >> 20),
                settings_.repetitions,
                settings_.drop_caches ? "restore after POSIX_FADV_DONTNEED for all"
                                      : "restore from a warm page cache for all");
    std::printf("%-8s %-44s %27s  %8s %9s\n", "", "", "GB/s: min   median     max", "x MPI-IO",
                "x POSIX*");
    auto rows = nlohmann::json::array();
    for (const auto& one : done_) {
      const auto [fastest, slowest] = std::minmax_element(one.seconds.begin(), one.seconds.end());
      const auto middle = median(one.seconds);
      const double to_raw = median(raw(one.measure)->seconds) / middle;
      const double to_mpi = median(mpi(one.measure)->seconds) / middle;
      std::printf("%-8s %-44s %11.2f %8.2f %7.2f  %8.2f %9.2f\n", one.measure.c_str(),
                  one.what.c_str(), speed(*slowest), speed(middle), speed(*fastest), to_mpi,
                  to_raw);
      rows.push_back({{"measure", one.measure},
                      {"what", one.what},
                      {"bytes", total},
                      {"np", ranks_.size()},
                      {"min", speed(*slowest)},
                      {"median", speed(middle)},
                      {"max", speed(*fastest)},
                      {"ratio_to_raw", to_raw},
                      {"ratio_to_mpi_io", to_mpi}});
    }
    std::printf(
        "* ratio of medians to the better POSIX row. Only Cairn, and the row that says so, "
        "checksum.\n");
    const auto tell = [&](const char* ours, const char* bare, const char* text) {
      const auto find = [&](const std::string& what) {
        return std::find_if(done_.begin(), done_.end(),
                            [&](const auto& one) { return one.what == what; });
      };
      const auto one = find(ours), other = find(bare);
      if (one == done_.end() || other == done_.end()) return;
      std::printf("%s: %.2f of %s (ratio of medians; goal 0.95)\n", ours,
                  median(other->seconds) / median(one->seconds), text);
    };
    tell(shared_row, mpi("save")->what.c_str(), "MPI_File_write_at_all");
    tell(laid_out_row, bare_row, "H5Dwrite by hand");
    tell(datasets_row, bare_row, "H5Dwrite by hand");
    if (settings_.json.empty()) return;
    std::ofstream out(settings_.json);
    out << rows.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + settings_.json.string());
  }

 private:
  void compete(std::vector<Contestant> contestants) {
    std::vector<std::size_t> order(contestants.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(1);  // the same on all ranks
    for (int repetition = -1; repetition < settings_.repetitions; ++repetition) {
      std::shuffle(order.begin(), order.end(), random);
      for (const auto turn : order) {
        auto& one = contestants[turn];
        one.before();
        ranks_.barrier();
        const double start = MPI_Wtime();
        one.timed();
        ranks_.barrier();
        const double seconds = ranks_.max(MPI_Wtime() - start);
        one.after();
        if (repetition >= 0) one.seconds.push_back(seconds);
      }
    }
    done_.insert(done_.end(), contestants.begin(), contestants.end());
  }

  std::vector<Contestant> saves() {
    std::vector<Contestant> all;
    const auto dir = work_ / "save";
    const auto fresh = [this, dir] { fresh_directory(dir); };
    const auto gone = [this, dir] { remove(dir); };
#ifdef CAIRN_BENCH_HDF5
    if (settings_.hdf5) {
      for (const auto writer : {cairn::Writer::posix, cairn::Writer::hdf5_collective}) {
        all.push_back({"save", writer == cairn::Writer::posix ? laid_out_row : datasets_row,
                       [this, fresh, writer] {
                         fresh();
                         manager_ = std::make_unique<cairn::CheckpointManager>(
                             group_, work_ / "save",
                             cairn::ManagerOptions{.max_to_keep = 1,
                                                   .format = cairn::Format::hdf5,
                                                   .writer = writer});
                       },
                       [this] { manager_->save(++step_, state(source_)); },
                       [this, gone] {
                         manager_.reset();
                         gone();
                       }});
      }
      all.push_back(
          {"save", bare_row, fresh, [this, dir] { ranks_.write_hdf5(dir, source_); }, gone});
      all.push_back({"save", "MPI_File_write_at_all, one file", fresh,
                     [this, dir] { ranks_.write_collective(dir, source_); }, gone});
      all.push_back({"save", "POSIX, a file a rank, one call", fresh,
                     [this, dir] { ranks_.write_own(dir, source_, source_.size()); }, gone});
      return all;
    }
#endif
    all.push_back({"save", "Cairn",
                   [this, fresh] {
                     fresh();
                     make_manager(work_ / "save");
                   },
                   [this] { manager_->save(++step_, state(source_)); },
                   [this, gone] {
                     manager_.reset();
                     gone();
                   }});
    all.push_back(
        {"save", shared_row,
         [this, fresh] {
           fresh();
           cairn::ManagerOptions options{.max_to_keep = 1, .writer = cairn::Writer::mpi_io};
           options.mpi_io.files = 1;
           manager_ = std::make_unique<cairn::CheckpointManager>(group_, work_ / "save", options);
         },
         [this] { manager_->save(++step_, state(source_)); },
         [this, gone] {
           manager_.reset();
           gone();
         }});
    all.push_back({"save", "MPI_File_write_at_all, one file", fresh,
                   [this, dir] { ranks_.write_collective(dir, source_); }, gone});
    for (const auto piece : {std::size_t{1} << 20, std::size_t{4} << 20, source_.size()}) {
      all.push_back({"save", "POSIX, a file a rank, " + piece_text(piece), fresh,
                     [this, dir, piece] { ranks_.write_own(dir, source_, piece); }, gone});
      if (settings_.mpi_io) return all;
    }
    replacements(all);
    return all;
  }

  // In a long run each save also removes what the one before it left.
  void replacements(std::vector<Contestant>& all) {
    const auto settled = [this] { settle(); };
    all.push_back({"replace", "Cairn, max_to_keep = 1",
                   [this] {
                     if (!keeper_) keeper_ = manager(work_ / "keep");
                   },
                   [this] { keeper_->save(++step_, state(source_)); }, settled});
    const auto next = [this](const std::string& name) {
      remove(work_ / (name + "-new"));
      if (ranks_.rank() == 0) {
        fs::create_directories(work_ / (name + "-old"));
        fs::create_directories(work_ / (name + "-new"));
      }
      settle();
    };
    const auto age = [this](const std::string& name) {
      remove(work_ / (name + "-old"));
      if (ranks_.rank() == 0) fs::rename(work_ / (name + "-new"), work_ / (name + "-old"));
      settle();
    };
    all.push_back({"replace", "MPI_File_write_at_all, one file", [next] { next("mpi"); },
                   [this] {
                     ranks_.write_collective(work_ / "mpi-new", source_);
                     ranks_.remove_collective(work_ / "mpi-old");
                   },
                   [age] { age("mpi"); }});
    all.push_back({"replace", "POSIX, a file a rank, pieces of 1 MiB", [next] { next("own"); },
                   [this] {
                     ranks_.write_own(work_ / "own-new", source_, std::size_t{1} << 20);
                     ranks_.remove_own(work_ / "own-old");
                   },
                   [age] { age("own"); }});
  }

  void prepare_restores() {
    fresh_directory(work_ / "save");
    fresh_directory(work_ / "raw");
    manager(work_ / "save")->save(1, state(source_));
    ranks_.write_collective(work_ / "raw", source_);
    ranks_.write_own(work_ / "raw", source_, source_.size());
    keeper_.reset();
    settle();
  }

  std::vector<Contestant> restores() {
    std::vector<Contestant> all;
    const auto poison = [this] {
      std::fill(target_.begin(), target_.end(), std::byte{0xcd});
      if (settings_.drop_caches && ranks_.rank() == 0) cairn::bench::drop_caches(work_);
    };
    const auto check = [this] {
      if (target_ != source_) throw std::runtime_error("what was read is not what was written");
      manager_.reset();
    };
    const auto raw = work_ / "raw";
    all.push_back({"restore", "Cairn",
                   [this, poison] {
                     make_manager(work_ / "save");
                     poison();
                   },
                   [this] { restore_latest(); }, check});
    // As a job that starts does it: the directory is locked, recovered and looked through first.
    all.push_back({"restore", "Cairn, opening the directory as well", poison,
                   [this] {
                     make_manager(work_ / "save");
                     restore_latest();
                   },
                   check});
    all.push_back({"restore", "MPI_File_read_at_all, one file", poison,
                   [this, raw] { ranks_.read_collective(raw, target_); }, check});
    all.push_back({"restore", "by hand, a file a rank, with CRC-32C", poison,
                   [this, raw] { crc_ = ranks_.read_own_checked(raw, target_); }, check});
    for (const auto piece : {std::size_t{1} << 20, source_.size()}) {
      all.push_back({"restore", "POSIX, a file a rank, " + piece_text(piece), poison,
                     [this, raw, piece] { ranks_.read_own(raw, target_, piece); }, check});
    }
    return all;
  }

  static std::string piece_text(std::size_t bytes) {
    return bytes <= (std::size_t{4} << 20) ? "pieces of " + std::to_string(bytes >> 20) + " MiB"
                                           : "one call";
  }

  cairn::State state(std::vector<std::byte>& bytes) {
    const auto n = static_cast<std::int64_t>(bytes.size() / sizeof(double));
    cairn::State state;
    state.add("step", step_);
    state.add("u", cairn::slice(cairn::DType::float64, static_cast<void*>(bytes.data()),
                                {ranks_.size(), n}, {ranks_.rank(), 0}, {1, n}));
    return state;
  }

  std::unique_ptr<cairn::CheckpointManager> manager(const fs::path& directory) {
    return std::make_unique<cairn::CheckpointManager>(group_, directory,
                                                      cairn::ManagerOptions{.max_to_keep = 1});
  }
  void restore_latest() {
    auto wanted = state(target_);
    if (!manager_->restore_latest(wanted)) throw std::runtime_error("there is no checkpoint");
  }
  void make_manager(const fs::path& directory) { manager_ = manager(directory); }

  // Leaves nothing to be written back in somebody else's time.
  void settle() {
    ranks_.barrier();
    if (ranks_.rank() == 0) cairn::bench::sync_file_system(settings_.directory);
    ranks_.barrier();
  }
  void remove(const fs::path& directory) {
    ranks_.barrier();
    if (ranks_.rank() == 0) fs::remove_all(directory);
    settle();
  }
  void fresh_directory(const fs::path& directory) {
    remove(directory);
    if (ranks_.rank() == 0) fs::create_directories(directory);
    settle();
  }

  Settings settings_;
  Ranks ranks_;
  std::shared_ptr<cairn::Group> group_;
  fs::path work_;
  std::vector<std::byte> source_, target_;
  std::int64_t step_ = 0;
  std::uint32_t crc_ = 0;
  std::unique_ptr<cairn::CheckpointManager> manager_, keeper_;
  std::vector<Contestant> done_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    Bench bench(parse(argc, argv), MPI_COMM_WORLD);
    bench.run();
    if (rank == 0) bench.report();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_restore_bench, rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
