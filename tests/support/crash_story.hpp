#pragma once
/// A crash story: jobs that save on a disk in memory, and what may be found afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/indexed.hpp"
#include "cairn/log.hpp"
#include "cairn/resizable.hpp"
#include "cairn/sparse.hpp"
#include "support/sharing_group.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {

constexpr std::int64_t columns = 1500;  // a rank's row spans several 4-KiB blocks

inline ManagerOptions options_on(std::shared_ptr<io::MemoryFileSystem> disk) {
  ManagerOptions options;
  options.write.file_system = std::move(disk);
  options.keep.last = 0;
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  options.write.part_records = true;
  return options;
}

// What a rank's registered saver is to write next, and what it read last.
inline thread_local std::int64_t saver_writes = 0, saver_read = 0;
inline thread_local int saver_rank = 0;

inline RegisteredSaver sample_saver(std::shared_ptr<io::MemoryFileSystem> disk) {
  const auto save = [disk](const std::string& prefix) {
    BundleWriter writer(cat(prefix, "-", saver_rank), disk);
    writer.add(cat("extra/", saver_rank), &saver_writes, {});
    writer.finish();
    return std::vector<std::string>{cat(prefix, "-", saver_rank)};
  };
  const auto restore = [disk](const std::string& prefix) {
    const auto bytes = BundleReader(prefix, disk).read("extra/0");
    std::memcpy(&saver_read, bytes.data(), sizeof saver_read);
  };
  return {"sample", save, restore};
}

// How the rows of a story's state are given.
enum class Given {
  by_place,
  by_id,
  by_ids_with_gaps,  // with other ids at each save
  sparse,            // no rank holds the last row
  with_lengths       // and vectors whose length differs at each save
};

// A state all of whose elements are the stamp of one save.
struct StoryJob {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t stamp = 0;
  std::vector<double> row;
  std::vector<std::int64_t> ids;  // of this rank's rows, if they are given by id
  std::vector<double> base;       // if some bytes are not written again: the same for ten stamps
  std::vector<double> moments;    // with rules by key: what older checkpoints lose
  std::vector<double> history;    // its length depends on the stamp
  std::vector<std::string> words;
  Given given;
  std::int64_t first = 0;  // of this rank's rows
  State state, who;        // who: the ids that there are, as ragged rows
  bool async = false;

  StoryJob(std::shared_ptr<Group> g, const ManagerOptions& options, std::int64_t rows,
           Storage storage = Storage::automatic, Given how = Given::by_place)
      : group(g), manager(g, "/run", options), given(how) {
    saver_rank = g->rank();
    state.add("stamp", stamp).store(storage);
    const std::int64_t mine = rows / g->size() + (g->rank() < rows % g->size());
    for (int r = 0; r < g->rank(); ++r) first += rows / g->size() + (r < rows % g->size());
    row.resize(static_cast<std::size_t>(mine * columns));
    const bool skips = options.write.skip_unchanged == SkipUnchanged::on;
    if (!options.frozen.keys.empty() || skips) {
      const auto wide = (skips ? 20 : 1) * columns;  // several blocks of 64 KiB that may be skipped
      base.resize(static_cast<std::size_t>(mine * wide));
      state.add("base", slice(base.data(), {rows, wide}, {first, 0}, {mine, wide}));
    }
    if (!options.keep.keys.empty()) {
      moments.resize(row.size());
      state.add("moments", slice(moments.data(), {rows, columns}, {first, 0}, {mine, columns}));
    }
    if (given == Given::by_id) {  // the last rows are on rank 0
      for (std::int64_t id = 0; id < mine; ++id) ids.push_back(rows - 1 - first - id);
      state.add("u", indexed(cairn::ids(&ids), row, {columns}));
      return;
    }
    if (given == Given::by_ids_with_gaps) {
      ids.resize(static_cast<std::size_t>(mine));
      state.add("u", indexed(cairn::ids(&ids, {.ids_key = "ids"}), row, {columns}));
      who.add("ids", ragged(ids));
      return;
    }
    if (given == Given::sparse) {
      state.add("u",
                sparse(slice(row.data(), {rows + 1, columns}, {first, 0}, {mine, columns}), -1.0));
      return;
    }
    if (given == Given::with_lengths) {
      state.add("history", resizable(history)).add("words", resizable(words));
    }
    state.add("u", slice(row.data(), {rows, columns}, {first, 0}, {mine, columns}));
  }
  // The history that all ranks have with this stamp.
  std::vector<double> history_of(std::int64_t mark) const {
    return std::vector<double>(static_cast<std::size_t>(mark * 300 % 1000),
                               static_cast<double>(mark));
  }
  std::vector<std::string> words_of(std::int64_t mark) const {
    return std::vector<std::string>(static_cast<std::size_t>(mark % 3), cat("stamp ", mark));
  }
  // Restores the newest checkpoint; with gaps, only the checkpoint knows which ids there are.
  std::optional<RestoreReport> restore_latest() {
    if (given != Given::by_ids_with_gaps) return manager.restore_latest(state);
    auto report = manager.restore_latest(who);
    if (report) manager.restore(report->step, state);
    return report;
  }
  void save(std::int64_t step, std::int64_t mark) {
    stamp = saver_writes = mark;
    std::fill(row.begin(), row.end(), static_cast<double>(mark));
    std::fill(base.begin(), base.end(), static_cast<double>(mark / 10));
    std::fill(moments.begin(), moments.end(), static_cast<double>(-mark));
    if (given == Given::by_ids_with_gaps) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ids[i] = 1000 * (first + static_cast<std::int64_t>(i)) + mark;
      }
      std::reverse(ids.begin(), ids.end());
    }
    history = history_of(mark), words = words_of(mark);
    if (!async) {
      manager.save(step, state);
      return;
    }
    // Every other save leaves the state where it is, until the release.
    const auto until = mark % 2 == 0 ? Until::captured : Until::released;
    manager.save_async(step, state, {.until = until}).release();
    std::fill(row.begin(), row.end(), -1);  // the captured values stay
    if (given == Given::by_ids_with_gaps) std::fill(ids.begin(), ids.end(), -1);
    history.clear(), words.assign(5, "spoilt");
  }
};

