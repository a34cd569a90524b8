#pragma once
/// Crash stories of saves after which older checkpoints lose a tensor by a rule: the rest of each
/// stays whole.
#include "store/directory/crash_kit.hpp"

namespace cairn {

inline std::vector<Story> thin_stories(bool async) {
  const auto before = [](StoryJob& job) {
    job.save(10, 3);
    job.save(20, 1);
  };
  // The first checkpoint loses the tensor, then the second; as only three are kept, the first is
  // then removed.
  const auto act = [](StoryJob& job) {
    job.save(30, 4);
    job.save(40, 2);
  };
  std::vector<Story> all;
  all.push_back({"InFilesOfTheirOwn", 2, before, act, {1, 4, 2}, 2, async ? 3 : 0});
  if (!async) {
    auto& holes = all.emplace_back(all.front());
    holes.name = "AsHoles";
    holes.io_ranks = IoRanks::count(1);
    holes.io_ranks.joined = true;
    holes.objects = true;
    auto& frozen = all.emplace_back(all.front());
    frozen.name = "FailsBesideFrozenOnes";
    frozen.frozen = true;
    frozen.faults = {{Code::io, "write", ".cairn/repair", 1, 1}};
  }
  for (auto& story : all) {
    story.thins = true;
    story.async = async;
    story.interleavings = 1;
    story.records = async;
  }
  return all;
}

}  // namespace cairn
