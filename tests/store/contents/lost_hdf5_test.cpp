// HDF5 files that are lost or replaced by something else: they are named, passed over with a
// warning, and replaced only where the file that is there can be of no use to anybody.
#include "cairn/checkpoint.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/lost_kit.hpp"
#include "store/directory/retention.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using lost::names_of;
using lost::repair;
using lost::replace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LostHdf5 : public Lost {
 protected:
  void SetUp() override {
    if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  }
};

TEST_F(LostHdf5, AnHdf5FileThatWasEmptiedIsNamedAndReplaced) {
  options_.store.format = Format::hdf5;
  job().save(1, 1);
  job().save(2, 2);
  const auto good = io::read_file(*files_, "/run/ckpt-2.h5", 1 << 30);
  const auto gone = std::string(292, '\0') + good.substr(292, good.size() - 400);
  for (const auto& left : {std::string(), good.substr(0, 8), good.substr(0, 100), gone}) {
    SCOPED_TRACE(left.size());
    replace(*files_, "/run/ckpt-2.h5", left);
    for (int times = 0; times < 2; ++times) {
      auto one = job();
      EXPECT_EQ(one.latest(), 1);
      ASSERT_EQ(one.manager.steps().size(), 2u);
      EXPECT_THAT(one.manager.steps()[1].damage, test::Says("ckpt-2.h5 is not there any more"));
    }
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-2"}).verdict(), Verdict::damaged);
    EXPECT_THAT(repair(files_, "/run/ckpt-2").left, ElementsAre(HasSubstr("ckpt-2.h5")));
    job().save(2, 5);
    EXPECT_EQ(job().latest(), 5);
  }
  // The state file alone tells it, too, and the notes alone tell it to an owner.
  replace(*files_, "/run/ckpt-2.h5", "");
  files_->remove("/run/.cairn/saved/ckpt-2.h5");
  EXPECT_EQ(find_lost(*files_, "/run").size(), 1u);
  EXPECT_EQ(job().latest(), 1);
  EXPECT_TRUE(files_->status("/run/.cairn/saved/ckpt-2.h5"));
  files_->remove("/run/checkpoint");
  EXPECT_EQ(job().latest(), 1);
  job().save(2, 6);
  EXPECT_EQ(job().latest(), 6);
}

// The state file cannot tell it: its bytes are lost as well, or it belongs to another name.
TEST_F(LostHdf5, WithoutAStateFileTheNoteTellsOfAnHdf5File) {
  options_.store.format = Format::hdf5;
  const auto file = [&](const std::string& name) {
    return io::read_file(*files_, "/run/" + name, 1 << 30);
  };
  const auto is_named = [&] {
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-2"}).verdict(), Verdict::damaged);
    options_.read_only = true;
    EXPECT_EQ(job().latest(), 1);
    options_.read_only = false;
    {
      auto one = job();
      EXPECT_EQ(one.latest(), 1);
      EXPECT_THAT(one.manager.steps().at(1).damage, test::Says("ckpt-2.h5 is not there any more"));
      test::expect_error(Code::data_loss, test::Says("is lost"),
                         [&] { one.manager.restore(2, one.state); });
      one.save(2, 3);
    }
    EXPECT_EQ(job().latest(), 3);
  };
  job().save(1, 1);
  job().save(2, 2);
  const auto bytes = file("ckpt-2.h5"), state = file("checkpoint");
  replace(*files_, "/run/ckpt-2.h5", state);
  replace(*files_, "/run/checkpoint", bytes);
  is_named();
  replace(*files_, "/run/ckpt-2.h5", "");
  files_->remove("/run/checkpoint");
  is_named();
  {
    options_.name = "other";
    job().save(7, 7);
    options_.name = "ckpt";
  }
  replace(*files_, "/run/ckpt-2.h5", "");
  is_named();
}

// A bundle saved over it, and retention, remove it.
TEST_F(LostHdf5, AnEmptiedHdf5FileGoesWithItsStep) {
  options_.store.format = Format::hdf5;
  for (int step = 1; step <= 3; ++step) job().save(step, step);
  replace(*files_, "/run/ckpt-2.h5", "");
  replace(*files_, "/run/ckpt-3.h5", "");
  options_.store.format = Format::bundle;
  job().save(3, 4);
  EXPECT_FALSE(files_->status("/run/ckpt-3.h5"));
  EXPECT_TRUE(files_->status("/run/ckpt-2.h5"));
  options_.keep.last = 2;
  job().save(4, 5);
  EXPECT_THAT(names_of(*files_, "ckpt-2"), IsEmpty());
  job();
  EXPECT_FALSE(files_->status("/run/.cairn/saved/ckpt-2.h5"));
  // The name is then free for others.
  io::write_file(*files_, "/run/ckpt-2.h5", "");
  EXPECT_EQ(find_lost(*files_, "/run").size(), 0u);
  options_.store.format = Format::hdf5;
  test::expect_error(Code::already_exists, test::Says("Cairn did not write it"),
                     [&] { job().save(2, 1); });
}

// The file that is there may be somebody's work.
TEST_F(LostHdf5, AWholeHdf5FileOfOthersIsNotReplaced) {
  options_.store.format = Format::hdf5;
  job().save(1, 1);
  job().save(2, 2);
  auto foreign = io::read_file(*files_, "/run/ckpt-2.h5", 1 << 30);
  foreign.resize(foreign.size() - 64);  // without the seal
  for (std::size_t at; (at = foreign.find("cairn checkpoint")) != foreign.npos;) foreign[at] = 'C';
  foreign += std::string(64, 'x');
  replace(*files_, "/run/ckpt-2.h5", foreign);
  EXPECT_EQ(job().latest(), 1);
  EXPECT_EQ(job().manager.steps().size(), 2u) << "named, all the same";
  test::expect_error(Code::already_exists, test::Says("Cairn did not write it"),
                     [&] { job().save(2, 1); });
  EXPECT_EQ(io::read_file(*files_, "/run/ckpt-2.h5", 1 << 30), foreign);
  // Nor is it removed when retention removes the step.
  options_.keep.last = 1;
  job().save(3, 3);
  EXPECT_EQ(job().manager.steps().size(), 1u);
  EXPECT_EQ(io::read_file(*files_, "/run/ckpt-2.h5", 1 << 30), foreign);
  EXPECT_EQ(find_lost(*files_, "/run").size(), 0u);
}

TEST_F(LostHdf5, RetentionOfLostOnesLeavesNoTraceOfThem) {
  options_.store.format = Format::hdf5;
  for (int step = 1; step <= 3; ++step) job().save(step, step);
  for (int step = 1; step <= 3; ++step) replace(*files_, cat("/run/ckpt-", step, ".h5"), "");
  auto catalog = scan_catalog({files_, "/run", "ckpt"});
  ASSERT_EQ(catalog.size(), 3u);
  {
    const auto owner = commit::Ownership::take(files_, "/run", 0);
    apply_retention({files_, "/run", "ckpt"}, catalog, {.last = 1}, owner);
  }
  EXPECT_EQ(find_lost(*files_, "/run").size(), 1u);
  EXPECT_THAT(commit::read_state_file(*files_, "/run")->all_paths, ElementsAre("ckpt-3"));
}

}  // namespace
}  // namespace cairn
