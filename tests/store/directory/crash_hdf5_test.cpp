// The crash stories with checkpoints that are HDF5 files.
#include "store/directory/crash_kinds.hpp"
#include "support/dataset_group.hpp"

namespace cairn {
namespace {

// The same stories as HDF5 files, and stories in which a step changes its format.
std::vector<Story> hdf5_stories() {
  std::vector<Story> all;
  for (auto story : stories()) {
    if (story.saver || story.storage != Storage::automatic) continue;
    for (auto& fault : story.faults) {
      if (fault.path_part == "part-") fault.path_part = "part.h5";
      if (fault.path_part == ".index") fault.path_part = ".h5";
    }
    if (story.name == "CommitFails") continue;  // no data file is renamed
    story.format = Format::hdf5;
    all.push_back(story);
  }
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto second = [](StoryJob& job) { job.save(20, 2); };
  const auto over = [](StoryJob& job) { job.save(10, 2); };
  const auto fails = [](StoryJob& job) { EXPECT_THROW(job.save(20, 2), Error); };
  const auto other = [&](Story story, Format before, Format now) {
    story.before_format = before;
    story.format = now;
    all.push_back(std::move(story));
  };
  other({"BehindABundle", 2, first, second, {1, 2}, 2}, Format::bundle, Format::hdf5);
  other({"OverABundle", 2, first, over, {1, 2}, 2, 0, true}, Format::bundle, Format::hdf5);
  other({"ABundleOverIt", 2, first, over, {1, 2}, 2, 0, true}, Format::hdf5, Format::bundle);
  other({"ReplacesABundle", 2, first, second, {1, 2}, 2, 1}, Format::bundle, Format::hdf5);
  other({"IsReplacedByABundle", 2, first, second, {1, 2}, 2, 1}, Format::hdf5, Format::bundle);
  Story seal{
      "SealFails", 3, first, fails, {1, 2}, 1, 0, false, {{Code::io, "sync", "part.h5", 0, 2}}};
  seal.format = Format::hdf5;
  all.push_back(seal);
  return all;
}

// The same once more, with ranks that write datasets through HDF5, which removes the seal.
std::vector<Story> collective_stories() {
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto fails = [](StoryJob& job) { EXPECT_THROW(job.save(20, 2), Error); };
  std::vector<Story> all;
  for (auto& story : hdf5_stories()) {
    const bool alike = story.name == "SecondSave" || story.name == "Overwrite" ||
                       story.name == "WriteFails" || story.name == "OverwriteFromTheStart";
    if (alike) all.push_back(story);
  }
  // The sync fails after HDF5's writes, or when the seal that it removed is put back.
  for (const std::size_t skip : {1, 4}) {
    all.push_back({cat("SyncFails", skip),
                   3,
                   first,
                   fails,
                   {1},
                   1,
                   0,
                   false,
                   {{Code::io, "sync", "part.h5", skip, 1}}});
  }
  for (auto& story : all) {
    story.format = Format::hdf5;
    story.writer = Writer::hdf5_collective;
    story.around = [](std::shared_ptr<Group> group, std::shared_ptr<io::MemoryFileSystem> disk) {
      return std::make_shared<test::DatasetGroup>(std::move(group), std::move(disk));
    };
  }
  return all;
}

// All tensors are dense, and the index is in the file.
std::vector<Story> hdf5_async_stories() {
  auto all = async_stories();
  std::erase_if(all, [](const auto& story) {
    return story.name == "Dense" || story.name == "WriteFails" || story.name == "PublishFails";
  });
  for (auto& story : all) story.format = Format::hdf5;
  return all;
}

// The rows are chunks, whose indexes the commit or the recovery writes.
std::vector<Story> codec_stories() {
  auto all = hdf5_async_stories();
  for (auto& story : hdf5_stories()) {
    if (story.name != "CommitFails") all.push_back(story), all.back().name += "Blocking";
  }
  std::erase_if(all, [](const auto& story) { return story.given == Given::sparse; });
  for (auto& story : all) {
    story.codec = StoreCodec::deflate;
    story.interleavings = 1;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Hdf5Codec, Crash, testing::ValuesIn(codec_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Hdf5Async, Crash, testing::ValuesIn(hdf5_async_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Hdf5Collective, Crash, testing::ValuesIn(collective_stories()),
                         [](const auto& info) { return info.param.name; });

std::vector<Story> without_records() {
  auto all = hdf5_stories();
  for (auto& story : collective_stories()) all.push_back(story), all.back().name += "Collective";
  std::erase_if(all, [](const auto& story) {
    return !story.faults.empty() && story.faults.front().path_part == "record-";
  });
  for (auto& story : all) {
    story.records = false;
    story.interleavings = 1;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Hdf5WithoutRecords, Crash, testing::ValuesIn(without_records()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Hdf5, Crash, testing::ValuesIn(hdf5_stories()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Sparse, Crash, testing::ValuesIn(sparse_stories(Format::hdf5)),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Lengths, Crash, testing::ValuesIn(length_stories(Format::hdf5)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn
