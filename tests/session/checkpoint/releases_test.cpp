// Checkpoints that released versions wrote, restored bit by bit: tests/releases/VERSION/WAY, beside
// a copy of the table of their tensors. What this tree writes is restored alike; with
// CAIRN_WRITE_RELEASE=tests/releases/VERSION it stays there, for a release.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "io/temporary_directory.hpp"
#include "layout/codec.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/conformance.hpp"
#include "support/tensor_table.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t first_step = 3, steps = 2;
#ifdef CAIRN_CONFORMANCE_HDF5
constexpr bool with_hdf5 = true;
#else
constexpr bool with_hdf5 = false;
#endif

// The ways to save that differ in what lies on disk: some of combinations.txt, HDF5 with each
// codec.
std::vector<Combination> ways() {
  std::vector<Combination> all;
  for (auto one : combinations()) {
    if (!with_hdf5 && (one.needs & libhdf5)) continue;
    if (one.name == "bundle" || one.name == "bundle_joined_async") all.push_back(one);
    if (one.name != "hdf5") continue;
    for (const std::string codec : words(StoreCodec{})) {
      if (codec == "automatic") continue;
      if (codec != "none") one.name = "hdf5_" + codec;
      one.options = {{"store.format", "hdf5"}, {"store.codec", codec}};
      all.push_back(one);
    }
  }
  return all;
}

// Whether this build has the codec by which a folder is called.
bool is_known_here(const std::string& way) {
  const auto all = words(StoreCodec{});
  const auto codec =
      std::find_if(all.begin(), all.end(), [&](auto word) { return way == cat("hdf5_", word); });
  return codec == all.end() || is_known(Codec(codec - all.begin() - 1));
}

void write(const fs::path& directory, const Combination& way) {
  const auto table = read_table(directory.parent_path() / "tensors.txt");
  run_threads(4, [&](std::shared_ptr<Group> group) {
    ManagerOptions options;
    options.write.chunk_bytes = 4096;  // as much as the io ranks of the table take
    way.choose(options);
    CheckpointManager manager(group, directory, options);
    for (auto step = first_step; step < first_step + steps; ++step) {
      TableState given(*group, table, step);
      manager.save_async(step, given.state());
      manager.wait();
    }
  });
}

void expect_all(const fs::path& directory, bool read_only) {
  SCOPED_TRACE(directory);
  const auto table = read_table(directory.parent_path() / "tensors.txt");
  for (auto step = first_step; step < first_step + steps; ++step) {
    EXPECT_EQ(
        verify_checkpoint({*io::posix_file_system(), directory / cat("ckpt-", step)}).verdict(),
        Verdict::whole);
    for (const int ranks : {1, 3}) {
      run_threads(ranks, [&](std::shared_ptr<Group> group) {
        TableState given(*group, table, -1);
        CheckpointManager manager(group, directory, {.read_only = read_only});
        manager.restore(step, given.state());
        EXPECT_EQ(given.check(*group, step), "");
      });
    }
  }
}

std::vector<fs::path> folders_of(const fs::path& place) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(place)) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Releases, AreRestored) {
  const auto versions = folders_of(CAIRN_RELEASES);
  EXPECT_FALSE(versions.empty());
  for (const auto& version : versions) {
    const auto kept = folders_of(version);
    EXPECT_FALSE(kept.empty()) << version;
    for (const auto& way : kept) {
      if (is_known_here(way.filename())) expect_all(way, true);
    }
  }
}

TEST(Releases, WhatIsWrittenNowIsRestored) {
  const TemporaryDirectory temporary(place_for_files());
  const char* given = std::getenv("CAIRN_WRITE_RELEASE");
  const fs::path version = given ? fs::path(given) : temporary.path();
  fs::create_directories(version);
  fs::copy_file(CAIRN_TENSORS, version / "tensors.txt", fs::copy_options::overwrite_existing);
  std::ofstream(version / "tensors.txt", std::ios::app)
      << "large      rows       float64     97,40\n";  // codecs take 16 KiB and more
  for (const auto& one : ways()) {
    if (!is_known_here(one.name)) continue;
    write(version / one.name, one);
    expect_all(version / one.name, false);
    fs::remove_all(version / one.name / ".cairn");  // its owner is gone
    const auto contents = read_contents(*io::posix_file_system(), version / one.name / "ckpt-3");
    EXPECT_EQ(contents.find("large")->slices.at(0).codec == Codec::none,
              !one.name.starts_with("hdf5_"));
  }
}

}  // namespace
}  // namespace cairn::test
