#pragma once
/// Crash stories of saves that lack room: checkpoints that retention lets go are removed before the
/// save, and each of the others stays whole and durable meanwhile.
#include "store/directory/crash_kit.hpp"

namespace cairn {

inline std::vector<Story> room_stories() {
  const auto before = [](StoryJob& job) {
    job.save(5, 3);
    job.save(7, 4);
    job.save(10, 1);
  };
  Story blocking{"Blocking", 2, before, [](StoryJob& job) { job.save(20, 2); }, {1, 2}, 2, 1};
  blocking.keeps_all_before = true;
  blocking.records = false;
  blocking.interleavings = 1;
  auto async = blocking;
  async.name = "Async";
  async.async = true;
  // A failed asynchronous save is not saved again; the next one finds room.
  async.act = [](StoryJob& job) {
    job.save(20, 5);
    EXPECT_THROW(job.manager.wait(), Error);
    job.save(20, 2);
  };
  std::vector<Story> all;
  for (const auto& one : {blocking, async}) {
    for (const bool renames : {true, false}) {
      if (!renames && !one.async) continue;  // an asynchronous one
      all.push_back(one);
      if (!renames) all.back().name += "WithoutRename";
      all.back().renames = renames;
      all.back().faults = {{Code::no_space, "write", renames ? "part-" : ".data-", 1, 1}};
    }
  }
  return all;
}

}  // namespace cairn
