// What managers and checkpoints report of saves: counts, orders and sums. No test expects a time to
// be long or short.
#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "layout/bundle/meta.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/save/formats/hdf5_file.hpp"
#include "session/save/save_log.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/seal.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

class Figures : public Manager {
 protected:
  static constexpr std::int64_t elements = 5'000;
  // A replica, a tensor that is cut, and a tensor of each rank.
  struct Big {
    std::vector<double> same = std::vector<double>(elements, 1), own;
    State state;
    explicit Big(const Group& group) : own(elements, group.rank()) {
      state.add("same", slice(same.data(), {elements}, {0}, {elements}));
      state.add("own",
                slice(own.data(), {group.size(), elements}, {group.rank(), 0}, {1, elements}));
    }
  };
  static constexpr std::int64_t bytes = elements * 8;

  static void expect_sound(const SaveStatistics& save, bool alone) {
    const auto& s = save.seconds;
    for (const double seconds : {s.wait, s.plan, s.capture, s.write, s.merge, s.commit, s.tidy,
                                 save.slowest.waiting_seconds}) {
      EXPECT_GE(seconds, 0);
    }
    EXPECT_GT(s.plan, 0);
    EXPECT_GT(s.write, 0);
    EXPECT_GT(save.blocked_seconds, 0);
    EXPECT_GT(save.total_seconds, 0);
    EXPECT_GT(save.peak_resident_bytes, bytes);
    if (!alone) return;  // else the longest of several ranks
    EXPECT_LE(s.sum() - s.tidy, save.total_seconds * 1.000001);
    EXPECT_LE(s.wait + s.plan + s.capture, save.blocked_seconds * 1.000001);
  }
  void expect_bytes(const SaveStatistics& save, int ranks) {
    EXPECT_GE(save.bytes, bytes * (ranks + 1));
    EXPECT_LT(save.bytes, bytes * (ranks + 1) + 64 * 1024);
    EXPECT_EQ(save.replica_bytes, bytes * (ranks - 1));
    EXPECT_GE(save.slowest.rank, 0);
    EXPECT_LT(save.slowest.rank, ranks);
  }
  SaveStatistics stored(std::int64_t step) {
    const auto contents = read_contents(*files_, cat("/run/ckpt-", step));
    EXPECT_TRUE(contents.meta && contents.meta->statistics);
    return contents.meta->statistics.value_or(SaveStatistics());
  }
};

TEST_P(Figures, OfSavesOfEitherKindAndFormat) {
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    options_.store.format = format;
    options_.overwrite = true;
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Big big(*group);
      CheckpointManager manager(group, "/run", options_);
      manager.save(1, big.state);
      manager.save_async(2, big.state);
      manager.wait();
      const auto all = manager.statistics();
      EXPECT_EQ(all.committed, 2);
      EXPECT_EQ(all.asynchronous, 1);
      EXPECT_EQ(all.failed + all.skipped + all.replaced, 0);
      ASSERT_EQ(all.last.size(), 2u);
      EXPECT_GE(all.pool_bytes, 1);
      EXPECT_EQ(all.pool_bytes, all.pool_most_bytes);
      EXPECT_EQ(all.bytes, all.last[0].bytes + all.last[1].bytes);
      // On rank 0 an asynchronous save has the longest time of any rank, the manager its own.
      if (group->rank() > 0 || group->size() == 1) {
        EXPECT_GE(all.blocked_seconds, all.last[0].blocked_seconds + all.last[1].blocked_seconds);
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const auto& save = all.last[i];
        EXPECT_EQ(save.step, static_cast<std::int64_t>(i) + 1);
        EXPECT_EQ(save.asynchronous, i == 1);
        EXPECT_EQ(save.blocking_because, "");
        EXPECT_EQ(save.recycled_files, 0);
        expect_sound(save, group->size() == 1);
        if (i == 0) {
          EXPECT_EQ(save.seconds.capture, 0);
        } else {
          EXPECT_GT(save.seconds.capture, 0);
        }
        if (group->rank() == 0) {
          expect_bytes(save, group->size());
          EXPECT_GT(save.seconds.commit, 0);
          EXPECT_GT(save.seconds.tidy, 0);
          EXPECT_EQ(save.files, format == Format::hdf5 ? 1 : group->size());
        } else {
          EXPECT_EQ(save.slowest.rank, -1);
          EXPECT_EQ(save.replica_bytes, 0);
          EXPECT_EQ(save.files, 0);
          EXPECT_TRUE(save.shares.empty());
        }
      }
      if (group->rank() != 0) return;
      for (std::int64_t step = 1; step <= 2; ++step) {
        const auto noted = stored(step);
        const auto& known = all.last[static_cast<std::size_t>(step) - 1];
        EXPECT_EQ(noted.step, step);
        EXPECT_EQ(noted.bytes, known.bytes);
        EXPECT_EQ(noted.replica_bytes, known.replica_bytes);
        EXPECT_EQ(noted.files, known.files);
        EXPECT_EQ(noted.peak_resident_bytes, known.peak_resident_bytes);
        EXPECT_EQ(noted.slowest.rank, known.slowest.rank);
        EXPECT_EQ(noted.asynchronous, known.asynchronous);
        EXPECT_NEAR(noted.seconds.write, known.seconds.write, 1e-6);
        EXPECT_LE(noted.total_seconds, known.total_seconds + 1e-6);
        EXPECT_EQ(noted.seconds.commit, 0);
        // The bytes that each rank wrote; the replica was written once.
        ASSERT_EQ(noted.shares.size(), static_cast<std::size_t>(group->size()));
        std::int64_t shared = 0;
        double longest = 0;
        for (const auto& share : noted.shares) {
          shared += share.bytes;
          longest = std::max(longest, share.write_seconds);
          EXPECT_GE(share.bytes, bytes);
        }
        EXPECT_EQ(shared, noted.bytes);
        EXPECT_NEAR(longest, noted.seconds.write, 1e-6);
        const auto run = read_contents(*files_, cat("/run/ckpt-", step)).meta->run;
        EXPECT_EQ(run.keep, "last=0 every_steps=0 every_hours=0 best=0 larger_is_better=0");
        ASSERT_EQ(run.before.size(), static_cast<std::size_t>(step) - 1);
        if (step == 2) {
          EXPECT_EQ(run.before[0].step, 1);
          EXPECT_EQ(run.before[0].bytes, all.last[0].bytes);
        }
        const auto report = verify_checkpoint({*files_, cat("/run/ckpt-", step)});
        EXPECT_TRUE(report.findings.empty()) << report.findings.front().what;
      }
    });
  }
}

