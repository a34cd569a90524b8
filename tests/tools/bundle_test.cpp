// One process writes, reads and merges bundles.
#include "cairn/bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "io/temporary_directory.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/directory/pins.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;

template <class T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Merge : ::testing::Test {
  std::shared_ptr<io::MemoryFileSystem> files = std::make_shared<io::MemoryFileSystem>();
  MergeOptions options{.file_system = files};
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector<std::string> names{"a", "", "ccc"};

  Merge() { files->create_directory("/in"); }

  // u [4 3] in rows; the first part also has all of v, the second the strings.
  void write_parts() {
    BundleWriter one("/in/one", files);
    one.add_slice("u", DType::float32, {4, 3}, {{0, 0}, {2, 3}}, x.data());
    one.add("v", x.data(), {6});
    one.finish();
    BundleWriter two("/in/two", files);
    two.add_slice("u", DType::float32, {4, 3}, {{2, 0}, {2, 3}}, x.data());
    two.add_strings("names", {3}, names);
    two.finish();
  }
  void expect_whole(const io::Path& prefix) {
    const BundleReader reader(prefix, files);
    EXPECT_THAT(values_of<float>(reader.read("u")),
                ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
    EXPECT_THAT(values_of<float>(reader.read("u", {{1, 1}, {2, 2}})), ElementsAre(5, 6, 2, 3));
    EXPECT_EQ(values_of<float>(reader.read("v")), x);
    EXPECT_EQ(reader.read_strings("names"), names);
  }
};

TEST_F(Merge, WhatIsWrittenIsRead) {
  BundleWriter writer("/in/b", files);
  writer.add("v", x.data(), {2, 3});
  writer.add_strings("names", {3}, names);
  EXPECT_FALSE(io::exists(*files, "/in/b.index"));
  writer.finish();
  const BundleReader reader("/in/b", files);
  EXPECT_EQ(values_of<float>(reader.read("v")), x);
  EXPECT_EQ(reader.read_strings("names"), names);
  EXPECT_EQ(reader.contents().find("v")->shape, (Dims{2, 3}));
  EXPECT_CAIRN_ERROR(reader.read_strings("v"), Code::invalid_argument,
                     "'v' holds no strings, but float32");
  EXPECT_CAIRN_ERROR(reader.read("names"), Code::invalid_argument, "names");
  EXPECT_CAIRN_ERROR(reader.read("w"), Code::not_found, "'w' is not in the checkpoint /in/b");
  EXPECT_CAIRN_ERROR(BundleWriter("/in/b", files), Code::already_exists, "/in/b");
  EXPECT_CAIRN_ERROR(writer.add("late", x.data(), {6}), Code::invalid_argument, "is finished");
}

TEST_F(Merge, AnUnfinishedBundleLeavesNothing) {
  {
    BundleWriter writer("/in/b", files);
    writer.add("v", x.data(), {6});
  }
  EXPECT_THAT(files->list("/in"), ElementsAre());
}

TEST_F(Merge, AWriterRefusesWhatNoReaderTakes) {
  BundleWriter writer("/in/b", files);
  EXPECT_CAIRN_ERROR(writer.add("", x.data(), {6}), Code::invalid_argument, "empty key");
  EXPECT_CAIRN_ERROR(writer.add("\xff", x.data(), {6}), Code::invalid_argument, "not UTF-8");
  EXPECT_CAIRN_ERROR(writer.add("_cairn/meta", x.data(), {6}), Code::invalid_argument, "reserved");
  EXPECT_CAIRN_ERROR(writer.add_slice("u", DType::float32, {4}, {{2}, {3}}, x.data()),
                     Code::invalid_argument, "lies outside 'u' [4]");
  EXPECT_CAIRN_ERROR(writer.add_slice("u", DType::float32, {4}, {{2, 0}, {1, 1}}, x.data()),
                     Code::invalid_argument, "lies outside 'u' [4]");
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_CAIRN_ERROR(writer.add_slice("u", DType::float32, {4}, {{most - 1}, {3}}, x.data()),
                     Code::invalid_argument, "lies outside 'u' [4]");
  EXPECT_CAIRN_ERROR(writer.add_slice("u", DType::float32, {4, 4}, {{0, 0}, {3}}, x.data()),
                     Code::invalid_argument, "and extent [3] lies outside 'u' [4 4]");
  EXPECT_CAIRN_ERROR(writer.add("u", x.data(), {most}), Code::invalid_argument, "2^63 bytes");
  EXPECT_CAIRN_ERROR(writer.add_strings("s", {2}, names), Code::invalid_argument,
                     "[2] is given 3 strings");
  writer.add("v", x.data(), {6});
  writer.add("v", x.data(), {6});
  EXPECT_CAIRN_ERROR(writer.finish(), Code::invalid_argument, "'v' is given twice");
}

TEST_F(Merge, SlicesAndTensorsOfAllParts) {
  write_parts();
  merge_checkpoints({"/in/one", "/in/two"}, "/out/all", options);
  expect_whole("/out/all");
  EXPECT_TRUE(io::exists(*files, "/in/one.index")) << "parts stay unless asked for";
  const auto contents = BundleReader("/out/all", files).contents();
  EXPECT_EQ(contents.num_files, 3) << "two of data, one of metadata";
  EXPECT_EQ(verify_checkpoint({*files, "/out/all"}).verdict(), Verdict::whole);
}

TEST_F(Merge, PartsGoWhenAskedFor) {
  write_parts();
  options.remove_inputs = true;
  merge_checkpoints({"/in/one", "/in/two"}, "/out/all", options);
  expect_whole("/out/all");
  EXPECT_FALSE(io::exists(*files, "/in")) << "emptied";
}

TEST_F(Merge, BesideItsPartsAndOverOneOfThem) {
  write_parts();
  options.remove_inputs = true;
  EXPECT_CAIRN_ERROR(merge_checkpoints({"/in/one", "/in/two"}, "/in/one", options),
                     Code::already_exists, "/in/one");
  options.overwrite = true;
  merge_checkpoints({"/in/one", "/in/two"}, "/in/one", options);
  expect_whole("/in/one");
  EXPECT_FALSE(io::exists(*files, "/in/two.index"));
}

TEST_F(Merge, EmptyPartsAndUnreferencedFiles) {
  write_parts();
  BundleWriter("/in/none", files).finish();
  merge_checkpoints({"/in/none", "/in/one", "/in/two"}, "/out/all", options);
  expect_whole("/out/all");
  EXPECT_EQ(BundleReader("/out/all", files).contents().num_files, 3);
  merge_checkpoints({"/in/none"}, "/out/nothing", options);
  EXPECT_TRUE(BundleReader("/out/nothing", files).contents().tensors.empty());
}

TEST_F(Merge, OfCheckpointsKeepsTheNewestMetadata) {
  ManagerOptions manager_options;
  manager_options.write.file_system = files;
  std::vector<double> a{1, 2}, b{3};
  CheckpointManager manager(serial_group(), "/run", manager_options);
  State first, second;
  first.add("a", a);
  second.add("b", b);
  manager.save(5, first);
  manager.save(9, second);
  merge_checkpoints({"/run/ckpt-9", "/run/ckpt-5"}, "/out/all", options);
  const BundleReader reader("/out/all", files);
  EXPECT_EQ(values_of<double>(reader.read("a")), a);
  EXPECT_EQ(values_of<double>(reader.read("b")), b);
  EXPECT_EQ(reader.contents().meta->step, 9);
  // The directory belongs to the manager.
  EXPECT_CAIRN_ERROR(merge_checkpoints({"/run/ckpt-5"}, "/run/ckpt-9", options), Code::busy,
                     "/run");
}

TEST_F(Merge, RefusesWhatDoesNotFitAndLeavesTheParts) {
  write_parts();
  const auto with = [&](const char* name, auto add) {
    BundleWriter writer(cat("/in/", name), files);
    add(writer);
    writer.finish();
  };
  with("whole", [&](auto& w) { w.add("v", x.data(), {6}); });
  with("dtype", [&](auto& w) {
    w.add_slice("u", DType::int32, {4, 3}, {{2, 0}, {2, 3}}, x.data());
  });
  with("shape", [&](auto& w) {
    w.add_slice("u", DType::float32, {5, 3}, {{2, 0}, {2, 3}}, x.data());
  });
  with("over", [&](auto& w) {
    w.add_slice("u", DType::float32, {4, 3}, {{1, 0}, {2, 3}}, x.data());
  });
  const auto merge = [&](const char* other) {
    merge_checkpoints({"/in/one", io::Path("/in") / other}, "/out/all", options);
  };
  EXPECT_CAIRN_ERROR(merge("whole"), Code::invalid_argument,
                     "tensor 'v' is in /in/one and in /in/whole");
  EXPECT_CAIRN_ERROR(merge("dtype"), Code::invalid_argument, "as float32 and as int32");
  EXPECT_CAIRN_ERROR(merge("shape"), Code::invalid_argument, "with shape [4 3] and with [5 3]");
  EXPECT_CAIRN_ERROR(merge("over"), Code::invalid_argument, "overlap");
  EXPECT_CAIRN_ERROR(merge("one"), Code::invalid_argument, "/in/one is given twice");
  EXPECT_CAIRN_ERROR(merge_checkpoints({"/in/one"}, "/out/all", options), Code::not_found,
                     "rows 2..3 × 0..2 is in no stored slice");
  EXPECT_CAIRN_ERROR(merge("missing"), Code::not_found, "/in/missing");
  EXPECT_CAIRN_ERROR(merge_checkpoints({}, "/out/all", options), Code::not_found,
                     "nothing to merge");
  options.allow_missing = true;
  EXPECT_CAIRN_ERROR(merge_checkpoints({"/in/x"}, "/out/all", options), Code::not_found,
                     "nothing to merge");
  merge_checkpoints({"/in/one", "/in/x", "/in/two"}, "/out/all", options);
  expect_whole("/out/all");
}

TEST_F(Merge, ACrashAtAnyInstantLeavesThePartsOrTheWhole) {
  write_parts();
  files->mark();
  options.remove_inputs = true;
  merge_checkpoints({"/in/one", "/in/two"}, "/out/all", options);
  std::size_t states = 0, before = 0;
  for (std::size_t stop = 0; stop <= files->operation_count(); ++stop) {
    for (const auto& choice : files->crash_choices(stop)) {
      SCOPED_TRACE(cat("after ", stop, " operations"));
      auto disk = files->crash(stop, choice);
      ++states;
      auto again = options;
      again.file_system = disk;
      if (!io::exists(*disk, "/out/all.index")) {
        ++before;
        merge_checkpoints({"/in/one", "/in/two"}, "/out/all", again);
      }
      files.swap(disk);
      expect_whole("/out/all");
      EXPECT_EQ(verify_checkpoint({*files, "/out/all"}).verdict(), Verdict::whole);
      files.swap(disk);
      if (HasFailure()) return;
    }
  }
  std::printf("[ STATES   ] merge: %zu crash states, %zu of them before the commit\n", states,
              before);
  EXPECT_GT(before, 100u);
  EXPECT_GT(states - before, 20u);
}

// Pins, as `cairn pin` does beside a job.
void pin(const std::shared_ptr<io::FileSystem>& files, const commit::Naming& name,
         std::int64_t step) {
  const Location place{files, "/run", name};
  for (const auto& entry : scan_catalog(place)) {
    if (entry.step == step) add_pin(place, entry);
  }
}

struct MergeSteps : Merge {
  MergeSteps() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings += cat(text, "\n");
    });
    CheckpointManager manager(serial_group(), "/run", manager_options());
    std::vector<double> values{1};
    for (const std::int64_t step : {5, 9}) {
      State state;
      state.add(cat("of-", step), values);
      manager.save(step, state);
    }
    options.remove_inputs = true;
  }
  ~MergeSteps() override { set_log_sink({}); }
  ManagerOptions manager_options() const {
    ManagerOptions made;
    made.write.file_system = files;
    return made;
  }
  void merge(const io::Path& to) { merge_checkpoints({"/run/ckpt-5", "/run/ckpt-9"}, to, options); }
  bool there(const io::Path& prefix) { return io::exists(*files, io::Path(prefix) += ".index"); }
  std::string warnings;
};

