// Views in a device's memory: how long save_async blocks, beside a bare copy from the device to
// pinned host memory; saves and restores, beside that copy and plain files. Views row-major, as
// columns come first, and without a halo. Contestants take turns in an order drawn anew; medians,
// and ratios of neighbours in time to the bare way. What was restored is compared bit by bit.
//
//   mpirun -n 2 device_bench DIRECTORY [MIB OF EACH RANK [REPETITIONS [FILE.json]]]
//
// Several ranks share the default device. With a Kokkos that has none all of it is copies in the
// host's memory.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/kokkos.hpp"
#include "cairn/mpi.hpp"
#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;
using Device = Kokkos::DefaultExecutionSpace;
using Memory = Device::memory_space;
using Bytes1 = Kokkos::View<char*, Memory>;
using Pinned = Kokkos::View<char*, kokkos::PinnedSpace>;

// `timed` runs between barriers; before and after are not measured. What `also` does after a part
// that is not measured is added.
struct Way {
  std::string measure, what;
  std::function<void()> before, timed, after = [] {};
  std::function<void()> between = [] {}, also = nullptr;
  std::vector<double> seconds = {};
};

// A View, the elements of it that are a slice, and how a program by hand copies them.
template <class Layout>
struct Rows {
  std::string name;
  Kokkos::View<double**, Layout, Memory> all;
  Kokkos::View<double**, Kokkos::LayoutStride, Memory> part;
};

template <class Layout>
Rows<Layout> rows_of(const std::string& name, std::size_t rows, std::size_t columns,
                     std::size_t halo) {
  const Kokkos::View<double**, Layout, Memory> all("all", rows + 2 * halo, columns + 2 * halo);
  return {name, all,
          Kokkos::subview(all, Kokkos::make_pair(halo, halo + rows),
                          Kokkos::make_pair(halo, halo + columns))};
}

template <class View>
void number(const View& view, double first) {
  const auto columns = view.extent(1);
  Kokkos::parallel_for(
      "number", Kokkos::MDRangePolicy<Device, Kokkos::Rank<2>>({0, 0}, {view.extent(0), columns}),
      KOKKOS_LAMBDA(std::size_t i, std::size_t j) {
        view(i, j) = first + static_cast<double>(i * columns + j);
      });
  Kokkos::fence();
}

template <class View>
std::int64_t wrong(const View& view, double first) {
  const auto columns = view.extent(1);
  std::int64_t sum = 0;
  Kokkos::parallel_reduce(
      "wrong", Kokkos::MDRangePolicy<Device, Kokkos::Rank<2>>({0, 0}, {view.extent(0), columns}),
      KOKKOS_LAMBDA(std::size_t i, std::size_t j, std::int64_t & count) {
        count += view(i, j) != first + static_cast<double>(i * columns + j);
      },
      sum);
  return sum;
}

template <class Layout>
class Bench {
 public:
  Bench(const Ranks& ranks, std::shared_ptr<Group> group, const fs::path& directory,
        Rows<Layout> rows, int repetitions)
      : ranks_(ranks),
        group_(std::move(group)),
        directory_(directory),
        rows_(std::move(rows)),
        repetitions_(repetitions),
        bytes_(rows_.part.extent(0) * rows_.part.extent(1) * sizeof(double)),
        plain_(bytes_),
        pinned_(Kokkos::view_alloc("pinned", Kokkos::WithoutInitializing), bytes_ + page),
        first_(1e9 * ranks.rank()) {
    // Files past the page cache need whole pages.
    pinned_pages_ = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(pinned_.data()) + page - 1) / page * page);
    const auto height = static_cast<std::int64_t>(rows_.part.extent(0));
    const auto width = static_cast<std::int64_t>(rows_.part.extent(1));
    state_.add("u", slice(rows_.part, {height * ranks.size(), width}, {height * ranks.rank(), 0}));
  }

  nlohmann::json run() {
    number(rows_.part, first_);
    contest({copy("copy to pinned memory", pinned_pages_), blocked(),
             released("released when it is written", 1),
             released("released when half is written", 0.5),
             copy("copy to plain memory", plain_.bytes().data())});
    contest({written_by_hand(), saved()});
    contest({read_by_hand(), restored()});
    ranks_.barrier();
    return json_;
  }

 private:
  static constexpr std::size_t page = 4096, piece = std::size_t{8} << 20;
  using Plain = Kokkos::View<char*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using OfDevice = Kokkos::View<char*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  // A contiguous View's bytes are copied as they are. A part without the halo is packed by Kokkos,
  // then copied.
  void to_host(std::byte* host) {
    const Plain to(reinterpret_cast<char*>(host), bytes_);
    if (rows_.all.span() == rows_.part.extent(0) * rows_.part.extent(1)) {
      Kokkos::deep_copy(exec_, to, OfDevice(reinterpret_cast<char*>(rows_.all.data()), bytes_));
    } else {
      Kokkos::deep_copy(exec_, packed(), rows_.part);
      Kokkos::deep_copy(exec_, to, OfDevice(reinterpret_cast<char*>(packed_.data()), bytes_));
    }
    exec_.fence();
  }
  void to_device(const std::byte* host) {
    const Plain from(reinterpret_cast<char*>(const_cast<std::byte*>(host)), bytes_);
    if (rows_.all.span() == rows_.part.extent(0) * rows_.part.extent(1)) {
      Kokkos::deep_copy(exec_, OfDevice(reinterpret_cast<char*>(rows_.all.data()), bytes_), from);
    } else {
      Kokkos::deep_copy(exec_, OfDevice(reinterpret_cast<char*>(packed().data()), bytes_), from);
      Kokkos::deep_copy(exec_, rows_.part, packed_);
    }
    exec_.fence();
  }
  const Kokkos::View<double**, Layout, Memory>& packed() {
    if (!packed_.data()) {
      packed_ = Kokkos::View<double**, Layout, Memory>("packed", rows_.part.extent(0),
                                                       rows_.part.extent(1));
    }
    return packed_;
  }

  Way copy(const std::string& what, std::byte* host) {
    return {"save_async, blocked", what, [] {}, [this, host] { to_host(host); }};
  }

  Way blocked() {
    return {"save_async, blocked", "Cairn",
            [this] {
              if (async_) return;
              open(async_, "async");
              for (int i = 0; i < 3; ++i) {
                async_->save_async(++step_, state_);
                async_->wait();
              }
            },
            [this] { handle_ = async_->save_async(++step_, state_); },
            [this] { committed(*async_); }};
  }
  void committed(CheckpointManager& manager) const {
    manager.wait();
    if (!handle_->blocked_because().empty() || !handle_->committed()) {
      throw std::runtime_error("an asynchronous save was a blocking one: " +
                               handle_->blocked_because());
    }
  }

  // The state stays on the device for this part of the time that the last write took.
  Way released(const std::string& what, double part) {
    const auto manager = std::make_shared<std::unique_ptr<CheckpointManager>>();
    const auto took = std::make_shared<double>(0);
    const auto begin = std::make_shared<double>(0);
    const auto save = [this, manager, begin] {
      *begin = MPI_Wtime();
      handle_ = (*manager)->save_async(++step_, state_, {.until = Until::released});
    };
    const auto written = [this, took, begin] {
      handle_->wait_written();
      ranks_.barrier();
      *took = MPI_Wtime() - *begin;
    };
    return {.measure = "save_async, blocked",
            .what = "Cairn, " + what,
            .before =
                [this, manager, save, written, part] {
                  if (*manager) return;
                  open(*manager, part < 1 ? "half" : "released");
                  for (int i = 0; i < 6; ++i) {
                    save();
                    if (part < 1 && i < 3) handle_->release();  // it takes memory for the rest
                    written();
                    committed(**manager);
                  }
                },
            .timed = save,
            .after =
                [this, manager, written] {
                  written();
                  committed(**manager);
                },
            .between =
                [this, written, took, part] {
                  if (part == 1) return written();
                  std::this_thread::sleep_for(std::chrono::duration<double>(part * *took));
                },
            .also = [this] { handle_->release(); }};
  }

  Way written_by_hand() {
    const auto folder = directory_ / "by hand";
    return {
        "save", "copied to pinned memory, then plain files, O_DIRECT",
        [this, folder] {
          if (fs::exists(folder)) return settle();
          ranks_.barrier();
          if (ranks_.rank() == 0) fs::create_directories(folder);
          ranks_.barrier();
          to_host(pinned_pages_);
          ranks_.write_own(folder, {pinned_pages_, bytes_}, piece, Files::fresh, Cache::bypassed);
          settle();
        },
        [this, folder] {
          to_host(pinned_pages_);
          ranks_.write_own(folder, {pinned_pages_, bytes_}, piece, Files::overwritten,
                           Cache::bypassed);
        }};
  }

  Way saved() {
    return {"save", "Cairn",
            [this] {
              if (!blocking_) {
                open(blocking_, "blocking");
                for (int i = 0; i < 3; ++i) blocking_->save(++step_, state_);
              }
              settle();
            },
            [this] { blocking_->save(++step_, state_); }};
  }

  Way read_by_hand() {
    return {
        "restore", "plain files, O_DIRECT, to pinned memory, then copied", [this] { spoil(); },
        [this] {
          ranks_.read_own(directory_ / "by hand", {pinned_pages_, bytes_}, piece, Cache::bypassed);
          to_device(pinned_pages_);
        },
        [this] { check(); }};
  }

  Way restored() {
    return {"restore", "Cairn", [this] { spoil(); }, [this] { blocking_->restore_latest(state_); },
            [this] { check(); }};
  }

  void spoil() {
    Kokkos::deep_copy(rows_.all, -1.0);
    drop_caches(directory_);
    ranks_.barrier();
  }
  void check() {
    const auto count = wrong(rows_.part, first_);
    if (count) throw std::runtime_error(std::to_string(count) + " elements are wrong");
  }
  void settle() const {
    ranks_.barrier();
    if (ranks_.rank() == 0) sync_file_system(directory_);
    ranks_.barrier();
  }
  void open(std::unique_ptr<CheckpointManager>& manager, const std::string& name) {
    // All bytes are to be written, though they never change.
    manager = std::make_unique<CheckpointManager>(
        group_, directory_ / name,
        ManagerOptions{.keep = {.last = 1}, .write = {.skip_unchanged = SkipUnchanged::off}});
  }

  void contest(std::vector<Way> ways) {
    std::mt19937 random(7);
    std::vector<std::size_t> order(ways.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int turn = -1; turn < repetitions_; ++turn) {  // the first is not counted
      std::shuffle(order.begin(), order.end(), random);
      if (turn < 0) std::sort(order.begin(), order.end());
      for (const auto i : order) {
        ways[i].before();
        ranks_.barrier();
        const double begin = MPI_Wtime();
        ways[i].timed();
        ranks_.barrier();
        double took = ranks_.max(MPI_Wtime() - begin);
        if (ways[i].also) {
          ways[i].between();
          ranks_.barrier();
          const double again = MPI_Wtime();
          ways[i].also();
          ranks_.barrier();
          took += ranks_.max(MPI_Wtime() - again);
        }
        ways[i].after();
        if (turn >= 0) ways[i].seconds.push_back(took);
      }
    }
    if (ranks_.rank() != 0) return;
    const double bytes = static_cast<double>(bytes_) * ranks_.size();
    for (const auto& way : ways) {
      json_.push_back(row_of(way.measure + ", " + rows_.name, way.what, ranks_.size(), bytes,
                             way.seconds, ways[0].seconds));
      std::printf("  %-20s %-56s %8.2f ms %7.2f GB/s  %5.2f\n", way.measure.c_str(),
                  way.what.c_str(), 1e3 * median(way.seconds), 1e-9 * bytes / median(way.seconds),
                  json_.back()["ratio"].template get<double>());
    }
    std::fflush(stdout);
  }

  const Ranks& ranks_;
  std::shared_ptr<Group> group_;
  fs::path directory_;
  Rows<Layout> rows_;
  int repetitions_;
  std::size_t bytes_;
  Pages plain_;
  Pinned pinned_;
  std::byte* pinned_pages_ = nullptr;
  Kokkos::View<double**, Layout, Memory> packed_;
  double first_;
  Device exec_;
  State state_;
  std::int64_t step_ = 0;
  std::unique_ptr<CheckpointManager> async_, blocking_;
  std::optional<SaveHandle> handle_;
  nlohmann::json json_ = nlohmann::json::array();
};