TEST_P(Figures, TellReusedPlansAndRecycledFiles) {
  options_.keep.last = 1;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    Big big(*group);
    CheckpointManager manager(group, "/run", options_);
    for (std::int64_t step = 1; step <= 20; ++step) manager.save(step, big.state);
    const auto all = manager.statistics();
    EXPECT_EQ(all.committed, 20);
    EXPECT_EQ(all.plans_reused, 19);
    ASSERT_EQ(all.last.size(), 16u);
    EXPECT_EQ(all.last.front().step, 5);
    EXPECT_EQ(all.last.back().step, 20);
    EXPECT_TRUE(all.last.back().plan_reused);
    if (group->rank() != 0) return;
    EXPECT_EQ(all.last.back().files, group->size());
    EXPECT_EQ(all.last.back().recycled_files, group->size());
    EXPECT_EQ(stored(20).recycled_files, group->size());
    EXPECT_TRUE(stored(20).plan_reused);
  });
}

TEST_P(Figures, CountWhatCameToNothing) {
  job([&](Rank& rank) {
    rank.save(1);
    const auto before = rank.manager.statistics();
    expect_error(rank, Code::already_exists, "step 1 exists", [&] { rank.save(1); });
    const auto all = rank.manager.statistics();
    EXPECT_GT(all.blocked_seconds, before.blocked_seconds);
    EXPECT_EQ(all.committed, 1);
    EXPECT_EQ(all.failed, 1);
  });
}

TEST_P(Figures, TellWhySaveAsyncBlocked) {
  options_.async.pool_bytes = 1;
  job([&](Rank& rank) {
    rank.manager.save_async(1, rank.state);
    const auto all = rank.manager.statistics();
    ASSERT_EQ(all.last.size(), 1u);
    EXPECT_FALSE(all.last[0].asynchronous);
    EXPECT_THAT(all.last[0].blocking_because, test::Says("does not fit its memory"));
    EXPECT_EQ(all.asynchronous, 0);
    EXPECT_EQ(all.failed, 0);
  });
  EXPECT_THAT(stored(1).blocking_because, test::Says("does not fit its memory"));
}

TEST_P(Figures, OneLineOfTheLogForASave) {
  std::mutex mutex;
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view text) {
    const std::lock_guard guard(mutex);
    if (level == LogLevel::info && text.starts_with("saved step")) lines.emplace_back(text);
  });
  job([&](Rank& rank) {
    rank.save(1);
    rank.manager.save_async(2, rank.state);
    rank.manager.wait();
  });
  set_log_sink({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], test::Says("saved step 1: "));
  EXPECT_THAT(lines[0], HasSubstr(" GB/s), blocking, blocked "));
  EXPECT_THAT(lines[1], HasSubstr(" GB/s), asynchronous, blocked "));
  EXPECT_THAT(lines[1], test::Says(" of replicas skipped; waited "));
}

TEST_P(Figures, ATraceIsJsonWithALineForEachThread) {
  options_.trace = "/trace";
  job([&](Rank& rank) {
    rank.save(1);
    rank.manager.save_async(2, rank.state);
    rank.manager.wait();
    rank.manager.write_trace();
    EXPECT_TRUE(io::exists(*files_, cat("/trace.", rank.group->rank(), ".json")));
  });
  for (int rank = 0; rank < GetParam(); ++rank) {
    const auto text = io::read_file(*files_, cat("/trace.", rank, ".json"), 1 << 20);
    const auto trace = nlohmann::json::parse(text);
    std::map<std::string, std::string> lines;
    std::map<std::int64_t, std::map<std::string, nlohmann::json>> found;  // by step, name
    for (const auto& event : trace.at("traceEvents")) {
      EXPECT_EQ(event.at("pid"), rank);
      if (event.at("ph") == "M") {
        lines[cat(event["name"].get<std::string>(), event["tid"].get<int>())] =
            event["args"]["name"];
        continue;
      }
      EXPECT_EQ(event.at("ph"), "X");
      EXPECT_GE(event.at("dur").get<double>(), 0);
      found[event.at("args").at("step")][event.at("name")] = event;
    }
    EXPECT_EQ(lines["process_name0"], cat("rank ", rank));
    EXPECT_EQ(lines["thread_name0"], "caller");
    EXPECT_EQ(lines["thread_name1"], "writer");
    for (const auto* stage : {"plan", "write", "merge"}) {
      EXPECT_TRUE(found[1].contains(stage)) << stage;
      EXPECT_TRUE(found[2].contains(stage)) << stage;
    }
    EXPECT_FALSE(found[1].contains("capture"));
    ASSERT_TRUE(found[2].contains("capture"));
    auto begin = [&](const char* stage) { return found[2][stage]["ts"].get<double>(); };
    auto end = [&](const char* stage) {
      return begin(stage) + found[2][stage]["dur"].get<double>();
    };
    EXPECT_LE(begin("plan"), begin("capture"));
    EXPECT_LT(begin("capture"), end("write"));
    EXPECT_LE(end("write"), begin("merge") + 0.01);  // as many digits as are printed
    EXPECT_EQ(found[1]["write"]["tid"], 0);
    EXPECT_EQ(found[2]["capture"]["tid"], 0);
    EXPECT_EQ(found[2]["write"]["tid"], 1);
    if (rank > 0) continue;
    EXPECT_LE(end("merge"), begin("commit") + 0.01);
    EXPECT_EQ(found[2]["tidy"]["tid"], 1);
  }
}

TEST_P(Figures, NoTraceIsWrittenWhereNoneWasKept) {
  job([&](Rank& rank) {
    expect_error(rank, Code::invalid_argument, "no trace was kept",
                 [&] { rank.manager.write_trace(); });
  });
}

// The file is as a recovery finds it after a crash between the write of these bytes and the rename.
TEST_P(Figures, WhatABrokenCommitWroteOfThemIntoAnHdf5FileIsCleared) {
  if (!hdf5::available() || GetParam() > 1) return;
  options_.store.format = Format::hdf5;
  Big big(*serial_group());
  CheckpointManager(serial_group(), "/run", options_).save(1, big.state);
  stored(1);
  commit::Transaction save{"/run", "ckpt", 1, commit::new_uuid(), 1};
  save.main = commit::ParsedName::Kind::hdf5;
  files_->create_directory(save.temp());
  io::write_file(*files_, save.part(0), io::read_file(*files_, "/run/ckpt-1.h5", 1 << 24));
  const auto contents = read_contents(*files_, "/run/ckpt-1");
  auto tensors = contents.tensors;
  for (const auto& own : contents.own) {
    if (own.key != bundle::statistics_key) tensors.push_back(own);
  }
  ASSERT_EQ(tensors.size(), contents.tensors.size() + contents.own.size() - 1);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto read = [&](std::int64_t offset, std::span<std::byte> bytes) {
    files_->open_read(save.part(0))->read_at(offset, bytes);
  };
  commit::publish_hdf5(*files_, save, seal_hdf5(read, tensors), [](const auto&) { return false; });
  EXPECT_FALSE(read_contents(*files_, "/run/ckpt-1").meta->statistics);
  const auto report = verify_checkpoint({*files_, "/run/ckpt-1"});
  EXPECT_TRUE(report.findings.empty()) << report.findings.front().what;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Figures, testing::Values(1, 2, 5));

