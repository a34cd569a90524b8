// Links that somebody put in the place of Cairn's own files, in a directory that a group shares:
// their targets are not changed.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "io/expect_error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/protocol.hpp"
#include "store/nodes/place.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Links : public testing::Test {
 protected:
  Links() {
    set_log_sink([](LogLevel, std::string_view) {});
    fs::create_directories(at("mine/below"));
    for (const char* name : {"mine/thesis", "mine/below/part-0", "mine/map", "mine/index"}) {
      write_bytes(at(name), "years of work");
    }
    before_ = listing("mine");
  }
  ~Links() override { set_log_sink({}); }

  fs::path at(const std::string& name) const { return scratch_.path() / name; }
  std::vector<std::string> listing(const std::string& below) const {
    std::vector<std::string> some;
    for (const auto& entry : fs::recursive_directory_iterator(at(below))) {
      some.push_back(entry.path().string());
    }
    std::sort(some.begin(), some.end());
    return some;
  }
  void lead(const std::string& link, const std::string& to) const {
    fs::create_directories(at(link).parent_path());
    fs::create_symlink(at(to), at(link));
  }
  void expect_untouched() const {
    EXPECT_EQ(listing("mine"), before_);
    EXPECT_EQ(read_bytes(at("mine/thesis")), "years of work");
  }
  // Saves two checkpoints, the second one on this node.
  void save_on_node() const {
    double value = 1;
    State state;
    state.add("x", value);
    ManagerOptions options;
    options.tier.directory = at("tier");
    CheckpointManager manager(serial_group(), at("run"), options);
    manager.save(1, state);
    manager.save(2, state);
  }
  // The folder with the run's checkpoints on this node.
  fs::path on_node() const {
    for (const auto& home : fs::directory_iterator(at("tier"))) return home.path() / "ckpt";
    return {};
  }

  ScratchDirectory scratch_;
  std::vector<std::string> before_;
};