TEST_F(MergeSteps, APinnedDestinationIsNotReplaced) {
  options.remove_inputs = false;
  options.overwrite = true;
  pin(files, "ckpt", 9);
  const auto before = io::read_file(*files, "/run/ckpt-9.index", 1 << 20);
  EXPECT_CAIRN_ERROR(merge("/run/ckpt-9"), Code::already_exists,
                     "/run/ckpt-9 is pinned (a pinned checkpoint is not replaced)");
  EXPECT_EQ(io::read_file(*files, "/run/ckpt-9.index", 1 << 20), before);
  merge("/run/all");
  EXPECT_TRUE(there("/run/all")) << "a pinned part is read";
}

TEST_F(MergeSteps, ADestinationThatIsPinnedMeanwhileIsNotReplaced) {
  options.overwrite = true;
  const auto before = io::read_file(*files, "/run/ckpt-9.index", 1 << 20);
  files->set_observer([&](const std::string& text) {
    if (text.find("/run/ckpt-9_temp_") != text.npos && !text.starts_with("create_directory")) {
      files->set_observer({});
      pin(files, "ckpt", 9);
    }
  });
  EXPECT_CAIRN_ERROR(merge("/run/ckpt-9"), Code::already_exists, "/run/ckpt-9 is pinned");
  EXPECT_EQ(io::read_file(*files, "/run/ckpt-9.index", 1 << 20), before);
  EXPECT_TRUE(there("/run/ckpt-5"));
}

