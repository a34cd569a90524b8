// Which requests a save in a bucket makes, and on which rank. A change that adds one fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/contents/data_file.hpp"
#include "support/bucket_server.hpp"
#include "support/noted_requests.hpp"
#include "testing/threads.hpp"

namespace cairn::test {
namespace {

struct Job {
  const char* name;
  bool async = false;
  std::int64_t tensors = 1, bytes = 4096;  // of each tensor on each rank
  int keeps = 1;
  Storage storage = Storage::automatic;
  Format format = Format::bundle;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

constexpr int ranks = 3;
constexpr std::int64_t saves = 5;

/// The requests of each rank in the last save, or in a restore after it.
std::vector<Lines> requests_of(const Job& job, bool restores) {
  const auto server = std::make_shared<BucketServer>();
  std::vector<Lines> all(ranks);
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    Ledger ledger;
    ManagerOptions options;
    options.store.format = job.format;
    options.write.file_system = std::make_shared<BucketFiles>(
        [&] { return std::make_unique<Noted>(server->connect(), ledger); });
    options.write.owner_wait_seconds = 1e6;  // so that no record is renewed meanwhile
    options.keep.last = job.keeps;
    options.async.queue = inline_queue();
    const auto count = job.bytes / std::int64_t{sizeof(double)};
    std::vector<double> values(static_cast<std::size_t>(job.tensors * count), group->rank());
    State state;
    for (std::int64_t t = 0; t < job.tensors; ++t) {
      state
          .add(cat("tensor-", t),
               slice(values.data() + t * count, {ranks * count}, {group->rank() * count}, {count}))
          .store(job.storage);
    }
    CheckpointManager manager(group, "/run", options);
    for (std::int64_t step = 1; step <= saves; ++step) {
      group->barrier();
      ledger.take();
      if (job.async) {
        manager.save_async(step, state);
        manager.wait();
      } else {
        manager.save(step, state);
      }
    }
    group->barrier();
    if (restores) {
      ledger.take();
      EXPECT_EQ(manager.restore_latest(state).value().step, saves);
    }
    all[static_cast<std::size_t>(group->rank())] = ledger.take();
    group->barrier();
  });
  return all;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const auto& line : lines) text += line + '\n';
  return text;
}

class Requests : public testing::TestWithParam<Job> {};

// Requests for objects and parts, one each, are not counted. What is left on rank 0: the log is put
// twice, and listed are pins and marks together, the objects of the step that is saved (by save()
// only), those of the one that expires and (by save_async() only) the steps that are there.
TEST_P(Requests, OfASteadySaveAreFew) {
  const auto& job = GetParam();
  const auto all = requests_of(job, false);
  constexpr std::int64_t part_bytes = std::int64_t{8} << 20;
  // The id of its save, with which an object ends, is no part of its own.
  const auto parts = (job.tensors * job.bytes + part_bytes - 1) / part_bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& lines = all[static_cast<std::size_t>(rank)];
    auto rest = lines;
    const auto take = [&](const std::string& begin) {
      return std::erase_if(rest, [&](const auto& line) { return line.starts_with(begin); });
    };
    const auto data = [&](int number) {
      return cat("run/ckpt-", saves, ".data-0000", number, "-of-0000", ranks + 1);
    };
    if (parts > 1) {
      EXPECT_EQ(take("part " + data(rank)), parts) << text_of(lines);
      EXPECT_EQ(take("begin " + data(rank)) + take("complete " + data(rank)), 2);
    } else {
      EXPECT_EQ(take("put " + data(rank)), 1) << text_of(lines);
    }
    const auto records = take("put run/.cairn/records.ckpt/");
    EXPECT_EQ(records, job.async ? 1 : 0) << text_of(lines);
    if (rank == 0) {
      EXPECT_EQ(take("put " + data(ranks)), 1) << "what belongs to no rank";
      EXPECT_EQ(take(cat("put run/ckpt-", saves, ".index")), 1);
      EXPECT_EQ(take("put run/checkpoint"), 1);
      EXPECT_EQ(take("delete run/ckpt-"), ranks + 2) << "the objects of the step that expires";
      EXPECT_LE(rest.size(), 5u) << text_of(rest);
    } else {
      EXPECT_EQ(rest, Lines{});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Requests,
                         testing::Values(Job{"blocking"}, Job{"async", true},
                                         Job{"parts", false, 3, std::int64_t{8} << 20},
                                         Job{"many_small_tensors", false, 2000, 4096},
                                         Job{"keeps_three", false, 1, 4096, 3}),
                         [](const auto& info) { return info.param.name; });

// Each rank sends its parts of a dense tensor's object, which rank 0 begins and completes.
TEST(RequestsOfADenseSave, ArePartsOnAllRanks) {
  for (const bool async : {false, true}) {
    const auto all = requests_of({"", async, 1, std::int64_t{16} << 20, 1, Storage::dense}, false);
    std::int64_t parts = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto rest = all[static_cast<std::size_t>(rank)];
      const auto text = text_of(rest);
      const auto take = [&](const char* what) {
        return std::erase_if(rest, [&](const auto& line) {
          return line == cat(what, " run/ckpt-", saves, ".data-00000-of-00002");
        });
      };
      const auto mine = static_cast<std::int64_t>(take("part"));
      EXPECT_GE(mine, 2) << text;
      parts += mine;
      EXPECT_EQ(take("begin"), rank == 0) << text;
      EXPECT_EQ(take("complete"), rank == 0) << text;
      const auto records = std::erase_if(
          rest, [](const auto& line) { return line.starts_with("put run/.cairn/records."); });
      EXPECT_EQ(records, async) << text;
      EXPECT_EQ(rest.empty(), rank > 0) << text;
    }
    EXPECT_EQ(parts, 6);
  }
}

// An HDF5 file is one object: no index or other object comes with it. The last part is rank 0's.
TEST(RequestsOfASaveAsHdf5, ArePartsOfOneObject) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  for (const bool async : {false, true}) {
    const auto all = requests_of(
        {"", async, 1, std::int64_t{16} << 20, 1, Storage::automatic, Format::hdf5}, false);
    std::int64_t parts = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto rest = all[static_cast<std::size_t>(rank)];
      const auto text = text_of(rest);
      const auto take = [&](const std::string& begin) {
        return std::erase_if(rest, [&](const auto& line) { return line.starts_with(begin); });
      };
      const auto mine = static_cast<std::int64_t>(take(cat("part run/ckpt-", saves, ".h5")));
      EXPECT_GE(mine, 1) << text;
      parts += mine;
      EXPECT_EQ(take(cat("begin run/ckpt-", saves, ".h5")), rank == 0) << text;
      EXPECT_EQ(take(cat("complete run/ckpt-", saves, ".h5")), rank == 0) << text;
      EXPECT_EQ(take("put run/.cairn/records.ckpt/"), async) << text;
      EXPECT_EQ(take("put run/checkpoint"), rank == 0) << text;
      EXPECT_EQ(take("delete run/ckpt-"), rank == 0) << text;
      EXPECT_LE(rest.size(), rank == 0 ? 6u : 0u) << text;
    }
    EXPECT_EQ(parts, 7);
  }
}

// Rank 0 asks one after another, so each request before the bytes is a wait. The other ranks ask
// for bytes alone.
TEST(RequestsOfARestore, AreFewBeforeTheBytes) {
  const auto index = cat("run/ckpt-", saves, ".index");
  const auto data = [](int number) { return cat(".data-0000", number, "-of-0000", ranks + 1); };
  const auto all = requests_of({""}, true);
  for (int rank = 0; rank < ranks; ++rank) {
    auto lines = all[static_cast<std::size_t>(rank)];
    for (auto& line : lines) {
      if (line.starts_with("read ") && line.ends_with(data(ranks))) line = "read metadata";
    }
    const auto bytes = cat("read 4096 of run/ckpt-", saves, data(rank));
    const auto expected = rank > 0 ? Lines{bytes}
                                   : Lines{"list run/.cairn/",
                                           "look run/.cairn/runs.ckpt",
                                           "look run/.cairn/ended",
                                           cat("list run/ckpt-", saves, '.'),
                                           "get " + index,
                                           "read metadata",
                                           bytes,
                                           "put run/.cairn/runs.ckpt"};
    EXPECT_EQ(lines, expected) << text_of(lines);
  }
}

TEST(RequestsOfARestore, AreFewBeforeTheBytesOfAnHdf5File) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  const auto file = cat("run/ckpt-", saves, ".h5");
  const auto all = requests_of({.name = "", .format = Format::hdf5}, true);
  for (int rank = 0; rank < ranks; ++rank) {
    auto lines = all[static_cast<std::size_t>(rank)];
    const auto reads = std::erase_if(lines, [&](const auto& line) {
      return line.starts_with("read ") && line.ends_with(" of " + file);
    });
    EXPECT_EQ(reads, rank > 0 ? 0 : 2) << "its end, which has all metadata, and the bytes";
    const auto expected =
        rank > 0 ? Lines{}
                 : Lines{"list run/.cairn/", "look run/.cairn/runs.ckpt", "look run/.cairn/ended",
                         "look " + file, "put run/.cairn/runs.ckpt"};
    EXPECT_EQ(lines, expected) << text_of(lines);
  }
}

TEST(RequestsOfARestore, AreOneRangeForManySmallTensors) {
  const auto all = requests_of({"", false, 2000, 4096}, true);
  for (const auto& lines : all) {
    const auto reads = std::ranges::count_if(lines, [](const auto& line) {
      return line.starts_with("read ") && line.find(".data-") != line.npos;
    });
    EXPECT_LE(reads, 2) << text_of(lines);
  }
}

}  // namespace
}  // namespace cairn::test
