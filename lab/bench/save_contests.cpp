#include "arena.hpp"
#include "base/checksum.hpp"
#include "cairn/mpi.hpp"
#include "io/file_system.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* first = "save, new files";
constexpr const char* steady = "save, steady";

// A directory that keeps one checkpoint, and its manager, which lives as long.
struct Keeper {
  Arena& arena;
  fs::path directory;
  ManagerOptions options;
  State state;  // made once, as an application does
  std::optional<CheckpointManager> manager = std::nullopt;

  void open() { manager.emplace(arena.group, directory, options); }
  void save() { manager->save(++arena.step, state); }
  // Several saves, so that files of a checkpoint wait for the next.
  void warm_up() {
    if (manager) return;
    open();
    for (int i = 0; i < 3; ++i) save();
  }
};

using KeeperPtr = std::shared_ptr<Keeper>;

KeeperPtr keeper(Arena& arena, const std::string& name, ManagerOptions options,
                 Sample* sample = nullptr) {
  options.keep.last = 1;
  // The state never changes, and its bytes are to be written.
  options.write.skip_unchanged = SkipUnchanged::off;
  return std::make_shared<Keeper>(Keeper{arena, arena.work / name, std::move(options),
                                         (sample ? sample : &arena.source)->state()});
}

Contestant first_save(const std::string& what, KeeperPtr keeper) {
  return {.measure = first,
          .what = what,
          .before =
              [keeper] {
                keeper->arena.fresh(keeper->directory);
                keeper->open();
                keeper->arena.settle();
              },
          .timed = [keeper] { keeper->save(); },
          .after =
              [keeper] {
                keeper->manager.reset();
                keeper->arena.remove(keeper->directory);
              }};
}

Contestant steady_save(const std::string& what, KeeperPtr keeper) {
  return {.measure = steady,
          .what = what,
          .before =
              [keeper] {
                keeper->warm_up();
                keeper->arena.settle();
              },
          .timed = [keeper] { keeper->save(); }};
}

// The same by hand: write(directory, how), in a folder of its own.
template <class Write>
void by_hand_fresh(Contestants& all, Arena& arena, const std::string& what, bool yardstick,
                   Write write) {
  const auto folder = arena.work / ("by hand " + std::to_string(all.size()));
  all.push_back({.measure = first,
                 .what = what,
                 .before = [&arena, folder] { arena.fresh(folder); },
                 .timed = [folder, write] { write(folder, Files::fresh); },
                 .after = [&arena, folder] { arena.remove(folder); },
                 .yardstick = yardstick});
}

// Overwrites existing files: always the same, or, as saves must, several sets in turn.
template <class Write>
void by_hand_again(Contestants& all, Arena& arena, const std::string& what, bool yardstick,
                   Write write, int sets = 1) {
  const auto folder = arena.work / ("by hand again " + std::to_string(all.size()));
  const auto set = [folder](int i) { return folder / std::to_string(i); };
  all.push_back({.measure = steady,
                 .what = what,
                 .before =
                     [&arena, folder, set, write, sets] {
                       const bool is_there = fs::exists(folder);
                       arena.ranks.barrier();
                       for (int i = 0; i < sets && !is_there; ++i) {
                         arena.fresh(set(i));
                         write(set(i), Files::fresh);
                       }
                       arena.settle();
                     },
                 .timed = [set, write, sets,
                           turn = 0]() mutable { write(set(turn++ % sets), Files::overwritten); },
                 .yardstick = yardstick});
}

template <class Write>
void by_hand(Contestants& all, Arena& arena, const std::string& what, bool yardstick, Write write,
             bool overwrite = true) {
  by_hand_fresh(all, arena, what, yardstick, write);
  if (overwrite) by_hand_again(all, arena, what, yardstick, write);
}

