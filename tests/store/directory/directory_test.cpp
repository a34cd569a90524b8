// Tests Directory alone: one process, no engine, a single rank. Saves are made of the protocol's
// own calls and of empty bundles.
#include "store/directory/directory.hpp"
#include "session/job/job.hpp"

#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/recycled.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/directory/file_draft.hpp"
#include "store/directory/named_checkpoint.hpp"
#include "support/forwarding_files.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;

class DirectoryAlone : public ::testing::Test {
 protected:
  // An owner of its own, like a job that begins.
  struct Owner {
    Job job;
    Directory directory;
    explicit Owner(const ManagerOptions& options)
        : job(make_job(serial_group(), "/run", options.name, options)), directory(job) {
      job.may_recycle = true;
      directory.set_policy(policy_of(job));
      directory.take();
      directory.begin(directory.recover(job.readers()));
    }

    // Commits one checkpoint of this step, by the steps of the protocol.
    Prepared save(std::int64_t step, std::optional<double> metric = std::nullopt) {
      auto prepared = begin(step);
      prepared.meta.metric = metric;
      auto there = directory.history().copy_of(step);
      const auto index = directory.publish(prepared, 0, {}, there);
      directory.committed(prepared, false, index);
      directory.tell(prepared.draft);
      directory.tidy(&prepared.draft);
      return prepared;
    }

    Prepared begin(std::int64_t step, int data_files = 0) {
      Prepared prepared{
          directory.begin_save(
              {.step = step, .data_files = data_files, .may_overwrite = job.options.overwrite}),
          {}};
      prepared.meta.step = step;
      prepared.meta.name = job.naming.name;
      prepared.meta.sequence = prepared.draft.id().sequence;
      prepared.meta.parent = directory.history().head();
      prepared.meta.uuid = prepared.draft.uuid();
      prepared.meta.ranks = 1;
      return prepared;
    }

    std::vector<std::int64_t> steps() const {
      std::vector<std::int64_t> steps;
      for (const auto& entry : directory.history().catalog()) steps.push_back(entry.step);
      return steps;
    }
  };

  ManagerOptions options_ = test::on_disk();
};

// Runs a function before a file of this name is looked at, so many times.
class Meanwhile : public test::ForwardingFiles {
 public:
  Meanwhile(std::shared_ptr<io::FileSystem> files, std::function<void(const std::string&)> happens)
      : ForwardingFiles(std::move(files)), happens_(std::move(happens)) {}

 private:
  void around(const char*, const io::Path& path, bool,
              const std::function<void()>& operation) override {
    happens_(path.filename().string());
    operation();
  }
  const std::function<void(const std::string&)> happens_;
};

// A job saves and removes faster than this reads an index: the pinned checkpoint is then not the
// newest, and the one that the state file names may be out of date. A tool that listed a directory
// under such a job found this.
TEST(ScanCatalog, UnderAJobThatIsFasterFindsWhatIsNewer) {
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    auto fast = test::on_disk();
    fast.keep.last = 1;
    fast.store.format = format;
    double value = 1;
    State state;
    state.add("x", value);
    CheckpointManager manager(serial_group(), "/run", fast);
    manager.save(1, state);
    manager.pin(1);
    manager.save(2, state);
    std::int64_t newest = 2, last = 5;
    Meanwhile files(fast.write.file_system, [&](const std::string& name) {
      if (newest < last &&
          name == cat("ckpt-", newest, format == Format::hdf5 ? ".h5" : ".index")) {
        manager.save(++newest, state);
      }
    });
    const auto catalog = scan_catalog(location_of({files, "/run"}, commit::Naming("ckpt")));
    std::vector<std::int64_t> steps;
    for (const auto& entry : catalog) {
      EXPECT_EQ(entry.damage, "");
      steps.push_back(entry.step);
    }
    EXPECT_THAT(steps, ElementsAre(1, 5));
    last = 8;
    EXPECT_EQ(resolve_checkpoint({files, "/run"}).path(), "/run/ckpt-8");
  }
}

// A mark that is too large to be one keeps nobody from the directory.
TEST_F(DirectoryAlone, AMarkOfDamageThatIsTooLargeIsNone) {
  Owner owner(options_);
  auto& files = *options_.write.file_system;
  owner.save(1);
  const io::Path marks = io::Path("/run") / commit::private_directory_name / "damaged";
  io::create_directories(files, marks);
  const auto uuid = scan_catalog(location_of({files, "/run"}, {"ckpt"})).at(0).save.identity;
  io::write_file(files, marks / "ckpt-1", uuid + std::string((std::size_t{1} << 24) + 1, '\n'));
  const auto entries = scan_catalog(location_of({files, "/run"}, {"ckpt"}));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].damage, "");
}

