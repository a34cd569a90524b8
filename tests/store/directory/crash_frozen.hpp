#pragma once
/// Crash stories of saves that share data files, as bundles, on file systems with renames.
#include "store/directory/crash_kit.hpp"

namespace cairn {

/// Each save shares a data file with the one before; the frozen tensor changes with the tens of the
/// stamp; the oldest checkpoint expires.
inline std::vector<Story> frozen_stories(bool async) {
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
  };
  const auto fails = [](StoryJob& job) {
    EXPECT_THROW(job.save(30, 12), Error);
    job.save(40, 2);
  };
  std::vector<Story> all;
  if (async) {
    all.push_back({"Shares", 2, before, same, {1, 4, 2}, 2, 1});
  } else {
    all.push_back({"Changes", 2, before, changes, {1, 12, 13, 2}, 2, 1});
    all.push_back({"WriteFails",
                   2,
                   before,
                   fails,
                   {1, 2},
                   2,
                   1,
                   false,
                   {{Code::io, "write", "part-", 1, 1}}});
  }
  for (auto& story : all) {
    story.frozen = true;
    story.async = async;
    story.interleavings = 1;
  }
  return all;
}

}  // namespace cairn