TEST_F(MergeSteps, APinnedPartIsNotRemoved) {
  pin(files, "ckpt", 5);
  for (const auto* to : {"/out/all", "/run/all"}) {
    EXPECT_CAIRN_ERROR(merge(to), Code::already_exists,
                       "/run/ckpt-5 is pinned (a pinned checkpoint is not removed)");
    EXPECT_FALSE(there(to)) << "nothing is written";
  }
  EXPECT_FALSE(io::exists(*files, "/out"));
  EXPECT_TRUE(there("/run/ckpt-5") && there("/run/ckpt-9"));
}

TEST_F(MergeSteps, APartThatIsPinnedMeanwhileStays) {
  files->set_observer([&](const std::string& text) {
    if (text.find("/out/all.index") != text.npos) {
      files->set_observer({});
      pin(files, "ckpt", 9);
    }
  });
  merge("/out/all");
  EXPECT_TRUE(there("/out/all") && there("/run/ckpt-9"));
  EXPECT_FALSE(there("/run/ckpt-5"));
  EXPECT_THAT(warnings, test::Says("an input stays: the checkpoint /run/ckpt-9 is pinned"));
}

TEST_F(MergeSteps, PartsUnderARunningJobStay) {
  // The directory is refused under another path, too; and so is that of another process.
  const auto job = commit::Ownership::take(files, "/run", 0);
  EXPECT_CAIRN_ERROR(merge("/out/all"), Code::busy, cat("is the owner, ", describe(job.record())));
  EXPECT_FALSE(io::exists(*files, "/out")) << "nothing is written";
  EXPECT_TRUE(there("/run/ckpt-5") && there("/run/ckpt-9"));
  options.remove_inputs = false;
  merge("/out/all");
  EXPECT_TRUE(there("/out/all")) << "reading disturbs nobody";
}