TEST_F(DirectoryAlone, KnowsWhatItHasCommittedAndSoDoesTheNext) {
  {
    Owner owner(options_);
    EXPECT_EQ(owner.directory.history().head(), -1);
    const auto first = owner.save(10).meta.sequence;
    const auto second = owner.save(20).meta.sequence;
    EXPECT_EQ(second, first + 1);
    EXPECT_EQ(owner.directory.history().head(), second);
    EXPECT_THAT(owner.steps(), ElementsAre(10, 20));
  }
  Owner next(options_);
  EXPECT_THAT(next.steps(), ElementsAre(10, 20));
  EXPECT_EQ(next.directory.history().find(20)->save.parent,
            next.directory.history().find(10)->save.sequence);
  EXPECT_GT(next.save(30).meta.sequence, next.directory.history().find(20)->save.sequence);
}

TEST_F(DirectoryAlone, IsOneOwners) {
  Owner owner(options_);
  expect_error(Code::busy, test::Says("in use by this very process"),
               [&] { Owner second(options_); });
  options_.name = "other";
  EXPECT_NO_THROW(Owner second(options_));
}

TEST_F(DirectoryAlone, RefusesAStepThatIsThereUntilTheRunHasGoneBack) {
  Owner owner(options_);
  owner.save(10);
  const auto first = owner.directory.history().find(10)->save.sequence;
  owner.save(20);
  expect_error(Code::already_exists, test::Says("nothing has superseded it"),
               [&] { owner.begin(20); });
  owner.directory.history().went_back_to(10, std::nullopt);
  EXPECT_EQ(owner.directory.history().head(), first);
  owner.save(20);
  EXPECT_EQ(owner.directory.history().find(20)->save.parent, first);
}

TEST_F(DirectoryAlone, ASaveThatIsWithdrawnLeavesNothingAndUsesItsNumberUp) {
  Owner owner(options_);
  owner.save(10);
  const auto failed = owner.begin(20);
  EXPECT_TRUE(io::exists(*owner.job.files, transaction_of(failed.draft).temp()));
  EXPECT_EQ(owner.directory.withdraw(failed.draft), Directory::Withdrawn::gone);
  owner.directory.spoil(true);
  EXPECT_FALSE(io::exists(*owner.job.files, transaction_of(failed.draft).temp()));
  EXPECT_THAT(owner.steps(), ElementsAre(10));
  EXPECT_EQ(owner.save(20).meta.sequence, failed.meta.sequence + 1);
}

TEST_F(DirectoryAlone, WhatCommittedWithoutBeingDurableIsMadeSoBeforeAnythingIsBuiltOnIt) {
  Owner owner(options_);
  auto prepared = owner.begin(10);
  owner.directory.committed(prepared, true, owner.directory.publish(prepared, 0, {}, {}));
  EXPECT_TRUE(owner.directory.history().find(10)->volatile_commit);
  EXPECT_FALSE(owner.directory.is_simple(20, 0));
  owner.directory.look_again();
  EXPECT_FALSE(owner.directory.history().find(10)->volatile_commit);
  EXPECT_TRUE(owner.directory.is_simple(20, 0));
  // A commit whose checkpoint turns out to be missing is forgotten.
  const auto lost = owner.begin(20);
  owner.directory.committed(lost, true, std::nullopt);
  owner.directory.look_again();
  EXPECT_THAT(owner.steps(), ElementsAre(10));
}

TEST_F(DirectoryAlone, ASimpleStepIsANewOneWithANumberAtHand) {
  Owner owner(options_);
  EXPECT_FALSE(owner.directory.is_simple(10, 0)) << "no block of numbers is reserved";
  owner.save(10);
  EXPECT_FALSE(owner.directory.is_simple(10, 0)) << "it is there";
  EXPECT_TRUE(owner.directory.is_simple(20, 0));
}

TEST_F(DirectoryAlone, TidyingBehindTheCallersBackIsTakenOverWhenTheCallerLooks) {
  options_.keep.last = 1;
  Owner owner(options_);
  owner.save(10);
  auto prepared = owner.begin(20);
  owner.directory.committed(prepared, false, owner.directory.publish(prepared, 0, {}, {}));
  EXPECT_FALSE(owner.directory.tidy_later(prepared.draft, 0, false, {{}})());
  EXPECT_TRUE(io::exists(*owner.job.files, "/run/ckpt-10.index")) << "20 is not durable";
  EXPECT_TRUE(owner.directory.tidy_later(prepared.draft, 0, true, {{10}})());
  EXPECT_TRUE(io::exists(*owner.job.files, "/run/ckpt-10.index")) << "it is being saved";
  EXPECT_TRUE(owner.directory.tidy_later(prepared.draft, 0, true, {{}})());
  EXPECT_FALSE(io::exists(*owner.job.files, "/run/ckpt-10.index"));
  EXPECT_THAT(owner.steps(), ElementsAre(10, 20)) << "until it looks";
  owner.directory.history().apply_tidied();
  EXPECT_THAT(owner.steps(), ElementsAre(20));
  EXPECT_GE(owner.directory.recycling().take_bytes(), 0);
  EXPECT_EQ(owner.directory.recycling().take_bytes(), -1) << "they were given away";
}

// If two checkpoints are removed at once, their data would wait for the next save.
TEST_F(DirectoryAlone, NothingComesToWaitWhileAnotherSaveTakesWhatWaits) {
  for (const bool takes_waiting : {false, true}) {
    SCOPED_TRACE(takes_waiting);
    options_ = test::on_disk();
    auto& files = *options_.write.file_system;
    const auto publish = [&](Owner& owner, std::int64_t step) {
      auto prepared = owner.begin(step, 1);
      io::write_file(files, prepared.draft.path(0), std::string(8192, 'x'));
      owner.directory.committed(prepared, false, owner.directory.publish(prepared, 1, {}, {}));
      return prepared;
    };
    options_.keep.last = 0;
    {
      Owner owner(options_);
      for (const std::int64_t step : {10, 20}) {
        const auto prepared = publish(owner, step);
        owner.directory.tidy(&prepared.draft);
      }
    }
    options_.keep.last = 1;
    Owner owner(options_);
    const auto prepared = publish(owner, 30);
    EXPECT_TRUE(owner.directory.tidy_later(prepared.draft, 1, true, {{}, takes_waiting})());
    owner.directory.history().apply_tidied();
    EXPECT_THAT(owner.steps(), ElementsAre(30));
    EXPECT_EQ(commit::list_recycled(files, "/run", owner.job.naming).size(), takes_waiting ? 0 : 1);
    EXPECT_EQ(owner.directory.recycling().take_bytes() > 0, !takes_waiting);
  }
}

TEST_F(DirectoryAlone, NoDataFilesAreKeptWhereTheirFolderMayNotBeDurable) {
  auto job = make_job(serial_group(), "/run", options_.name, options_);
  job.may_recycle = true;
  Directory directory(job);
  directory.set_policy(policy_of(job));
  directory.take();
  auto found = directory.recover(job.readers());
  const auto files = std::dynamic_pointer_cast<io::MemoryFileSystem>(job.files);
  files->inject({Code::io, "sync_directory", ".cairn", 0, 1});
  directory.begin(std::move(found));
  EXPECT_FALSE(directory.recycling().is_on())
      << "a crash could take the folder back, and its files";
}

// A crash may take back the last rename of a removal, and no more.
TEST_F(DirectoryAlone, DataThatWasSetAsideComesBackWithItsIndexOnly) {
  const auto aside = [](const std::string& entry) {
    return "/run/" + commit::aside_name(entry, "0123456789abcdef0123456789abcdef");
  };
  {
    Owner owner(options_);
    owner.save(10);
    owner.save(20);
  }
  auto& files = *options_.write.file_system;
  for (const std::string prefix : {"ckpt-10", "ckpt-20"}) {
    const auto data = commit::data_name(prefix, 0, 1);
    files.rename("/run/" + data, aside(data));
  }
  files.rename("/run/ckpt-20.index", aside("ckpt-20.index"));
  files.remove("/run/ckpt-10.index");
  Owner owner(options_);
  EXPECT_THAT(owner.steps(), ElementsAre(20));
  EXPECT_TRUE(io::exists(files, "/run/" + commit::data_name("ckpt-20", 0, 1)));
  EXPECT_FALSE(io::exists(files, "/run/" + commit::data_name("ckpt-10", 0, 1)));
  EXPECT_FALSE(io::exists(files, aside(commit::data_name("ckpt-10", 0, 1))));
}

