// Verifies checkpoints beside a job that removes and replaces them while their bytes are read.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/target.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/directory/named_checkpoint.hpp"
#include "testing/memory.hpp"
#include "tools/run_report.hpp"
#include "tools/verify_beside.hpp"

namespace cairn::test {
namespace {

// Another process acts when the first data file of a step is opened.
class Beside : public io::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    if (path.filename().string().starts_with(of + ".data-") && skip-- <= 0) {
      if (const auto go_on = std::exchange(meanwhile, nullptr)) go_on();
    }
    return FileSystemWrapper::open_read(path);
  }
  std::string of;
  int skip = 0;  // after so many openings
  std::function<void()> meanwhile;
};

class VerifyBeside : public testing::Test {
 protected:
  VerifyBeside() {
    set_log_sink({});
    ManagerOptions options;
    options.write.file_system = disk_;
    options.keep.last = 2;
    options.overwrite = true;
    manager_ = std::make_unique<CheckpointManager>(serial_group(), "/run", options);
    for (const int step : {1, 2}) save(step);
  }
  void save(int step) {
    values_.assign(1000, step + static_cast<double>(saves_++));
    State state;
    state.add("u", values_);
    manager_->save(step, state);
  }
  std::optional<FoundBeside> verify(int step) {
    return verify_beside(directory_, directory_ / cat("ckpt-", step));
  }

  std::shared_ptr<io::FileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  std::shared_ptr<Beside> seen_ = std::make_shared<Beside>(disk_);
  Address directory_{seen_, "/run"};
  std::unique_ptr<CheckpointManager> manager_;
  std::vector<double> values_;
  int saves_ = 0;
  // The data of step 1 stay until the save after the one that lets it go, which overwrites them.
  const std::function<void()> go_on_ = [this] { save(3), save(4); };
};

TEST_F(VerifyBeside, WhatIsLetGoMeanwhileIsNoFinding) {
  seen_->of = "ckpt-1";
  seen_->meanwhile = go_on_;
  EXPECT_FALSE(verify(1));
  EXPECT_FALSE(seen_->meanwhile) << "nothing went on beside it";
  EXPECT_FALSE(verify(1)) << "listed, and gone when its turn comes";
  for (const int step : {3, 4}) {
    const auto found = verify(step);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->checked.verdict(), Verdict::whole);
  }
}

TEST_F(VerifyBeside, WhatIsReplacedMeanwhileIsReadAgain) {
  seen_->of = "ckpt-2";
  seen_->meanwhile = [&] { save(2); };
  const auto found = verify(2);
  EXPECT_FALSE(seen_->meanwhile) << "nothing went on beside it";
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checked.verdict(), Verdict::whole);
  // The same if the checkpoint is named itself.
  seen_->meanwhile = [&] { save(2); };
  const auto named = verify_beside(directory_ / "ckpt-2", directory_ / "ckpt-2");
  EXPECT_FALSE(seen_->meanwhile);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->checked.verdict(), Verdict::whole);
}

TEST_F(VerifyBeside, WhatWasNamedAndIsGoneCannotBeTold) {
  seen_->of = "ckpt-1";
  seen_->meanwhile = go_on_;
  const auto found = verify_beside(directory_ / "ckpt-1", directory_ / "ckpt-1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checked.verdict(), Verdict::unknown);
}

TEST_F(VerifyBeside, DamageStaysDamage) {
  const auto data = directory_ / "ckpt-1.data-00000-of-00002";
  ASSERT_TRUE(data.exists()) << testing::PrintToString(disk_->list("/run"));
  disk_->open_write(data.path())->write_at(0, std::as_bytes(std::span("damage", 6)));
  const auto found = verify(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checked.verdict(), Verdict::damaged);
}

// A reader of the newest checkpoint finds that it is gone.
TEST_F(VerifyBeside, ADirectoryNamesAnotherByThen) {
  const auto newest = resolve_checkpoint(directory_);
  EXPECT_FALSE(names_another(directory_, newest));
  save(3);
  EXPECT_TRUE(names_another(directory_, newest));
  EXPECT_FALSE(names_another(newest, newest));
}

// A tool that works on a directory's newest checkpoint starts again with the one that is the newest
// then.
TEST_F(VerifyBeside, AToolGoesOnWithTheNewestOfThatMoment) {
  std::vector<std::string> asked;
  const auto step = cli::with_checkpoint(directory_, [&](const Address& prefix) {
    asked.push_back(prefix.name());
    if (asked.size() == 1) go_on_();
    if (names_another(directory_, prefix)) throw Error(Code::not_found, "it is gone");
    return read_summary(*prefix.files(), prefix.path()).meta.value().step;
  });
  EXPECT_EQ(step, 4);
  EXPECT_EQ(asked, (std::vector<std::string>{"ckpt-2", "ckpt-4"}));
  // Any other error is reported at once.
  asked.clear();
  EXPECT_THROW(cli::with_checkpoint(directory_,
                                    [&](const Address& prefix) -> int {
                                      asked.push_back(prefix.name());
                                      throw Error(Code::data_loss, "damaged");
                                    }),
               Error);
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(VerifyBeside, AReportHasNoDamageOfWhatIsLetGo) {
  seen_->of = "ckpt-1";
  seen_->skip = 1;  // the first opening is that of the list
  seen_->meanwhile = go_on_;
  const auto report = read_run(location_of(directory_, commit::Naming("ckpt")), "");
  EXPECT_FALSE(seen_->meanwhile) << "nothing went on beside it";
  for (const auto& one : report.saves) {
    if (one.entry) EXPECT_EQ(one.entry->damage, "") << one.save.step;
    if (one.save.step == 1) EXPECT_FALSE(one.entry);
  }
}

}  // namespace
}  // namespace cairn::test