struct Story {
  std::string name;
  int ranks;
  std::function<void(StoryJob&)> before, act;
  std::set<std::int64_t> allowed;  // stamps that a restore may find; 0: nothing there
  std::int64_t at_end;             // the stamp that it must find when everything was done
  int max_to_keep = 0;
  bool overwrite = false;
  std::vector<io::Fault> faults = {};
  bool whole_record = false;  // if false, all of `before` is made durable
  Storage storage = Storage::automatic;
  bool saver = false;
  IoRanks io_ranks = {};
  bool renames = true;         // false: on a disk that refuses each rename
  unsigned interleavings = 3;  // how many orders of the ranks are tried
  bool async = false;          // `act` saves in the background, and waits at its end
  bool async_before = false;   // `before` does, and waits
  bool records = true;         // blocking saves leave them, too
  bool xdmf = false;           // with an XDMF file that is kept up to date
  Given given = Given::by_place;
  bool shares = false;   // ranks share two data files, and the dense one
  bool frozen = false;   // the state has a frozen tensor, too
  bool skips = false;    // likewise, and unchanged blocks of files are not written again
  bool clones = false;   // on a disk on which files share space
  bool thins = false;    // and one that all checkpoints but the newest two lose
  bool objects = false;  // the object graph is saved, too
  Format format = Format::bundle;
  std::optional<Format> before_format = {};  // `before` is another job, of this format
  bool keeps_all_before = false;             // `before` is another job, which keeps all
  StoreCodec codec = StoreCodec::none;       // with an HDF5 file
  // For a writer whose group must have more than the usual one.
  Writer writer = Writer::posix;
  std::function<std::shared_ptr<Group>(std::shared_ptr<Group>,
                                       std::shared_ptr<io::MemoryFileSystem>)>
      around = {};
};

inline void PrintTo(const Story& story, std::ostream* out) { *out << story.name; }  // GoogleTest's

inline std::shared_ptr<Group> group_of(const Story& story, std::shared_ptr<Group> group,
                                       std::shared_ptr<io::MemoryFileSystem> disk) {
  if (story.around) return story.around(std::move(group), std::move(disk));
  if (!story.shares) return group;
  return std::make_shared<test::SharingGroup>(std::move(group), std::move(disk));
}

inline ManagerOptions options_of(const Story& story, std::shared_ptr<io::MemoryFileSystem> disk) {
  auto options = options_on(disk);
  if (story.saver) options.hooks.savers.push_back(sample_saver(disk));
  options.keep.last = story.max_to_keep;
  options.write.part_records = story.records;
  options.overwrite = story.overwrite;
  options.write.io_ranks = story.io_ranks;
  options.write.atomic_rename = story.renames;
  options.write.writer = story.shares ? Writer::mpi_io : story.writer;
  options.write.mpi_io.files = 2;
  options.store.format = story.format;
  if (story.format == Format::hdf5) options.store.codec = story.codec;
  if (story.xdmf) options.store.xdmf.emplace();
  if (story.frozen) options.frozen.keys = {"base"};
  if (story.skips) options.write.skip_unchanged = SkipUnchanged::on;
  if (story.skips) options.frozen.read_every = 1;
  if (story.thins) options.keep.keys = {{"moments*", 2}};
  options.store.object_graph = story.objects;
  // Each of the two tensors has a file, the larger one with a warning.
  if (story.name == "Dense" && story.format == Format::bundle) {
    options.store.policy = std::make_shared<MaxShardSizePolicy>(8);
  }
  // The queue runs on the rank's thread, so that the scheduler orders its work, too.
  options.async.queue = inline_queue();
  return options;
}

}  // namespace cairn
