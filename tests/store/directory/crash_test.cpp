// The crash stories with bundles, with renames and without.
#include "store/directory/crash_frozen.hpp"
#include "store/directory/crash_kinds.hpp"
#include "store/directory/crash_room.hpp"
#include "store/directory/crash_stories.hpp"
#include "store/directory/crash_thin.hpp"
#include "store/directory/crash_unchanged.hpp"

namespace cairn {
namespace {

// The same stories, and faults where the index is written in place, without a rename.
std::vector<Story> direct_stories() {
  std::vector<Story> all;
  for (auto story : stories()) {
    const bool renames_fail = !story.faults.empty() && story.faults.front().kind == "rename";
    if (renames_fail) continue;
    for (auto& fault : story.faults) {
      if (fault.path_part == "part-") fault.path_part = ".data-";
    }
    all.push_back(story);
  }
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto fails = [](StoryJob& job) { EXPECT_THROW(job.save(20, 2), Error); };
  const auto fails_over = [](StoryJob& job) { EXPECT_THROW(job.save(10, 2), Error); };
  // Then nothing else tells that the data is ours.
  all.push_back({"FirstSaveFails",
                 2,
                 nothing_before,
                 fails,
                 {0, 2},
                 0,
                 0,
                 false,
                 {{Code::no_space, "write", ".index", 0, 1}}});
  // The old index is gone when these operations fail; it comes back.
  all.push_back({"IndexFails",
                 3,
                 first,
                 fails,
                 {1, 2},
                 1,
                 0,
                 false,
                 {{Code::no_space, "write", ".index", 0, 1}}});
  all.push_back({"OverwriteFails",
                 3,
                 first,
                 fails_over,
                 {1, 2},
                 1,
                 0,
                 true,
                 {{Code::no_space, "write", ".index", 0, 1}}});
  all.push_back({"OverwriteSyncFails",
                 2,
                 first,
                 fails_over,
                 {1, 2},
                 1,
                 0,
                 true,
                 {{Code::io, "sync", ".index", 0, 1}}});
  // Nor can the old index be put back: the next save does that first, or a restart.
  all.push_back({"OverwriteFailsTwice",
                 2,
                 first,
                 [](StoryJob& job) {
                   EXPECT_THROW(job.save(10, 2), Error);
                   job.save(20, 4);
                 },
                 {1, 2, 4},
                 4,
                 0,
                 true,
                 {{Code::io, "create", ".index", 0, 2}}});
  all.push_back({"OverwriteStaysTorn",
                 2,
                 first,
                 fails_over,
                 {1, 2},
                 2,
                 0,
                 true,
                 {{Code::io, "create", ".index", 0, 2}}});
  for (auto& story : all) story.renames = false;
  return all;
}

// Some of the stories again, with ranks that write to the same files together.
std::vector<Story> shared_stories() {
  static const std::set<std::string> names{"FirstSave", "Overwrite",       "WriteFails",
                                           "Dense",     "DenseWriteFails", "SaverOverwrites"};
  auto all = stories();
  std::erase_if(all, [](const auto& story) { return !names.count(story.name); });
  for (auto& story : all) story.shares = true;
  return all;
}

std::vector<Story> direct_async_stories() {
  auto all = async_stories();
  std::erase_if(all, [](const auto& story) {
    return story.name == "PublishFails" || story.name == "WriteFails";
  });
  for (auto& story : all) story.renames = false;
  return all;
}

// A restart finds what was there before, or what was committed: never a state in between.
std::vector<Story> without_records(std::vector<Story> all) {
  std::erase_if(all, [](const auto& story) {
    return !story.faults.empty() && story.faults.front().path_part == "record-";
  });
  for (auto& story : all) {
    story.records = false;
    story.interleavings = 1;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(WithoutRecords, Crash, testing::ValuesIn(without_records(stories())),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(RecyclingWithoutRecords, Crash,
                         testing::ValuesIn(without_records(recycling_stories())),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Async, Crash, testing::ValuesIn(async_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(AsyncWithoutRename, Crash, testing::ValuesIn(direct_async_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Recycling, Crash, testing::ValuesIn(recycling_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Frozen, Crash, testing::ValuesIn(without_records(frozen_stories(false))),
                         [](const auto& info) { return info.param.name; });

// The next job shares the files that it finds and has read, which must then be durable.
TEST(FrozenCrash, TheNextJobSharesWhatACrashHasLeft) {
  set_log_sink({});
  const auto story = without_records(frozen_stories(false)).front();
  ASSERT_EQ(story.name, "Changes");
  const auto recorded = record(story, 1);
  std::size_t links = 0;
  for (std::size_t stop = 0; stop <= recorded->operation_count(); stop += test::stride(20) + 2) {
    for (const bool keep : {true, false}) {
      const auto disk = recorded->crash(stop, {.keep = keep, .except = {}, .tear = {}});
      SCOPED_TRACE(cat("stopped after ", stop, keep ? ", all kept" : ", all lost"));
      const auto expect_all = [&](StoryJob& job) {
        for (const auto& info : job.manager.steps()) {
          job.manager.restore(info.step, job.state);
          const auto frozen = static_cast<double>(job.stamp / 10);
          EXPECT_EQ(job.base, std::vector<double>(job.base.size(), frozen)) << info.step;
        }
      };
      run_threads(story.ranks, [&](std::shared_ptr<Group> group) {
        StoryJob job(group, options_of(story, disk), story.ranks);
        ASSERT_TRUE(job.manager.restore_latest(job.state));
        job.save(1000, job.stamp);
        expect_all(job);
      });
      for (std::size_t i = 0; i < disk->operation_count(); ++i) {
        links += disk->operation_text(i).starts_with("link ");
      }
      const auto after = disk->crash(disk->operation_count(), {.keep = false});
      run_threads(story.ranks, [&](std::shared_ptr<Group> group) {
        StoryJob job(group, options_of(story, after), story.ranks);
        EXPECT_EQ(job.manager.restore_latest(job.state)->step, 1000);
        expect_all(job);
      });
    }
  }
  EXPECT_GT(links, 0u);
}

INSTANTIATE_TEST_SUITE_P(Unchanged, Crash, testing::ValuesIn(unchanged_stories()),
                         [](const auto& info) { return info.param.name; });

// The stories are about saves that leave something out.
TEST(UnchangedCrash, BlocksAreLeftOut) {
  for (const auto& story : unchanged_stories()) {
    std::int64_t unchanged = 0;
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    if (story.clones) disk->share_space();
    run_threads(story.ranks, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options_of(story, disk), story.ranks);
      story.before(job);
      for (const auto& fault : story.faults) {
        if (group->rank() == 0) disk->inject(fault);
      }
      group->barrier();
      job.async = story.async;
      story.act(job);
      job.manager.wait();
      if (group->rank() > 0) return;
      for (const auto& save : job.manager.statistics().last) unchanged += save.unchanged_bytes;
    });
    EXPECT_GT(unchanged, 0) << story.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Thin, Crash, testing::ValuesIn(thin_stories(false)),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(ThinAsync, Crash, testing::ValuesIn(thin_stories(true)),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(FrozenAsync, Crash, testing::ValuesIn(frozen_stories(true)),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Room, Crash, testing::ValuesIn(room_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(SharedFiles, Crash, testing::ValuesIn(shared_stories()),
                         [](const auto& info) { return info.param.name; });

// One more file, on which nothing depends.
std::vector<Story> xdmf_stories() {
  static const std::set<std::string> names{"FirstSave", "Retention"};
  auto all = without_records(stories());
  std::erase_if(all, [](const auto& story) { return !names.count(story.name); });
  for (auto& story : all) story.xdmf = true;
  all.push_back(all.back());
  all.back().name = "InFlight";
  all.back().async = true;
  all.push_back(all.back());
  all.back().name = "WithoutRename";
  all.back().renames = false;
  return all;
}

INSTANTIATE_TEST_SUITE_P(Xdmf, Crash, testing::ValuesIn(xdmf_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(WithoutRename, Crash, testing::ValuesIn(direct_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Stories, Crash, testing::ValuesIn(stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Sparse, Crash, testing::ValuesIn(sparse_stories(Format::bundle)),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Lengths, Crash, testing::ValuesIn(length_stories(Format::bundle)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn
