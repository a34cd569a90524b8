// Bundles whose metadata cannot be read, or belong to another save than the index: what a restart,
// a restore of that step and listings do with them.
#include <mutex>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/restore/shared_index.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LostMetadata : public Manager {
 protected:
  LostMetadata() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard guard(mutex_);
      if (level == LogLevel::warning) warnings_ += cat(text, '\n');
    });
  }
  ~LostMetadata() override {
    set_log_sink({});
    index_sharing() = sharing_;
  }
  std::string path(std::int64_t step) const {
    return cat("/run/ckpt-", step, ".data-0000", GetParam(), "-of-0000", GetParam() + 1);
  }
  std::string warnings() {
    const std::lock_guard guard(mutex_);
    return std::exchange(warnings_, "");
  }

  const IndexSharing sharing_ = index_sharing();
  std::mutex mutex_;
  std::string warnings_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, LostMetadata, testing::Values(1, 3));

TEST_P(LostMetadata, OfTheOnlyCheckpointItIsRestoredWithAWarning) {
  job([](Rank& rank) { rank.save(3); });
  const auto good = io::read_file(*files_, path(3), 1 << 20);
  for (const auto* how : {"removed", "flipped", "cut"}) {
    SCOPED_TRACE(how);
    files_->remove(path(3));
    auto bytes = good.substr(0, *how == 'c' ? 30 : good.npos);
    bytes[20] ^= 4;
    if (*how != 'r') io::write_file(*files_, path(3), bytes);
    for (const bool dealt : {false, true}) {
      if (dealt) index_sharing() = {0, 1};
      for (const bool read_only : {true, false}) {
        options_.read_only = read_only;
        warnings();
        job([](Rank& rank) {
          const auto steps = rank.manager.steps();
          ASSERT_EQ(steps.size(), 1u);
          EXPECT_THAT(steps[0].damage, test::Says("its metadata cannot be read"));
          const auto report = rank.manager.restore_latest(rank.state);
          ASSERT_TRUE(report);
          EXPECT_EQ(report->step, 3);
          EXPECT_THAT(report->skipped, IsEmpty());
          EXPECT_EQ(rank.seen(), 3);
          rank.step = 0;
          rank.manager.restore(3, rank.state);
          EXPECT_EQ(rank.seen(), 3);
        });
        EXPECT_THAT(warnings(), test::Says("only its name says which step it is"));
      }
      index_sharing() = sharing_;
    }
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-3"}).verdict(), Verdict::damaged);
    if (*how == 'r') io::write_file(*files_, path(3), "");
  }
  // The run goes on, and its parent does not count as abandoned.
  job([](Rank& rank) {
    EXPECT_EQ(rank.latest(), 3);
    rank.save(4);
    EXPECT_EQ(rank.latest(), 4);
    EXPECT_FALSE(rank.manager.steps()[0].superseded);
  });
  files_->remove("/run/ckpt-4.index");
  job([](Rank& rank) { EXPECT_EQ(rank.latest(), 3); });
}

TEST_P(LostMetadata, ItIsTakenAfterAllOthersAndNotIfNoOtherIsWanted) {
  job([](Rank& rank) {
    for (const int step : {1, 2, 3, 4}) rank.save(step);
  });
  for (const int step : {2, 3, 4}) files_->remove(path(step));
  job([](Rank& rank) {
    const auto report = rank.manager.restore_latest(rank.state);
    EXPECT_EQ(report->step, 1);
    EXPECT_THAT(report->skipped,
                ElementsAre(HasSubstr("step 4: "), HasSubstr("step 3: "), HasSubstr("step 2: ")));
  });
  flip("/run/ckpt-1.data-00000-of-0000" + cat(GetParam() + 1), 1);
  options_.read_only = true;
  job([](Rank& rank) {
    const auto report = rank.manager.restore_latest(rank.state);
    EXPECT_EQ(report->step, 4) << "of those the newest";
    EXPECT_THAT(report->skipped, testing::Contains(HasSubstr("step 1: ")));
    EXPECT_THAT(report->skipped, testing::Not(testing::Contains(HasSubstr("step 4: "))));
  });
  flip("/run/ckpt-4.data-00000-of-0000" + cat(GetParam() + 1), 1);
  job([](Rank& rank) { EXPECT_EQ(rank.manager.restore_latest(rank.state)->step, 3); });
  options_.restore.fall_back = false;
  job([](Rank& rank) {
    expect_error(rank, Code::data_loss, "step 4: its metadata cannot be read",
                 [&] { rank.latest(); });
  });
}

// The index belongs to another step, or to an older save under this name.
TEST_P(LostMetadata, AnIndexThatIsNotItsOwnIsNotRestored) {
  job([](Rank& rank) {
    for (const int step : {2, 3}) {
      rank.step = step;
      rank.value = 7;
      rank.manager.save(step, rank.state);
    }
  });
  const auto index = io::read_file(*files_, "/run/ckpt-2.index", 1 << 20);
  files_->remove("/run/ckpt-3.index");
  io::write_file(*files_, "/run/ckpt-3.index", index);
  // The only difference between the two is the tensor "step".
  files_->remove("/run/ckpt-3.data-00000-of-0000" + cat(GetParam() + 1));
  io::copy(*files_, "/run/ckpt-2.data-00000-of-0000" + cat(GetParam() + 1),
           "/run/ckpt-3.data-00000-of-0000" + cat(GetParam() + 1));
  for (const bool dealt : {false, true}) {
    if (dealt) index_sharing() = {0, 1};
    job([](Rank& rank) {
      expect_error(rank, Code::data_loss, "the index is another's",
                   [&] { rank.manager.restore(3, rank.state); });
      const auto steps = rank.manager.steps();
      EXPECT_EQ(steps[1].step, 3);
      EXPECT_EQ(steps[1].sequence, 2) << "its place is told by the metadata";
      EXPECT_THAT(steps[1].damage, test::Says("the index is another's"));
      const auto report = rank.manager.restore_latest(rank.state);
      EXPECT_EQ(report->step, 2);
      EXPECT_THAT(report->skipped, ElementsAre(test::Says("the index is another's")));
    });
  }
  const auto checked = verify_checkpoint({*files_, "/run/ckpt-3"});
  EXPECT_EQ(checked.verdict(), Verdict::damaged);
  EXPECT_THAT(checked.findings.at(0).what,
              AllOf(test::Says("the index is another's"), HasSubstr("--repair")));
  EXPECT_THAT(checked.findings.at(0).file, HasSubstr("ckpt-3.index"));
}

// Data files are debris only where the index is proved to be the step's own and does not refer to
// them.
TEST_P(LostMetadata, NoDataGoBesideAnIndexThatIsNotProvedToBeItsOwn) {
  if (GetParam() < 3) return;
  job([](Rank& rank) { rank.save(2); });
  run_threads(2, [&](std::shared_ptr<Group> group) {  // of a save with fewer files
    auto options = options_;
    options.overwrite = true;
    Rank(group, options).save(3);
  });
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& name : files_->list("/run")) {
      if (name.starts_with("ckpt-")) all.push_back(name);
    }
    return all;
  };
  const auto index = io::read_file(*files_, "/run/ckpt-2.index", 1 << 20);
  for (const bool with_data : {false, true}) {  // a copy of the index, and of all files
    files_->remove("/run/ckpt-2.index");
    io::copy(*files_, "/run/ckpt-3.index", "/run/ckpt-2.index");
    for (int file = 0; with_data && file < 3; ++file) {
      io::copy(*files_, commit::data_path("/run/ckpt-3", file, 3),
               commit::data_path("/run/ckpt-2", file, 3));
    }
    const auto before = names();
    job([](Rank& rank) { EXPECT_EQ(rank.manager.steps().size(), 2u); });
    EXPECT_EQ(names(), before);
  }
  files_->remove("/run/ckpt-2.index");
  io::write_file(*files_, "/run/ckpt-2.index", index);
  job([](Rank& rank) {
    rank.manager.restore(2, rank.state);
    EXPECT_EQ(rank.seen(), 2);
  });
  EXPECT_FALSE(files_->status(commit::data_path("/run/ckpt-2", 0, 3))) << "now it is debris";
}