// An owner that was taken for dead sets aside what another owner's save has just named, and dies;
// the other owner dies, too, before it commits.
TEST_F(DirectoryAlone, DataOfAStagedSaveThatWasSetAsideComesBack) {
  auto& files = static_cast<io::MemoryFileSystem&>(*options_.write.file_system);
  std::vector<double> values(1000, 7.0);
  State state;
  state.add("values", values);
  std::shared_ptr<io::MemoryFileSystem> left;  // as it died
  {
    CheckpointManager manager(serial_group(), "/run", options_);
    manager.save(10, state);
    manager.save_async(20, state);
    files.set_observer([&](const std::string& operation) {
      if (left || !operation.starts_with("rename ") || !operation.ends_with("/run/ckpt-20.index")) {
        return;
      }
      left = files.crash(files.operation_count(), {.keep = true});
    });
    manager.wait();
    files.set_observer({});
  }
  ASSERT_TRUE(left);
  const auto data = commit::data_name("ckpt-20", 0, 2);
  left->rename("/run/" + data,
               "/run/" + commit::aside_name(data, "0123456789abcdef0123456789abcdef"));
  options_.write.file_system = left;
  EXPECT_THAT(Owner(options_).steps(), ElementsAre(10, 20)) << "it was written";
}

// A later save replaces one while the save before it is being committed.
TEST_F(DirectoryAlone, WhatCouldNotBeWithdrawnIsToGoThoughAnEarlierSaveCommits) {
  auto& files = static_cast<io::MemoryFileSystem&>(*options_.write.file_system);
  Owner owner(options_);
  auto first = owner.begin(10);
  auto second = owner.begin(20);
  transaction_of(second.draft).slot = 1;
  const auto record = transaction_of(second.draft).record(0, 1);
  io::write_file(files, record, "whole");
  files.inject({Code::io, "remove", record.filename().string()});
  EXPECT_EQ(owner.directory.withdraw(second.draft), Directory::Withdrawn::stays);
  const auto index = owner.directory.publish(first, 0, {}, std::nullopt);
  owner.directory.committed(first, false, index);
  EXPECT_TRUE(io::exists(files, record));
  EXPECT_FALSE(owner.directory.is_simple(30, 0));
  owner.begin(30);
  EXPECT_FALSE(io::exists(files, record)) << "a restart would complete it";
}

TEST_F(DirectoryAlone, APinnedStepIsNeitherReplacedNorRemoved) {
  options_.keep.last = 1;
  options_.overwrite = true;
  Owner owner(options_);
  owner.save(10);
  owner.directory.pin(10);
  owner.save(20);
  EXPECT_THAT(owner.steps(), ElementsAre(10, 20));
  expect_error(Code::already_exists, test::Says("is pinned"), [&] { owner.begin(10); });
  owner.directory.unpin(10);
  const auto decisions = owner.directory.preview_retention(std::nullopt, {});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_FALSE(decisions[0].stays);
  expect_error(Code::not_found, test::Says("there is no step 30"),
               [&] { owner.directory.pin(30); });
}

// Files that wait to be overwritten are counted, also after a save that had no room.
TEST_F(DirectoryAlone, WhatWaitsIsNotForgottenWhereASaveHasNoRoom) {
  auto& files = dynamic_cast<io::MemoryFileSystem&>(*options_.write.file_system);
  Owner owner(options_);
  constexpr std::int64_t waiting_bytes = 1 << 20;
  io::write_file(files, "/run/.cairn/recycled/steps.ckpt.00000", std::string(waiting_bytes, 'x'));
  constexpr std::int64_t large = std::int64_t{1} << 40;
  files.set_capacity(large);
  files.set_capacity(large - files.free_bytes("/run") + waiting_bytes);
  expect_error(Code::no_space, HasSubstr("step 20 needs "), [&] {
    owner.directory.begin_save({.step = 20, .data_files = 1, .bytes = 2 * waiting_bytes});
  });
  EXPECT_NO_THROW(
      owner.directory.begin_save({.step = 20, .data_files = 1, .bytes = waiting_bytes}));
}

