// Only the metadata say which checkpoint a name has: a whole checkpoint of another step is not
// restored in its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/restore/shared_index.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

class UnderOtherNames : public testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    const bool needs_hdf5 = GetParam() == Format::hdf5;
    if (needs_hdf5 && !hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
    options_ = test::on_disk();
    options_.write.file_system = files_;
    options_.store.format = GetParam();
  }
  void rename(const std::string& from, const std::string& to) {
    for (const auto& name : files_->list("/run")) {
      if (!name.starts_with(from + ".")) continue;
      files_->rename("/run/" + name, cat("/run/", to, name.substr(from.size())));
    }
  }

  /// The number is in the state.
  void save_three(State& state, double& u) const {
    CheckpointManager manager(serial_group(), "/run", options_);
    for (const auto step : {5, 6, 7}) u = step, manager.save(step, state);
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_P(UnderOtherNames, CheckpointsThatChangedPlacesAreDamagedAndNotRestored) {
  double u = 0;
  State state;
  state.add("u", u);
  save_three(state, u);
  rename("ckpt-7", "else");
  rename("ckpt-6", "ckpt-7");
  rename("else", "ckpt-6");
  for (const int step : {6, 7}) {
    const auto checked = verify_checkpoint({*files_, cat("/run/ckpt-", step)});
    EXPECT_EQ(checked.verdict(), Verdict::damaged);
    ASSERT_FALSE(checked.findings.empty());
    EXPECT_THAT(checked.findings[0].what, HasSubstr(cat("holds ckpt-", 13 - step)));
  }
  CheckpointManager manager(serial_group(), "/run", options_);
  const auto report = manager.restore_latest(state);
  EXPECT_EQ(report->step, 5);
  EXPECT_EQ(u, 5);
  EXPECT_EQ(report->skipped.size(), 2u);
  for (const bool dealt : {false, true}) {
    const auto before = index_sharing();
    if (dealt) index_sharing() = {0, 16};
    test::expect_error(Code::data_loss, test::Says("it holds ckpt-6"),
                       [&] { manager.restore(7, state); });
    index_sharing() = before;
  }
  // Under any other name it is still the same step.
  for (const auto* name : {"final", "best-1"}) {
    rename("ckpt-5", name);
    EXPECT_EQ(verify_checkpoint({*files_, cat("/run/", name)}).verdict(), Verdict::whole) << name;
    rename(name, "ckpt-5");
  }
}

// The copy has the original's place in the history, after which nothing came.
TEST_P(UnderOtherNames, ACopyDoesNotSupersedeItsOriginal) {
  double u = 0;
  State state;
  state.add("u", u);
  save_three(state, u);
  for (const auto& name : files_->list("/run")) {
    if (name.starts_with("ckpt-7.")) files_->remove("/run/" + name);
  }
  for (const auto& name : files_->list("/run")) {
    if (!name.starts_with("ckpt-6.")) continue;
    const auto bytes = io::read_file(*files_, "/run/" + name, std::int64_t{1} << 20);
    const auto copy = files_->create("/run/ckpt-7" + name.substr(6));
    copy->write_at(0, std::as_bytes(std::span(bytes)));
  }
  CheckpointManager manager(serial_group(), "/run", options_);
  EXPECT_EQ(manager.restore_latest(state).value().step, 6);
  EXPECT_EQ(u, 6);
}

INSTANTIATE_TEST_SUITE_P(Formats, UnderOtherNames, testing::Values(Format::bundle, Format::hdf5),
                         [](const auto& info) {
                           return words(info.param)[static_cast<int>(info.param)];
                         });

}  // namespace
}  // namespace cairn