TEST_F(Links, OfANodeAreRemovedAndNotFollowed) {
  save_on_node();
  fs::create_directory(on_node() / "7-unfinished");
  fs::create_symlink(at("mine"), on_node() / "7-unfinished" / "more");
  fs::create_symlink(at("mine"), on_node() / "8-unfinished");
  fs::create_symlink(on_node(), on_node() / "7-unfinished" / "round");
  auto ran = run_tool({"gc", "--local", at("tier").string()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("7-unfinished, 0 B"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(on_node() / "7-unfinished")));
  expect_untouched();
  // All files there belong to a run that is gone.
  fs::create_symlink(at("mine"), on_node() / "more");
  fs::create_symlink(at("mine/thesis"), on_node() / "one");
  fs::remove_all(at("run"));
  ran = run_tool({"gc", "--local", at("tier").string()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(fs::is_empty(at("tier"))) << ran.out;
  expect_untouched();
}

TEST_F(Links, ANodeOfAnotherUserIsNotTidiedNorBroughtHome) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  save_on_node();
  ASSERT_EQ(::chown(at("tier").c_str(), 12345, 12345), 0);
  for (const auto& words : {std::vector<std::string>{"gc", "--local", at("tier").string()},
                            {"flush", at("run").string(), "--tier", at("tier").string()}}) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_THAT(ran.err, test::Says("is not this user's own directory"));
  }
  EXPECT_TRUE(fs::exists(on_node()));
}

TEST_F(Links, InThePlaceOfPiecesAndOfTempDirectories) {
  lead("pieces/1-0123", "mine");
  auto& files = *io::posix_file_system();
  EXPECT_TRUE(tier::remove_save(files, at("pieces/1-0123")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(at("pieces/1-0123"))));
  expect_untouched();
  lead("run/ckpt-1_temp_0123", "mine");
  commit::remove_temp(files, at("run/ckpt-1_temp_0123"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(at("run/ckpt-1_temp_0123"))));
  expect_untouched();
}

// Otherwise records, pins and notes would be made and removed in the target.
TEST_F(Links, InThePlaceOfWhatIsCairnsAlone) {
  double value = 1;
  State state;
  state.add("x", value);
  std::vector<std::string> links{""};
  for (const char* folder : commit::private_folders) links.push_back(cat("/", folder));
  for (const auto& link : links) {
    SCOPED_TRACE(link);
    fs::remove_all(at("run"));
    CheckpointManager(serial_group(), at("run")).save(1, state);
    fs::remove_all(at("run/.cairn" + link));
    lead("run/.cairn" + link, "mine");
    EXPECT_CAIRN_ERROR(CheckpointManager(serial_group(), at("run")), Code::invalid_argument,
                       cat(at("run/.cairn" + link).string(), " is a symbolic link"));
    const auto index = read_bytes(at("run/ckpt-1.index"));
    write_bytes(at("run/ckpt-1.index"), index.substr(0, index.size() / 2));
    for (const auto& words : {std::vector<std::string>{"pin", at("run").string(), "1"},
                              {"verify", at("run/ckpt-1").string(), "--repair"},
                              {"gc", at("run").string(), "--name", "ckpt"}}) {
      const auto ran = run_tool(words);
      EXPECT_EQ(ran.status, 2) << ran.out;
      EXPECT_THAT(ran.err, test::Says("is a symbolic link"));
    }
    write_bytes(at("run/ckpt-1.index"), index);
    expect_untouched();
    value = 0;
    ManagerOptions reads;
    reads.read_only = true;
    EXPECT_TRUE(CheckpointManager(serial_group(), at("run"), reads).restore_latest(state));
    EXPECT_EQ(value, 1);
  }
}

// A run's folder for pieces is a link to another run's: nothing is written or removed there, nor
// taken for its own.
TEST_F(Links, OfPiecesToAnotherRun) {
  const auto save = [&](const std::string& run, double value, int first, int last) {
    State state;
    state.add("x", value);
    ManagerOptions options;
    options.tier.directory = at("tier");
    CheckpointManager manager(serial_group(), at(run), options);
    for (int step = first; step <= last; ++step) manager.save(step, state);
  };
  const auto flush = [&](const std::string& run) {
    return run_tool({"flush", at(run).string(), "--tier", at("tier").string()});
  };
  save("a", 1, 1, 2);
  save("b", 2, 1, 3);
  EXPECT_EQ(flush("a").status, 0);
  const auto pieces = listing("a/.cairn/pieces");
  EXPECT_GT(pieces.size(), 3u);
  for (const std::string link : {"pieces", "pieces/ckpt"}) {
    SCOPED_TRACE(link);
    fs::remove_all(at("b/.cairn/pieces"));
    lead("b/.cairn/" + link, "a/.cairn/" + link);
    EXPECT_CAIRN_ERROR(save("b", 3, 4, 4), Code::invalid_argument, "is a symbolic link");
    const auto ran = flush("b");
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, test::Says("is a symbolic link"));
    EXPECT_EQ(listing("a/.cairn/pieces"), pieces);
    fs::remove_all(at("tier"));  // only what was brought home is left
    double value = 0;
    State state;
    state.add("x", value);
    ManagerOptions reads;
    reads.read_only = true;
    reads.tier.directory = at("tier");
    CheckpointManager(serial_group(), at("b"), reads).restore_latest(state);
    EXPECT_EQ(value, 2) << "its own first step";
  }
  // Nor if there is no link: those pieces tell whose they are.
  fs::remove_all(at("b/.cairn/pieces"));
  fs::copy(at("a/.cairn/pieces"), at("b/.cairn/pieces"), fs::copy_options::recursive);
  const auto copied = listing("b/.cairn/pieces");
  save("b", 4, 10, 18);
  EXPECT_EQ(listing("b/.cairn/pieces"), copied);
}

TEST_F(Links, AreNotWrittenThrough) {
  auto& files = *io::posix_file_system();
  lead("run/record", "mine/thesis");
  EXPECT_CAIRN_ERROR(files.open_write(at("run/record")), Code::io, "cannot open file");
  lead("run/lock", "mine/new");
  EXPECT_CAIRN_ERROR(files.try_lock(at("run/lock")), Code::io, "cannot open lock file");
  expect_untouched();
}

TEST_F(Links, ExportsGoUnderNamesThatNobodyKnew) {
  {
    double value = 1;
    State state;
    state.add("x", value);
    CheckpointManager(serial_group(), at("run")).save(1, state);
  }
  // A file of the user, and a link of somebody else.
  write_bytes(at("x.safetensors.unfinished"), "mine");
  lead("y.safetensors.unfinished", "mine/thesis");
  for (const char* name : {"x.safetensors", "y.safetensors"}) {
    const auto ran = run_tool({"convert", at("run/ckpt-1").string(), at(name).string()});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at(name))));
  }
  EXPECT_EQ(read_bytes(at("x.safetensors.unfinished")), "mine");
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(at("y.safetensors.unfinished"))));
  expect_untouched();
}

}  // namespace
}  // namespace cairn::test