void raw(Contestants& all, Arena& arena, bool overwrite = true) {
  by_hand(
      all, arena, "POSIX by hand, a file a rank", true,
      [&arena](const fs::path& folder, Files files) {
        arena.ranks.write_own(folder, arena.plain.bytes(), buffered_piece, files);
      },
      overwrite);
  const auto direct = [&arena](const fs::path& folder, Files files) {
    arena.ranks.write_own(folder, arena.plain.bytes(), direct_piece, files, Cache::bypassed);
  };
  by_hand(all, arena, "POSIX by hand, a file a rank, O_DIRECT", true, direct, overwrite);
  if (overwrite) {
    by_hand_again(all, arena, "POSIX by hand, O_DIRECT, two sets in turn", false, direct, 2);
    by_hand_again(
        all, arena, "POSIX by hand, O_DIRECT, four requests at a time", false,
        [&arena](const fs::path& folder, Files files) {
          if (files == Files::fresh) {
            arena.ranks.write_own(folder, arena.plain.bytes(), direct_piece, files,
                                  Cache::bypassed);
          } else {
            arena.ranks.overwrite_own_at_once(folder, arena.plain.bytes(), direct_piece, 4);
          }
        },
        1);
  }
}

// The work that a save cannot avoid if memory is not aligned to pages: raw writes with a copy and
// checksums, over the files of the checkpoint before the last.
void raw_copied(Contestants& all, Arena& arena) {
  const auto state = std::make_shared<UnalignedCopy>(arena.plain.bytes());
  const auto write = [&arena, state](const fs::path& folder, Files files) {
    arena.ranks.write_own_copied(folder, state->bytes(), files);
  };
  by_hand_fresh(all, arena, "POSIX by hand, O_DIRECT, copied and checksummed", false, write);
  by_hand_again(all, arena, "POSIX by hand, copied and checksummed, two in turn", false, write, 2);
  const auto folder = arena.work / "by hand, committed";
  const auto step = std::make_shared<int>(0);
  const auto commit = [&arena, state, folder, step] {
    arena.ranks.commit_own_copied(folder, state->bytes(), (*step)++);
  };
  all.push_back({.measure = steady,
                 .what = "POSIX by hand, copied, checksummed and committed",
                 .before =
                     [&arena, folder, step, commit] {
                       if (*step == 0) {
                         arena.fresh(folder);
                         for (int i = 0; i < 3; ++i) commit();
                       }
                       arena.settle();
                     },
                 .timed = commit});
}

void mpi_io(Contestants& all, Arena& arena, bool overwrite = true) {
  by_hand(
      all, arena, "MPI_File_write_at_all by hand, one file", false,
      [&arena](const fs::path& folder, Files files) {
        arena.ranks.write_collective(folder, arena.plain.bytes(), files);
      },
      overwrite);
}

void hdf5([[maybe_unused]] Contestants& all, [[maybe_unused]] Arena& arena,
          [[maybe_unused]] bool overwrite = true) {
#ifdef CAIRN_BENCH_HDF5
  const auto datasets = arena.source.datasets();
  by_hand(
      all, arena, "H5Dwrite by hand, collective", false,
      [&arena, datasets](const fs::path& folder, Files files) {
        arena.ranks.write_hdf5(folder, datasets, files);
      },
      overwrite);
#endif
}

// What a steady save does with the bytes of a rank: it overwrites a file in pieces, each with its
// part of the checksum; the other variant, which no save uses, has none. Both alternate within one
// turn: two turns of the same variant differ by more than a checksum costs.
Contestant pieces(Arena& arena) {
  static constexpr std::array with_checksums{true, false, false, true, true, false, false, true};
  const auto file = arena.work / ("pieces" + std::to_string(arena.ranks.rank()));
  const auto write = [&arena, file](bool checks) {
    const auto files = io::posix_file_system();
    const auto to = io::exists(*files, file) ? files->open_write(file) : files->create(file);
    to->stream(DirectIo::automatic);
    std::uint32_t crc = 0;
    std::int64_t end = 0;
    // The bytes do not begin on a page, like an application's memory.
    for (auto rest = Bytes(arena.plain.bytes()).subspan(64); !rest.empty();) {
      const auto piece = rest.first(std::min<std::size_t>(cached_bytes, rest.size()));
      if (checks) crc = crc32c(piece, crc);
      to->write_behind(end, piece);
      end += static_cast<std::int64_t>(piece.size());
      rest = rest.subspan(piece.size());
    }
    [[maybe_unused]] volatile auto kept = crc;
    to->sync();
    to->close();
  };
  const auto times = std::make_shared<std::array<Time, 2>>();
  return {.measure = "checksum",
          .what = "pieces of a save, with checksums",
          .before =
              [&arena, file, write] {
                if (!fs::exists(file)) write(true);
                arena.settle();
              },
          .timed =
              [&arena, write, times, turn = 0]() mutable {
                // The disk rested before the first variant: each is the first in every second turn.
                const bool other = turn++ % 2 == 1;
                *times = {};
                for (const bool first : with_checksums) {
                  const bool checks = first != other;
                  arena.ranks.barrier();
                  const auto start = now();
                  write(checks);
                  arena.ranks.barrier();
                  const auto took = now() - start;
                  (*times)[checks].seconds += took.seconds;
                  (*times)[checks].cpu_seconds += took.cpu_seconds;
                }
              },
          .against = steady,
          .bytes = static_cast<double>(with_checksums.size()) / 2 *
                   static_cast<double>(arena.recipe.bytes()),
          .time = [times] { return (*times)[true]; },
          .also =
              [times] {
                return std::vector<Part>{
                    {"checksum", "pieces of a save, without checksums", (*times)[false]}};
              }};
}

// A save that leaves the state where it is for a part of the time that the write of the last turn
// took: that time differs twofold from turn to turn. Its time is that of the call and of release()
// together.
Contestant released(Arena& arena, const std::string& what, double part, KeeperPtr one) {
  const auto blocked = std::make_shared<Time>();
  const auto write = std::make_shared<double>(0);  // seconds
  const auto save = [&arena, one] {
    return one->manager->save_async(++arena.step, one->state, {.until = Until::released});
  };
  return {.measure = "save_async, blocked",
          .what = what,
          .before =
              [&arena, one, write, save, part] {
                if (!one->manager) {
                  one->open();
                  for (int i = 0; i < 6; ++i) {
                    const auto handle = save();
                    // The first ones also take memory for the rest.
                    if (part < 1 && i < 3) handle.release();
                    const auto begin = now();
                    handle.wait_written();
                    arena.ranks.barrier();
                    *write = (now() - begin).seconds;
                    one->manager->wait();
                  }
                }
                arena.settle();
              },
          .timed =
              [&arena, one, blocked, write, save, part] {
                auto begin = now();
                const auto handle = save();
                arena.ranks.barrier();
                *blocked = now() - begin;
                const auto window = now();
                if (part < 1) {
                  std::this_thread::sleep_for(std::chrono::duration<double>(part * *write));
                } else {
                  handle.wait_written();
                }
                arena.ranks.barrier();
                begin = now();
                handle.release();
                arena.ranks.barrier();
                const auto release = now() - begin;
                blocked->seconds += release.seconds;
                blocked->cpu_seconds += release.cpu_seconds;
                handle.wait_written();
                arena.ranks.barrier();
                *write = (now() - window).seconds;
                if (!handle.blocked_because().empty()) {
                  throw std::runtime_error("a save until released was another one");
                }
              },
          .after = [one] { one->manager->wait(); },
          .time = [blocked] { return *blocked; }};
}

// To compare with many tensors: one tensor of as many bytes.
std::shared_ptr<Sample> one_of_the_same_bytes(const Arena& arena) {
  if (arena.recipe.tensors.size() == 1) return nullptr;
  return std::make_shared<Sample>(Recipe::one_tensor(arena.recipe.bytes()), arena.ranks.rank(),
                                  arena.ranks.size(), Sample::Fill::values);
}

}  // namespace

Contestants save_contests(Arena& arena) {
  Contestants all;
  all.push_back(first_save("Cairn", keeper(arena, "first", {})));
  all.push_back(steady_save("Cairn", keeper(arena, "steady", {})));
  if (const auto one = one_of_the_same_bytes(arena)) {
    const std::string what = "Cairn, one tensor of as many bytes";
    const auto kept = [one](KeeperPtr keeper) {
      return KeeperPtr(keeper.get(), [one, keeper](auto*) {});
    };
    all.push_back(first_save(what, kept(keeper(arena, "first one", {}, one.get()))));
    all.push_back(steady_save(what, kept(keeper(arena, "steady one", {}, one.get()))));
  }
  raw(all, arena);
  raw_copied(all, arena);
  mpi_io(all, arena);
  hdf5(all, arena);
  return all;
}