TEST_F(MergeSteps, PartsUnderAManagerOfThisProcessStay) {
  {
    const CheckpointManager manager(serial_group(), "/run", manager_options());
    EXPECT_CAIRN_ERROR(merge("/out/all"), Code::busy, "saves under the name 'ckpt' there");
    EXPECT_FALSE(io::exists(*files, "/out"));
  }
  merge("/run/all");
  EXPECT_TRUE(there("/run/all"));
  EXPECT_FALSE(there("/run/ckpt-5") || there("/run/ckpt-9"));
  EXPECT_EQ(warnings, "");
}

// The slices of all parts are joined before they are checked.
TEST_F(Merge, OverlapsAmongManyPartsAreFound) {
  const auto part = [&](int number, const Box& box) {
    BundleWriter writer(cat("/in/", number), files);
    writer.add_slice("u", DType::float32, {1024}, box, x.data());
    writer.finish();
  };
  std::vector<PathText> parts;
  for (int i = 0; i < 1024; ++i) {
    part(i, {{i}, {1}});
    parts.push_back(cat("/in/", i));
  }
  merge_checkpoints(parts, "/out/all", options);
  EXPECT_EQ(BundleReader("/out/all", files).read("u").size(), 4096u);
  part(5000, {{500}, {2}});
  parts.insert(parts.begin(), "/in/5000");
  EXPECT_CAIRN_ERROR(merge_checkpoints(parts, "/out/more", options), Code::invalid_argument,
                     "slices rows 500..501 and rows 500..500 overlap (the second is in /in/500)");
}