TEST(RankFigures, FoldToThoseOfAllRanks) {
  SaveStatistics one;
  one.bytes = 10;
  one.recycled_files = 1;
  one.unchanged_bytes = 5;
  one.peak_resident_bytes = 6;
  one.seconds.write = 2;
  one.seconds.plan = 1;
  auto other = one;
  other.seconds.write = 5;
  other.seconds.plan = 0.5;
  other.peak_resident_bytes = 8;
  auto third = one;
  third.seconds.write = 1;
  auto sum = RankFigures::of(one, 0);
  sum.fold(RankFigures::of(other, 1));
  sum.fold(RankFigures::of(third, 2));
  SaveStatistics all;
  sum.give(all);
  EXPECT_EQ(all.bytes, 30);
  EXPECT_EQ(all.recycled_files, 3);
  EXPECT_EQ(all.unchanged_bytes, 15);
  EXPECT_EQ(all.peak_resident_bytes, 8);
  EXPECT_EQ(all.seconds.write, 5);
  EXPECT_EQ(all.seconds.plan, 1);
  EXPECT_EQ(all.slowest.rank, 1);
  EXPECT_EQ(all.slowest.waiting_seconds, 4);
}

TEST(LineOfASave, NamesTheRankThatAllWaitedFor) {
  SaveStatistics save;
  save.slowest = {0, 2.5};
  EXPECT_THAT(line_of(save), testing::EndsWith("; waited 2.500 s for rank 0"));
  save.slowest.rank = -1;
  EXPECT_THAT(line_of(save), testing::Not(HasSubstr("waited")));
}

CheckpointMeta meta_of(std::int64_t sequence) {
  CheckpointMeta meta;
  meta.sequence = sequence;
  meta.parent = sequence - 1;
  meta.step = 10 * sequence;
  return meta;
}

TEST(SaveLog, KnowsWhatTheNextSaveFollows) {
  SaveLog save_log;
  SaveStatistics save;
  save.bytes = 7;
  for (std::int64_t i = 1; i <= 200; ++i) save_log.committed(meta_of(i), save, {});
  ASSERT_EQ(save_log.before().size(), 128u);
  EXPECT_EQ(save_log.before().front().sequence, 73);
  EXPECT_EQ(save_log.before().back().sequence, 200);
  EXPECT_EQ(save_log.before().back().parent, 199);
  EXPECT_EQ(save_log.before().back().step, 2000);
  EXPECT_EQ(save_log.before().back().bytes, 7);
  auto old = meta_of(5);
  old.run.before = {{3, 2, 30}, {4, 3, 40}};
  SaveLog next;
  next.went_back_to(old, {{5, 4, 1}, {7, 6, 70}, {6, 5, 60}});
  std::vector<std::int64_t> steps;
  for (const auto& one : next.before()) steps.push_back(one.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{30, 40, 50, 60, 70}));
  // A return to an earlier step within the run: the later saves are left behind, and stay known.
  save_log.went_back_to(old, {});
  EXPECT_EQ(save_log.before().size(), 128u);
  EXPECT_EQ(save_log.before().back().bytes, 7);
}

TEST(RankShares, ThereAreAtMost256SharesOfRanks) {
  for (const int ranks : {1, 2, 255, 256, 257, 511, 512, 513, 16384, 100000}) {
    const int each = ranks_a_share(ranks);
    EXPECT_LE((ranks + each - 1) / each, 256) << ranks;
    EXPECT_EQ(each, ranks <= 256 ? 1 : (ranks + 255) / 256);
  }
}

TEST(SaveLog, TidyingMayEndBeforeOrAfterTheCommitIsKnown) {
  SaveLog save_log;
  SaveStatistics save;
  save_log.tidied(1, 7);
  save_log.committed(meta_of(1), save, {});
  save_log.committed(meta_of(2), save, {});
  save_log.tidied(2, 8);
  const auto all = save_log.statistics();
  EXPECT_EQ(all.last.at(0).seconds.tidy, 7);
  EXPECT_EQ(all.last.at(1).seconds.tidy, 8);
}

}  // namespace
}  // namespace cairn
