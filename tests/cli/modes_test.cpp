// Who may read and write the files: everybody whom the umask allows; on nodes, only the user.
#include <gmock/gmock.h>

#include <sys/stat.h>

#include <filesystem>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;

// It differs from every mode that code might use by mistake: 0644, 0755, 0600, 0666.
constexpr mode_t mask = 0002;

class Modes : public testing::Test {
 protected:
  Modes() : before_(::umask(mask)) {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~Modes() override {
    ::umask(before_);
    set_log_sink({});
  }
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }
  void save(const std::string& directory, ManagerOptions options) {
    std::vector<double> values(4000, 1.5);
    State state;
    state.add("x", whole(values.data(), {40, 100}));
    state.add("model/m", stored(Storage::sliced, whole(values.data(), {4000})));
    options.keep.last = 2;
    options.when.interval = optimal(Mtbf::learnt());  // which runs are noted for
    CheckpointManager manager(serial_group(), directory, options);
    for (int step = 1; step <= 4; ++step) {
      manager.save_async(step, state);
      manager.wait();
    }
    manager.pin(4);
    expect_modes(directory);  // while it is open, too
  }
  void expect_modes(const fs::path& below) const {
    std::size_t seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(below)) {
      struct stat status = {};
      ASSERT_EQ(::lstat(entry.path().c_str(), &status), 0);
      const mode_t all = S_ISDIR(status.st_mode) ? 0777 : 0666;
      EXPECT_EQ(status.st_mode & 07777, all & ~mask) << entry.path();
      ++seen;
    }
    EXPECT_GT(seen, 0u);
  }

  const mode_t before_;
  ScratchDirectory scratch_;
};

TEST_F(Modes, FollowTheUmask) {
  save(at("bundles"), {});
  ManagerOptions frozen;
  frozen.frozen.keys = {"model/*"};
  save(at("frozen"), frozen);
  ManagerOptions direct;
  direct.write.atomic_rename = false;
  save(at("direct"), direct);
#ifdef CAIRN_TEST_HDF5
  ManagerOptions hdf5;
  hdf5.store.format = Format::hdf5;
  save(at("hdf5"), hdf5);
#endif
  const auto from = at("bundles/ckpt-4");
  for (const auto& words : {std::vector<std::string>{"convert", from, at("x.safetensors")},
                            {"convert", from, at("x.zarr")},
                            {"convert", from, at("cut-1"), "--max-shard-size", "9000"},
                            {"xdmf", at("bundles")},
                            {"cat", from, "x", "--format", "npy", "-o", at("x.npy")},
                            {"pin", at("bundles"), "3"},
                            {"gc", at("bundles")}}) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 0) << words[0] << ": " << ran.err;
  }
  double value = 1;
  BundleWriter writer(at("bundle"));
  writer.add("x", DType::float64, {}, &value);
  writer.finish();
  expect_modes(scratch_.path());
}

mode_t mode_of(const fs::path& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

// A file that others could read is overwritten by one that they may not read.
TEST_F(Modes, OfRecycledFilesFollowTheUmask) {
  for (const bool at_once : {true, false}) {
    ::umask(022);
    std::vector<double> values(4000, 1.5);
    State state;
    state.add("x", whole(values.data(), {4000}));
    ManagerOptions options;
    options.keep.last = 1;
    const auto directory = at(at_once ? "at_once" : "later");
    const auto save = [&](int first, int last, mode_t mode) {
      CheckpointManager manager(serial_group(), directory, options);
      for (int step = first; step <= last; ++step) {
        if (at_once) {
          manager.save(step, state);
        } else {
          manager.save_async(step, state);
          manager.wait();
        }
        int seen = 0;
        for (const auto& entry : fs::directory_iterator(directory)) {
          const auto name = entry.path().filename().string();
          if (!name.starts_with(cat("ckpt-", step, "."))) continue;
          EXPECT_EQ(mode_of(entry.path()), mode) << name;
          ++seen;
        }
        EXPECT_GT(seen, 1) << step;
      }
      return manager.statistics().last.back().recycled_files;
    };
    EXPECT_GT(save(1, 4, 0644), 0);
    ::umask(077);
    EXPECT_GT(save(5, 7, 0600), 0);
  }
}

TEST_F(Modes, OfWhatIsMadeOfACheckpointAreNoMoreOpen) {
  save(at("run"), {});
  for (const auto& entry : fs::directory_iterator(at("run"))) {
    if (entry.is_regular_file()) fs::permissions(entry, fs::perms(0600));
  }
  const auto index = at("run/ckpt-4.index");
  write_bytes(index, read_bytes(index).substr(0, 100));
  EXPECT_EQ(mode_of(index), 0600u);
  EXPECT_EQ(run_tool({"verify", "--repair", at("run/ckpt-4")}).status, 0);
  EXPECT_EQ(mode_of(index), 0600u);
  fs::remove(index);
  EXPECT_EQ(run_tool({"verify", "--repair", at("run/ckpt-4")}).status, 0);
  EXPECT_EQ(mode_of(index), 0600u);
  const auto of_another = read_bytes(at("run/ckpt-3.index"));
  for (const auto& entry : fs::directory_iterator(at("run"))) {
    if (entry.path().filename().string().starts_with("ckpt-3.")) fs::remove(entry);
  }
  for (const bool renames : {true, false}) {
    SCOPED_TRACE(renames);
    if (!renames) write_bytes(at("run/.cairn/no-atomic-rename"), "");
    write_bytes(index, of_another);
    EXPECT_EQ(run_tool({"verify", "--repair", at("run/ckpt-4")}).status, 0);
    EXPECT_EQ(mode_of(index), 0600u);
    EXPECT_EQ(mode_of(at("run/ckpt-4.index.replaced")), 0600u);
    fs::remove(at("run/ckpt-4.index.replaced"));
  }
  fs::remove(at("run/.cairn/no-atomic-rename"));
  for (const auto& words :
       {std::vector<std::string>{"convert", at("run/ckpt-4"), at("x.safetensors")},
        {"convert", at("run/ckpt-4"), at("x.zarr")},
        {"convert", at("run/ckpt-4"), at("cut"), "--max-shard-size", "9000"},
        {"convert", at("x.safetensors"), at("back")},
        {"cat", at("run/ckpt-4"), "x", "--output", at("x.npy"), "--format", "npy"},
        {"merge", at("merged"), at("run/ckpt-4")}}) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
  }
  int seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
    const auto relative = fs::relative(entry.path(), scratch_.path()).string();
    const bool made = relative.starts_with("x.") || relative.starts_with("cut.") ||
                      relative.starts_with("back.") || relative.starts_with("merged.");
    if (!made || !entry.is_regular_file()) continue;
    EXPECT_EQ(mode_of(entry.path()), 0600u) << relative;
    ++seen;
  }
  EXPECT_GT(seen, 8);
#ifdef CAIRN_TEST_HDF5
  EXPECT_EQ(run_tool({"convert", at("run/ckpt-4"), at("one.h5")}).status, 0);
  EXPECT_EQ(mode_of(at("one.h5")), 0600u);
#endif
}

TEST_F(Modes, OnANodeAreTheUsersOwn) {
  ManagerOptions options;
  options.tier.directory = at("tier");
  double value = 1;
  State state;
  state.add("x", value);
  {
    CheckpointManager manager(serial_group(), at("run"), options);
    manager.save(1, state);
    manager.save(2, state);
  }
  struct stat status = {};
  ASSERT_EQ(::stat(at("tier").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  const auto ran = run_tool({"flush", at("run"), "--tier", at("tier")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  expect_modes(at("run"));
}

}  // namespace
}  // namespace cairn::test
