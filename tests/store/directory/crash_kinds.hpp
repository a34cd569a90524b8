#pragma once
/// Crash stories of tensors with gaps, of rows whose ids have gaps, and of lengths that checkpoints
/// decide.
#include "store/directory/crash_stories.hpp"

namespace cairn {

// A tensor with a gap, stored in files of each rank and as one array; recoveries complete the
// saves.
inline std::vector<Story> sparse_stories(Format format) {
  std::vector<Story> all;
  for (const auto& story : stories()) {
    const bool as_array = story.name == "Dense" && format == Format::bundle;
    if (story.name != "SecondSave" && !as_array) continue;
    auto& one = all.emplace_back(story);
    one.async = true, one.given = Given::sparse;
    one.format = format;
    one.interleavings = 1;
  }
  return all;
}

// Ids with gaps, stored beside their rows, and vectors whose lengths the checkpoint decides.
inline std::vector<Story> length_stories(Format format) {
  std::vector<Story> all;
  for (const auto& story : stories()) {
    if (story.name != "SecondSave" && (story.name != "Overwrite" || format == Format::hdf5))
      continue;
    for (const auto given : {Given::by_ids_with_gaps, Given::with_lengths}) {
      auto& one = all.emplace_back(story);
      one.name += given == Given::with_lengths ? "WithLengths" : "ByIdsWithGaps";
      one.ranks = 2;
      one.async = !story.overwrite;
      one.given = given;
      one.format = format;
      one.interleavings = 1;
    }
  }
  return all;
}

}  // namespace cairn
