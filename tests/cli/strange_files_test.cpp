// Something that is no file in the place of one of Cairn's own, or a file that cannot be opened:
// the damaged one is named, and the rest can be used.
#include <gmock/gmock.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

using Place = std::function<void(const fs::path&)>;
const std::vector<std::pair<std::string, Place>> things{
    {"a pipe", [](const auto& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
    {"a directory", [](const auto& path) { fs::create_directory(path); }},
    {"a link to a device", [](const auto& path) { fs::create_symlink("/dev/zero", path); }},
    {"a link to nothing", [](const auto& path) { fs::create_symlink("/nowhere/at/all", path); }},
    {"a link to itself", [](const auto& path) { fs::create_symlink(path.filename(), path); }},
};

const std::vector<Format> formats{
    Format::bundle,
#ifdef CAIRN_TEST_HDF5
    Format::hdf5,
#endif
};

class StrangeFiles : public testing::Test {
 protected:
  StrangeFiles() {
    set_log_sink([](LogLevel, std::string_view) {});
    state_.add("x", value_);
  }
  ~StrangeFiles() override { set_log_sink({}); }

  fs::path at(const std::string& name) const { return scratch_.path() / "run" / name; }
  ManagerOptions options() const {
    ManagerOptions made;
    made.store.format = format;
    return made;
  }
  // Saves steps 1 to 3, of which 2 is pinned, and puts this in the place of a file.
  void make(const std::string& name, const Place& place) {
    fs::remove_all(scratch_.path() / "run");
    {
      CheckpointManager manager(serial_group(), at(""), options());
      for (int step = 1; step <= 3; ++step) {
        value_ = step;
        manager.save(step, state_);
      }
      manager.pin(2);
    }
    fs::remove_all(at(name));
    fs::create_directories(at(name).parent_path());
    place(at(name));
  }
  // The step that a job restores, after which it must be able to save.
  std::int64_t restored_and_saved() {
    CheckpointManager manager(serial_group(), at(""), options());
    const auto report = manager.restore_latest(state_);
    EXPECT_EQ(value_, report ? static_cast<double>(report->step) : 0);
    const auto found = report ? report->step : 0;
    value_ = 4;
    manager.save(4, state_);
    EXPECT_THAT(steps_of(manager), Contains(2)) << "it is pinned";
    return found;
  }
  static std::vector<std::int64_t> steps_of(CheckpointManager& manager) {
    std::vector<std::int64_t> found;
    for (const auto& one : manager.steps()) found.push_back(one.step);
    return found;
  }

  Format format = Format::bundle;
  double value_ = 0;
  State state_;
  ScratchDirectory scratch_;
};

TEST_F(StrangeFiles, InThePlaceOfACheckpoint) {
  for (const auto one : formats) {
    format = one;
    const std::string name = one == Format::bundle ? "ckpt-3.index" : "ckpt-3.h5";
    for (const auto& [what, place] : things) {
      SCOPED_TRACE(name + ": " + what);
      make(name, place);
      const auto listed = run_tool({"ls", at("").string()});
      EXPECT_EQ(listed.status, 0) << listed.err;
      EXPECT_THAT(listed.out, HasSubstr("2"));
      const auto verified = run_tool({"verify", at("").string()});
      EXPECT_EQ(verified.status, 1) << verified.out << verified.err;
      EXPECT_THAT(verified.out + verified.err, HasSubstr("ckpt-3"));
      EXPECT_EQ(restored_and_saved(), 2);
    }
  }
}

TEST_F(StrangeFiles, ALinkToNothingIsNamed) {
  make("ckpt-3.index", [](const auto& path) { fs::create_symlink("/nowhere/at/all", path); });
  EXPECT_THAT(run_tool({"ls", at("").string()}).out,
              test::Says("ckpt-3.index is a symbolic link to what is not there"));
  {
    CheckpointManager manager(serial_group(), at(""), options());
    manager.save(3, state_);
  }
  EXPECT_EQ(run_tool({"verify", at("").string()}).status, 0);
  // The directory of the checkpoints is a dangling link.
  const auto link = scratch_.path() / "link";
  fs::create_symlink("/nowhere/at/all", link);
  try {
    CheckpointManager manager(serial_group(), link, options());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), test::Says("is a link to /nowhere/at/all, which is not there"));
    EXPECT_EQ(error.path(), link.string());
  }
}

// Root may read everything, so this test then runs as another user, who may write the rest.
TEST_F(StrangeFiles, ACheckpointThatMayNotBeRead) {
  const bool as_root = ::geteuid() == 0;
  for (const auto one : formats) {
    format = one;
    const std::string name = one == Format::bundle ? "ckpt-3.index" : "ckpt-3.h5";
    SCOPED_TRACE(name);
    make(name, [](const auto& path) { write_bytes(path, "bytes that nobody may read"); });
    fs::permissions(scratch_.path(), fs::perms::all);
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      fs::permissions(entry, fs::perms::all);
    }
    ASSERT_EQ(::chmod(at(name).c_str(), 0), 0);
    if (!as_root) {  // other users may not be able to run the tool
      const auto listed = run_tool({"ls", at("").string()});
      EXPECT_EQ(listed.status, 0) << listed.err;
      EXPECT_THAT(listed.out, test::Says("Permission denied"));
      const auto verified = run_tool({"verify", at("").string()});
      EXPECT_EQ(verified.status, 2) << verified.out << verified.err;
      EXPECT_THAT(verified.out + verified.err, test::Says("Permission denied"));
    }
    if (as_root) ASSERT_EQ(::seteuid(65534), 0);
    EXPECT_EQ(restored_and_saved(), 2);
    if (as_root) ASSERT_EQ(::seteuid(0), 0);
    EXPECT_TRUE(fs::exists(at(name))) << "nobody knows what it is";
  }
}

TEST_F(StrangeFiles, InThePlaceOfANote) {
  for (const std::string name : {"checkpoint", ".cairn/pinned/ckpt-2", ".cairn/saved/ckpt-3.index",
                                 ".cairn/damaged/ckpt-3", ".cairn/owner", ".cairn/runs.ckpt"}) {
    for (const auto& [what, place] : things) {
      if (what == "a directory" && name == ".cairn/owner") continue;  // nothing can take its place
      SCOPED_TRACE(name + ": " + what);
      make(name, place);
      EXPECT_EQ(run_tool({"ls", at("").string()}).status, 0);
      EXPECT_EQ(run_tool({"verify", at("").string()}).status, 0);
      EXPECT_EQ(restored_and_saved(), 3);
    }
  }
}

}  // namespace
}  // namespace cairn::test
