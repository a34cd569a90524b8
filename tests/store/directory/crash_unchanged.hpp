#pragma once
/// Crash stories of saves that leave out the blocks which an overwritten file holds already.
#include "store/directory/crash_kit.hpp"

namespace cairn {

/// Most blocks have the tens of the stamp. The files of steps 10 and 20 wait, or will wait.
inline std::vector<Story> unchanged_stories() {
  const auto before = [](StoryJob& job) {
    job.save(10, 3);
    job.save(20, 1);
  };
  const auto same = [](StoryJob& job) {
    job.save(30, 4);
    job.save(40, 2);
  };
  const auto changes = [](StoryJob& job) {
    job.save(30, 12);
    job.save(40, 13);
    job.save(50, 2);
    job.save(60, 14);
  };
  // The failed save has changed the file; the ones after it find it, or a new one.
  const auto fails = [](StoryJob& job) {
    EXPECT_THROW(job.save(30, 12), Error);
    job.save(30, 4);
    job.save(40, 2);
  };
  std::vector<Story> all{
      {"Same", 2, before, same, {1, 4, 2}, 2, 1},
      {"Changes", 2, before, changes, {1, 12, 13, 2, 14}, 14, 1},
      {"WriteFails",
       2,
       before,
       fails,
       {1, 4, 2},
       2,
       1,
       false,
       {{Code::io, "write", "part-", 1, 1}}},
      {"SyncFails", 2, before, fails, {1, 4, 2}, 2, 1, false, {{Code::io, "sync", "part-", 0, 1}}},
      {"IoRanks",
       4,
       before,
       same,
       {1, 4, 2},
       2,
       1,
       false,
       {},
       false,
       Storage::automatic,
       false,
       IoRanks::count(2)}};
  const auto behind = [&](const char* name, const auto& act, std::set<std::int64_t> allowed,
                          std::int64_t end) {
    Story story{name, 2, before, act, std::move(allowed), end, 1};
    story.async = true;
    all.push_back(story);
  };
  behind("InFlight", same, {1, 4, 2}, 2);
  behind("InFlightChanges", changes, {1, 12, 13, 2, 14}, 14);
  // Files that are new begin as clones.
  Story cloned{"Clones", 2, before, changes, {1, 12, 13, 2, 14}, 14, 3};
  cloned.clones = true;
  all.push_back(cloned);
  for (auto& story : all) {
    story.skips = true;
    story.interleavings = 1;
  }
  return all;
}

}  // namespace cairn