TEST_F(Merge, SlicesWithoutElementsComeOnceToo) {
  const auto part = [&](const char* prefix, const std::vector<Box>& boxes) {
    BundleWriter writer(prefix, files);
    for (const auto& box : boxes) writer.add_slice("u", DType::float32, {2, 2}, box, x.data());
    writer.finish();
  };
  part("/in/a", {{{0, 0}, {1, 2}}, {{1, 0}, {1, 2}}});
  part("/in/b", {{{1, 0}, {0, 2}}});
  part("/in/c", {{{1, 0}, {0, 2}}});
  part("/in/d", {{{0, 0}, {0, 2}}});
  merge_checkpoints({"/in/a", "/in/b", "/in/d"}, "/out/all", options);
  EXPECT_CAIRN_ERROR(merge_checkpoints({"/in/a", "/in/b", "/in/c", "/in/d"}, "/out/more", options),
                     Code::invalid_argument,
                     cat("slices ", box_text({{1, 0}, {0, 2}}), " and ", box_text({{1, 0}, {0, 2}}),
                         " overlap (the second is in /in/c)"));
}

// Each operation of finish() fails in turn, with renames and without.
TEST_F(Merge, ABundleThatCannotBeFinishedLeavesNothing) {
  for (const bool renames : {true, false}) {
    int failed = 0;
    for (bool fails = true; fails; ++failed) {
      const auto disk = std::make_shared<io::MemoryFileSystem>();
      io::create_directories(*disk, "/in/.cairn");
      if (!renames) io::write_file(*disk, "/in/.cairn/no-atomic-rename", "");
      BundleWriter writer("/in/b", disk);
      writer.add("v", x.data(), {6});
      disk->inject({Code::io, "", "", static_cast<std::size_t>(failed), 1});
      try {
        writer.finish();
        fails = false;
      } catch (const Error& error) {
        disk->clear_faults();
        SCOPED_TRACE(cat("renames ", renames, ", operation ", failed));
        if (error.code() == Code::durability_unknown) {
          EXPECT_EQ(values_of<float>(BundleReader("/in/b", disk).read("v")), x);
          continue;
        }
        EXPECT_THAT(disk->list("/in"), ElementsAre(".cairn"));
        EXPECT_CAIRN_ERROR(writer.finish(), Code::invalid_argument, "could not be finished");
        EXPECT_CAIRN_ERROR(writer.add("w", x.data(), {6}), Code::invalid_argument, "is removed");
        BundleWriter again("/in/b", disk);
        again.finish();
        EXPECT_TRUE(io::exists(*disk, "/in/b.index"));
      }
    }
    EXPECT_GT(failed, renames ? 6 : 5);
  }
}

TEST_F(Merge, SlicesOfManyKeysInAnyOrder) {
  BundleWriter writer("/in/b", files);
  for (int half : {0, 1}) {
    for (int key = 0; key < 500; ++key) {
      const float value = static_cast<float>(2 * key + half);
      writer.add_slice(cat("k", key), DType::float32, {2}, {{half}, {1}}, &value);
    }
  }
  writer.finish();
  const BundleReader reader("/in/b", files);
  for (int key = 0; key < 500; ++key) {
    EXPECT_THAT(values_of<float>(reader.read(cat("k", key))), ElementsAre(2 * key, 2 * key + 1));
  }
}

TEST(MergeOnDisk, LinksWhereTheFileSystemCan) {
  test::TemporaryDirectory temporary;
  const std::vector<double> x{1, 2, 3};
  BundleWriter writer(temporary.path() / "part");
  writer.add("x", x.data(), {3});
  writer.finish();
  merge_checkpoints({temporary.path() / "part"}, temporary.path() / "all");
  EXPECT_EQ(std::filesystem::hard_link_count(temporary.path() / "all.data-00000-of-00002"), 2u);
  EXPECT_EQ(values_of<double>(BundleReader(temporary.path() / "all").read("x")), x);
}

}  // namespace
}  // namespace cairn
