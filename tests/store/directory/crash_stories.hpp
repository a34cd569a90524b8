#pragma once
/// Crash stories of saves that succeed and fail, on file systems with renames, as bundles.
#include "store/directory/crash_kit.hpp"

namespace cairn {

inline void nothing_before(StoryJob&) {}

inline std::vector<Story> stories() {
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto second = [](StoryJob& job) { job.save(20, 2); };
  const auto fails = [](StoryJob& job) { EXPECT_THROW(job.save(20, 2), Error); };
  std::vector<Story> all{
      {"FirstSave", 3, nothing_before, first, {0, 1}, 1},
      {"SecondSave", 3, first, second, {1, 2}, 2},
      {"ManyRanks", 6, first, second, {1, 2}, 2},
      {"Overwrite", 3, first, [](StoryJob& job) { job.save(10, 2); }, {1, 2}, 2, 0, true},
      {"Retention",
       2,
       [](StoryJob& job) {
         job.save(5, 3);
         job.save(10, 1);
       },
       second,
       {1, 2},
       2,
       1},
      {"Superseded",
       2,
       [](StoryJob& job) {
         job.save(10, 1);
         job.save(20, 3);
         job.manager.restore(10, job.state);
       },
       second,
       {3, 2},
       2},
      {"WriteFails", 3, first, fails, {1}, 1, 0, false, {{Code::io, "write", "part-", 2, 1}}},
      {"DiskFull", 3, first, fails, {1}, 1, 0, false, {{Code::no_space, "write", "record-", 1, 1}}},
      // Until the failure is reported, a recovery may still complete the save.
      {"CommitFails", 3, first, fails, {1, 2}, 1, 0, false, {{Code::io, "rename", ".data-", 1, 1}}},
      // The same step is saved twice: the first save must never come back over the second.
      {"OverwriteFromTheStart",
       2,
       nothing_before,
       [](StoryJob& job) {
         job.save(10, 1);
         job.save(10, 2);
       },
       {0, 1, 2},
       2,
       0,
       true,
       {},
       true},
      {"IndexRenameFails",
       2,
       first,
       fails,
       {1, 2},
       1,
       0,
       false,
       {{Code::io, "rename", ".index", 0, 1}}},
      // Several ranks write to one data file.
      {"Dense", 3, first, second, {1, 2}, 2, 0, false, {}, false, Storage::dense},
      {"DenseFromTheStart",
       2,
       nothing_before,
       [](StoryJob& job) {
         job.save(10, 1);
         job.save(10, 2);
       },
       {0, 1, 2},
       2,
       0,
       true,
       {},
       true,
       Storage::dense},
      {"DenseWriteFails",
       3,
       first,
       fails,
       {1},
       1,
       0,
       false,
       {{Code::io, "write", "part-", 2, 1}},
       false,
       Storage::dense},
      {"Saver", 2, first, second, {1, 2}, 2, 0, false, {}, false, Storage::automatic, true},
      {"SaverOverwrites",
       2,
       first,
       [](StoryJob& job) { job.save(10, 2); },
       {1, 2},
       2,
       0,
       true,
       {},
       false,
       Storage::automatic,
       true},
      // Two of four ranks write, also the data of the other two.
      {"IoRanks",
       4,
       first,
       second,
       {1, 2},
       2,
       0,
       false,
       {},
       false,
       Storage::automatic,
       false,
       IoRanks::count(2)},
      {"IoRankFails",
       4,
       first,
       fails,
       {1},
       1,
       0,
       false,
       {{Code::io, "write", "part-", 2, 1}},
       false,
       Storage::automatic,
       true,
       IoRanks::count(2)},
      // Rows travel to other ranks before they are written.
      {"ById", 2, first, second, {1, 2}, 2},
  };
  all.back().given = Given::by_id, all.back().interleavings = 1;
  return all;
}

// Several pending saves, one after the other.
inline std::vector<Story> async_stories() {
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto two = [](StoryJob& job) {
    job.save(20, 2);
    job.save(30, 3);
  };
  const auto fails = [](StoryJob& job) {
    job.save(20, 2);
    EXPECT_THROW(job.manager.wait(), Error);
  };
  std::vector<Story> all = {
      {"First", 3, nothing_before, first, {0, 1}, 1},
      {"Two", 3, first, two, {1, 2, 3}, 3},
      {"Retention",
       2,
       [](StoryJob& job) {
         job.save(5, 4);
         job.save(10, 1);
       },
       two,
       {1, 2, 3},
       3,
       1},
      // By a plan that is used again, into recycled files that wait.
      {"Recycling",
       2,
       [](StoryJob& job) {
         job.save(5, 4);
         job.save(10, 1);
       },
       [](StoryJob& job) {
         job.save(20, 5);
         job.save(30, 6);
         job.save(40, 2);
       },
       {1, 5, 6, 2},
       2,
       1},
      // Both slots of part records are used again, and so is data that an earlier save has let go.
      {"Slots",
       2,
       [](StoryJob& job) {
         for (std::int64_t n = 1; n <= 5; ++n) job.save(n, n);
       },
       [](StoryJob& job) {
         for (std::int64_t n = 6; n <= 8; ++n) job.save(n, n);
       },
       {5, 6, 7, 8},
       8,
       1},
      {"Overwrite", 2, first, [](StoryJob& job) { job.save(10, 2); }, {1, 2}, 2, 0, true},
      {"Dense", 3, first, two, {1, 2, 3}, 3},
      {"ById", 2, first, [](StoryJob& job) { job.save(20, 2); }, {1, 2}, 2},
      {"WriteFails", 3, first, fails, {1}, 1, 0, false, {{Code::io, "write", "part", 2, 1}}},
      {"PublishFails", 2, first, fails, {1, 2}, 1, 0, false, {{Code::io, "sync", "index", 0, 1}}},
      {"SavesAfterAFailure",
       2,
       first,
       [](StoryJob& job) {
         job.save(20, 2);
         EXPECT_THROW(job.save(30, 3), Error);
         job.save(30, 3);
       },
       {1, 3},
       3,
       0,
       false,
       {{Code::no_space, "write", "record-", 1, 1}}}};
  for (auto& story : all) {
    story.async = true;
    story.interleavings = 1;
    if (story.name == "Dense") story.storage = Storage::dense;
    if (story.name == "ById") story.given = Given::by_id;
    if (story.name == "Slots") story.async_before = true;
  }
  return all;
}

/// Saves that overwrite files of expired ones. The files of steps 10 and 20 wait, or the steps wait
/// to expire.
inline std::vector<Story> recycling_stories() {
  const auto before = [](StoryJob& job) {
    job.save(10, 3);
    job.save(20, 1);
  };
  const auto next = [](StoryJob& job) { job.save(30, 2); };
  const auto twice = [](StoryJob& job) {
    job.save(30, 4);
    job.save(40, 2);
  };
  const auto fails = [](StoryJob& job) { EXPECT_THROW(job.save(30, 2), Error); };
  const auto many = [](StoryJob& job) {
    for (std::int64_t n = 1; n <= 4; ++n) job.save(10 * n, n);
  };
  const auto overwrites = [](StoryJob& job) {
    for (std::int64_t n = 1; n <= 4; ++n) job.save(10, n);
  };
  Story again{"Again", 2, before, next, {1, 2}, 2, 1};
  auto dense = again;
  dense.storage = Storage::dense;
  std::vector<Story> all{
      again,
      {"Twice", 3, before, twice, {1, 4, 2}, 2, 1},
      {"FromTheStart", 2, nothing_before, many, {0, 1, 2, 3, 4}, 4, 1, false, {}, true},
      {"Overwrites", 2, nothing_before, overwrites, {0, 1, 2, 3, 4}, 4, 0, true, {}, true},
      {"WriteFails", 2, before, fails, {1}, 1, 1, false, {{Code::io, "write", "part-", 1, 1}}},
      {"SyncFails", 2, before, fails, {1}, 1, 1, false, {{Code::io, "sync", "part-", 0, 1}}},
      // The files that wait cannot be taken: new ones are made.
      {"TakingFails", 2, before, next, {1, 2}, 2, 1, false, {{Code::io, "rename", "part-", 0, 2}}},
      {"OpeningFails", 2, before, next, {1, 2}, 2, 1, false, {{Code::io, "open", "part-", 0, 2}}},
      // The files cannot be kept: they are removed.
      {"KeepingFails",
       2,
       nothing_before,
       overwrites,
       {0, 1, 2, 3, 4},
       4,
       0,
       true,
       {{Code::io, "rename", "/steps.", 0, 2}}},
      {"IoRanks",
       4,
       before,
       next,
       {1, 2},
       2,
       1,
       false,
       {},
       false,
       Storage::automatic,
       false,
       IoRanks::count(2)},
      {"Saver", 2, before, next, {1, 2}, 2, 1, false, {}, false, Storage::automatic, true},
  };
  dense.name = "Dense";
  all.push_back(dense);
  dense.name = "DenseWriteFails";
  dense.act = fails, dense.allowed = {1}, dense.at_end = 1;
  dense.faults = {{Code::io, "write", "part-", 2, 1}};
  all.push_back(dense);
  for (auto& story : all) story.interleavings = 2;
  return all;
}

}  // namespace cairn