Contestants async_contests(Arena& arena) {
  Contestants all;
  const auto copy = std::make_shared<Pages>(arena.bytes_per_rank());
  all.push_back({.measure = "save_async, blocked",
                 .what = "memcpy into touched memory",
                 .before = [&arena] { arena.settle(); },
                 .timed =
                     [&arena, copy] {
                       std::memcpy(copy->bytes().data(), arena.plain.bytes().data(),
                                   copy->bytes().size());
                     },
                 .yardstick = true});
  const auto one = keeper(arena, "async", {});
  const auto written = std::make_shared<Time>();
  const auto handle = std::make_shared<std::optional<SaveHandle>>();
  const auto captured = std::make_shared<Time>();
  all.push_back(
      {.measure = "save_async, blocked",
       .what = "Cairn",
       .before =
           [&arena, one] {
             if (!one->manager) {
               one->open();
               for (int i = 0; i < 3; ++i) {
                 one->manager->save_async(++arena.step, one->state);
                 one->manager->wait();
               }
             }
             arena.settle();
           },
       .timed =
           [&arena, one, handle, captured] {
             *handle = one->manager->save_async(++arena.step, one->state);
             *captured = now();
           },
       .after =
           [&arena, one, handle, captured, written] {
             (*handle)->wait_written();
             one->manager->wait();
             arena.ranks.barrier();
             *written = now() - *captured;
             if (!(*handle)->blocked_because().empty() || !(*handle)->committed()) {
               throw std::runtime_error("an asynchronous save was a blocking one");
             }
           },
       .also =
           [written] {
             return std::vector<Part>{{"save_async, captured to committed", "Cairn", *written}};
           }});
  all.push_back(
      released(arena, "Cairn, released when it is written", 1, keeper(arena, "released", {})));
  all.push_back(released(arena, "Cairn, released when half is written", 0.5,
                         keeper(arena, "released early", {})));
  all.push_back({.measure = "checksum",
                 .what = "CRC-32C of the bytes",
                 .before = [] {},
                 .timed =
                     [&arena] {
                       volatile auto crc = crc32c(arena.plain.bytes());
                       (void)crc;
                     },
                 .against = steady});
  all.push_back(pieces(arena));
  return all;
}

Contestants mpi_io_contests(Arena& arena) {
  Contestants all;
  ManagerOptions options{.write = {.writer = Writer::mpi_io}};
  options.write.mpi_io.files = 1;
  all.push_back(first_save("Cairn", keeper(arena, "bundle", {})));
  all.push_back(first_save("Cairn, Writer::mpi_io, one file", keeper(arena, "shared", options)));
  mpi_io(all, arena, false);
  raw(all, arena, false);
  return all;
}

Contestants hdf5_contests(Arena& arena) {
  Contestants all;
  all.push_back(first_save("Cairn, HDF5, laid out",
                           keeper(arena, "laid", {.store = {.format = Format::hdf5}})));
  all.push_back(first_save(
      "Cairn, HDF5, Writer::hdf5_collective",
      keeper(arena, "sets",
             {.store = {.format = Format::hdf5}, .write = {.writer = Writer::hdf5_collective}})));
  hdf5(all, arena, false);
  mpi_io(all, arena, false);
  raw(all, arena, false);
  return all;
}

Contestants ways_contests(Arena& arena) {
  Contestants all;
  for (const bool recycle : {false, true}) {
    for (const auto direct : {DirectIo::off, DirectIo::on}) {
      const std::string name = std::string(recycle ? "recycled" : "new files") +
                               (direct == DirectIo::on ? ", direct" : ", buffered");
      all.push_back(
          steady_save("Cairn, " + name,
                      keeper(arena, name, {.write = {.direct_io = direct, .recycle = recycle}})));
    }
  }
  raw(all, arena);
  raw_copied(all, arena);
  return all;
}

}  // namespace cairn::bench