// Nobody can tell any more which savers took part.
TEST_P(LostMetadata, SaversAreNotPassedOverInSilence) {
  int called = 0;
  const RegisteredSaver saver{"mine",
                              [&](const std::string& prefix) {
                                BundleWriter writer(prefix, files_);
                                const double extra = 1;
                                writer.add("extra", &extra, {});
                                writer.finish();
                                return std::vector{prefix};
                              },
                              [&](const std::string&) { ++called; }};
  if (GetParam() > 1) return;  // one of several would save the same key
  options_.hooks.savers = {saver};
  job([](Rank& rank) { rank.save(1); });
  for (const auto& name : files_->list("/run")) {
    if (name.find("-00002-of-00003") != name.npos) files_->remove("/run/" + name);
  }
  job([](Rank& rank) {
    rank.step = -1;
    expect_error(rank, Code::unsupported, "saver 'mine' cannot restore",
                 [&] { rank.manager.restore(1, rank.state); });
    EXPECT_EQ(rank.step, -1) << "nothing was touched";
  });
  EXPECT_EQ(called, 0);
  options_.hooks.savers.clear();
  job([](Rank& rank) { EXPECT_EQ(rank.latest(), 1); });
}

TEST_P(LostMetadata, InAnHdf5FileItIsTheSame) {
  if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  options_.store.format = Format::hdf5;
  job([](Rank& rank) {
    rank.save(1);
    rank.save(2);
  });
  const auto place = hdf5::find_meta_place(io::read_file(*files_, "/run/ckpt-2.h5", 1 << 30));
  ASSERT_TRUE(place);
  flip("/run/ckpt-2.h5", place->offset + 12);
  job([](Rank& rank) { EXPECT_EQ(rank.latest(), 1); });
  files_->remove("/run/ckpt-1.h5");
  job([](Rank& rank) { EXPECT_EQ(rank.latest(), 2); });
  EXPECT_THAT(warnings(), test::Says("only its name says which step it is"));
}

// -- what an owner removes while a reader looks
// ------------------------------------------------------

class ReadsSlowly : public io::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    auto file = FileSystemWrapper::open_read(path);
    if (path.filename() == "ckpt-1.index" && meanwhile) std::exchange(meanwhile, {})();
    return file;
  }
  std::function<void()> meanwhile;
};

TEST_P(LostMetadata, AReaderDoesNotCallWhatItsOwnerRemovesDamaged) {
  if (GetParam() > 1) return;
  options_.keep.last = 1;
  options_.overwrite = true;
  for (const bool replaced : {false, true}) {
    Rank owner(serial_group(), options_);
    owner.save(1);
    const auto slow = std::make_shared<ReadsSlowly>(files_);
    auto reading = options_;
    reading.read_only = true;
    reading.write.file_system = slow;
    Rank reader(serial_group(), reading);
    warnings();
    slow->meanwhile = [&] {
      owner.save(replaced ? 1 : 2);
      // The next save takes its data files.
      if (!replaced) owner.save(3);
    };
    if (replaced) {
      reader.manager.restore(1, reader.state);
      EXPECT_EQ(reader.seen(), 1);
    } else {
      expect_error(reader, Code::not_found, "there is no checkpoint",
                   [&] { reader.manager.restore(1, reader.state); });
    }
    EXPECT_EQ(warnings(), "");
  }
}

}  // namespace
}  // namespace cairn