TEST_F(DirectoryAlone, OnlyWhoOwnsTheDirectoryNowPinsAndUnpinsWhatIsThere) {
  auto& files = *options_.write.file_system;
  Owner owner(options_);
  owner.save(10);
  owner.save(20);
  owner.directory.pin(20);
  const auto record = io::read_file(files, "/run/.cairn/owner", 4096);
  auto other = commit::parse_owner(record).value();
  other.token = commit::new_uuid();
  io::replace_file(files, "/run/.cairn/owner", commit::print_owner(other));
  const auto is_lost = test::Says("no longer owned by this job");
  expect_error(Code::busy, is_lost, [&] { owner.directory.pin(10); });
  expect_error(Code::busy, is_lost, [&] { owner.directory.unpin(20); });
  EXPECT_THAT(files.list("/run/.cairn/pinned"), ElementsAre("ckpt-20"));
  io::replace_file(files, "/run/.cairn/owner", record);
  for (const auto& name : files.list("/run")) {
    if (name.starts_with("ckpt-10.")) files.remove("/run/" + name);
  }
  const auto is_gone = test::Says("there is no step 10");
  expect_error(Code::not_found, is_gone, [&] { owner.directory.pin(10); });
  expect_error(Code::not_found, is_gone, [&] { owner.directory.unpin(10); });
  EXPECT_THAT(files.list("/run/.cairn/pinned"), ElementsAre("ckpt-20"));
}

TEST_F(DirectoryAlone, AConversionTakesThePlaceOfWhatItReplaces) {
  options_.overwrite = true;
  Owner owner(options_);
  owner.save(10);
  owner.save(20);
  CheckpointMeta origin;
  origin.uuid = commit::new_uuid();
  origin.sequence = 7;
  origin.ranks = 12;
  owner.directory.history().stand_for(origin);
  auto prepared = owner.begin(10);
  owner.directory.history().place(prepared.meta, true);
  EXPECT_EQ(prepared.meta.sequence, owner.directory.history().find(10)->save.sequence);
  EXPECT_EQ(prepared.meta.ranks, 12);
  prepared.meta.step = 30;
  owner.directory.history().place(prepared.meta, true);
  EXPECT_EQ(prepared.meta.sequence, 7) << "its own, where nothing is replaced";
}

// A job without room for its record, which has tried once more to become the owner.
TEST_F(DirectoryAlone, WhoHasLetGoIsAReader) {
  Owner former(options_);
  former.directory.let_go();
  Owner owner(options_);
  owner.save(10);
  former.directory.look_again();
  EXPECT_THAT(former.steps(), ElementsAre(10));
  former.directory.remember_damage(10, Error(Code::data_loss, "bytes are wrong"));
  EXPECT_EQ(scan_catalog(owner.job).front().damage, "") << "it may mark nothing";
}

TEST_F(DirectoryAlone, ASaveLooksWhereTheStagingDirectoryMayNotBeDurable) {
  auto& files = static_cast<io::MemoryFileSystem&>(*options_.write.file_system);
  Owner owner(options_);
  files.inject({Code::io, "sync_directory", "run", 0, 1});
  EXPECT_THROW(owner.begin(10), Error);
  EXPECT_FALSE(owner.directory.is_simple(20, 0));
  owner.save(20);
  EXPECT_TRUE(owner.directory.is_simple(30, 0));
  // After a failure the draft is gone, and the next save makes another.
  const auto failed = owner.begin(30);
  owner.directory.withdraw(failed.draft);
  owner.directory.spoil(true);
  EXPECT_FALSE(owner.directory.is_simple(40, 0));
  owner.save(40);
  EXPECT_TRUE(owner.directory.is_simple(50, 0));
}

TEST_F(DirectoryAlone, AReaderChoosesAmongWhatIsThereNow) {
  Owner owner(options_);
  owner.save(10);
  auto reading = options_;
  reading.read_only = true;
  auto job = make_job(serial_group(), "/run", reading.name, reading);
  Directory reader(job);
  reader.set_policy(policy_of(job));
  reader.take();
  reader.begin({});
  EXPECT_THAT(reader.history().choices().steps, ElementsAre(10));
  EXPECT_EQ(reader.look_for_change(10), Store::Change::none);
  EXPECT_EQ(reader.look_for_change(99), Store::Change::gone);
  owner.save(20);
  reader.look_again();
  EXPECT_THAT(reader.history().choices().steps, ElementsAre(20, 10));
  reader.remember_damage(20, Error(Code::data_loss, "bytes are wrong"));
  EXPECT_THAT(reader.history().choices().steps, ElementsAre(10));
  EXPECT_THAT(reader.history().choices().passed, ElementsAre(HasSubstr("step 20: ")));
}

}  // namespace
}  // namespace cairn
