#include <filesystem>
#include <fstream>

#include "arena.hpp"
#include "testing/threads.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* same = "restore, N to N";
constexpr const char* fewer = "restore, N+1 to N";
constexpr const char* cached = "restore, N to N, page cache";

struct Stage {
  Arena& arena;
  Sample target;
  Pages pages;
  UnalignedCopy plain_state;
  State state;  // made once, as an application does
  std::optional<CheckpointManager> manager = std::nullopt;

  explicit Stage(Arena& arena)
      : arena(arena),
        target(arena.recipe, arena.ranks.rank(), arena.ranks.size(), Sample::Fill::nothing),
        pages(arena.bytes_per_rank()),
        plain_state(pages.bytes()),
        state(target.state()) {}

  void open(const fs::path& directory) { manager.emplace(arena.group, directory); }
  void from_disk() {
    target.poison();
    std::fill(pages.bytes().begin(), pages.bytes().end(), std::byte{0xcd});
    arena.settle();
    if (arena.ranks.rank() == 0) drop_caches(arena.work);
    arena.ranks.barrier();
  }
  // Files that were just read are in the page cache.
  void from_memory(const fs::path& directory) {
    from_disk();
    std::vector<char> piece(std::size_t{1} << 20);
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (arena.ranks.rank() != 0) break;
      std::ifstream file(entry.path(), std::ios::binary);
      while (file.read(piece.data(), static_cast<std::streamsize>(piece.size()))) {
      }
    }
    arena.ranks.barrier();
  }
  void restore(DirectIo direct_io) {
    if (!manager->restore_latest(state, {.direct_io = direct_io}))
      throw std::runtime_error("there is no checkpoint");
  }
  void check() {
    if (!(target == arena.source)) {
      throw std::runtime_error("what was restored is not what was saved");
    }
    manager.reset();
  }
  void check_plain(std::span<const std::byte> read) {
    const auto written = arena.plain.bytes();
    if (!std::equal(read.begin(), read.end(), written.begin())) {
      throw std::runtime_error("what was read is not what was written");
    }
  }
};

// The ranks of another job, which are threads of rank 0.
void save_with_one_more(Arena& arena, const fs::path& directory) {
  if (arena.ranks.rank() == 0) {
    run_threads(arena.ranks.size() + 1, [&](std::shared_ptr<Group> group) {
      Sample part(arena.recipe, group->rank(), group->size(), Sample::Fill::values);
      CheckpointManager(group, directory).save(1, part.state());
    });
  }
  arena.ranks.barrier();
}

}  // namespace

Contestants restore_contests(Arena& arena) {
  const auto n = arena.work / "saved by n", m = arena.work / "saved by m",
             raw = arena.work / "read";
  CheckpointManager(arena.group, n).save(1, arena.source.state());
  save_with_one_more(arena, m);
  arena.fresh(raw);
  arena.ranks.write_own(raw, arena.plain.bytes(), direct_piece, Files::fresh, Cache::bypassed);
  arena.ranks.write_collective(raw, arena.plain.bytes(), Files::fresh);
  arena.settle();

  Contestants all;
  const auto stage = std::make_shared<Stage>(arena);
  const auto restore = [&](const char* measure, const char* what, const fs::path& directory,
                           DirectIo direct_io = DirectIo::automatic) {
    all.push_back({.measure = measure,
                   .what = what,
                   .before =
                       [stage, directory, measure] {
                         stage->open(directory);
                         measure == cached ? stage->from_memory(directory) : stage->from_disk();
                       },
                   .timed = [stage, direct_io] { stage->restore(direct_io); },
                   .after = [stage] { stage->check(); },
                   .against = measure == cached ? cached : same});
  };
  restore(same, "Cairn", n);
  restore(same, "Cairn, direct_io = off", n, DirectIo::off);
  restore(fewer, "Cairn", m);
  restore(cached, "Cairn", n);
  restore(cached, "Cairn, direct_io = on", n, DirectIo::on);
  const auto plain_cached = [&](const char* what, std::span<std::byte> to, bool yardstick) {
    all.push_back({.measure = cached,
                   .what = what,
                   .before =
                       [stage, raw, to] {
                         std::fill(to.begin(), to.end(), std::byte{0xcd});
                         stage->from_memory(raw);
                       },
                   .timed = [&arena, raw, to] { arena.ranks.read_own(raw, to, buffered_piece); },
                   .after = [stage, to] { stage->check_plain(to); },
                   .yardstick = yardstick});
  };
  plain_cached("POSIX by hand", stage->pages.bytes(), true);
  // The kernel copies to memory that does not begin on a cache line at half the speed.
  plain_cached("POSIX by hand, memory like an application's", stage->plain_state.bytes(), false);
  // Like a job that starts: it first locks, recovers and reads the directory.
  all.push_back({.measure = same,
                 .what = "Cairn, opening the directory as well",
                 .before = [stage] { stage->from_disk(); },
                 .timed =
                     [stage, n] {
                       stage->open(n);
                       stage->restore(DirectIo::automatic);
                     },
                 .after = [stage] { stage->check(); }});
  const auto by_hand = [&](const char* what, bool yardstick, std::span<std::byte> to, auto read) {
    all.push_back({.measure = same,
                   .what = what,
                   .before =
                       [stage, to] {
                         std::fill(to.begin(), to.end(), std::byte{0xcd});
                         stage->from_disk();
                       },
                   .timed = [&arena, raw, read, to] { read(arena.ranks, raw, to); },
                   .after = [stage, to] { stage->check_plain(to); },
                   .yardstick = yardstick});
  };
  using Out = std::span<std::byte>;
  const auto pages = stage->pages.bytes(), state = stage->plain_state.bytes();
  by_hand("POSIX by hand, O_DIRECT", true, pages,
          [](const Ranks& ranks, const fs::path& from, Out out) {
            ranks.read_own(from, out, direct_piece, Cache::bypassed);
          });
  by_hand("POSIX by hand", false, pages, [](const Ranks& ranks, const fs::path& from, Out out) {
    ranks.read_own(from, out, buffered_piece);
  });
  by_hand("POSIX by hand, with CRC-32C", false, state,
          [](const Ranks& ranks, const fs::path& from, Out out) {
            volatile auto crc = ranks.read_own_checked(from, out);
            (void)crc;
          });
  by_hand("POSIX by hand, O_DIRECT, copied and checksummed", false, state,
          [](const Ranks& ranks, const fs::path& from, Out out) {
            volatile auto crc = ranks.read_own_copied(from, out);
            (void)crc;
          });
  by_hand(
      "MPI_File_read_at_all by hand", false, pages,
      [](const Ranks& ranks, const fs::path& from, Out out) { ranks.read_collective(from, out); });
  return all;
}

}  // namespace cairn::bench
