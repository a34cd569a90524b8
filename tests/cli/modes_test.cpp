// Who may read and write what was made: whoever the umask lets, and what is on nodes, its user.
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

// One that differs from any mode that is given without a thought: 0644, 0755, 0600, 0666.
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