template <class Layout>
void measure(const Ranks& ranks, const std::shared_ptr<Group>& group, const fs::path& directory,
             const std::string& name, std::size_t mib, std::size_t halo, int repetitions,
             nlohmann::json& json) {
  if (ranks.rank() == 0) {
    std::printf("%s, %zu MiB on each of %d ranks, %s\n", name.c_str(), mib, ranks.size(),
                Device::name());
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  ranks.barrier();
  for (const auto& row : Bench<Layout>(ranks, group, directory,
                                       rows_of<Layout>(name, mib * 32, 4096, halo), repetitions)
                             .run()) {
    json.push_back(row);
  }
  ranks.barrier();
  if (ranks.rank() == 0) fs::remove_all(directory);
}

void run(int argc, char** argv) {
  if (argc < 2) {
    throw std::runtime_error("usage: device_bench DIRECTORY [MIB [REPETITIONS [FILE.json]]]");
  }
  const fs::path directory = fs::path(argv[1]) / "cairn_bench";  // which is removed
  const int mib = argc > 2 ? std::atoi(argv[2]) : 1024;
  const int repetitions = argc > 3 ? std::atoi(argv[3]) : 9;
  if (mib < 1 || repetitions < 1) throw std::runtime_error("MIB and REPETITIONS are 1 or more");
  const Ranks ranks(MPI_COMM_WORLD);
  const auto group = mpi(MPI_COMM_WORLD);
  const auto size = static_cast<std::size_t>(mib);
  auto json = nlohmann::json::array();
  measure<Kokkos::LayoutRight>(ranks, group, directory, "row-major", size, 0, repetitions, json);
  measure<Kokkos::LayoutLeft>(ranks, group, directory, "columns first", size, 0, repetitions, json);
  measure<Kokkos::LayoutRight>(ranks, group, directory, "row-major, without a halo", size, 2,
                               repetitions, json);
  measure<Kokkos::LayoutLeft>(ranks, group, directory, "columns first, without a halo", size, 2,
                              repetitions, json);
  if (ranks.rank() == 0) write_rows(argc > 4 ? argv[4] : "", json);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const Kokkos::ScopeGuard kokkos;
    cairn::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
