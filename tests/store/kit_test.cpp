// All stores pass the kit: a directory with and without renames, and a bucket.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/bucket/lease.hpp"
#include "store/commit/ownership.hpp"
#include "support/bucket_server.hpp"
#include "support/says.hpp"
#include "support/store_kit.hpp"
#include "testing/memory.hpp"

namespace cairn::test {
namespace {

class DirectoryDisk : public StoreDisk {
 public:
  explicit DirectoryDisk(std::shared_ptr<io::MemoryFileSystem> files) : files_(std::move(files)) {}
  std::shared_ptr<io::FileSystem> files() override { return files_; }
  void observe(std::function<void()> observer) override {
    files_->set_observer([observer = std::move(observer)](const auto&) { observer(); });
  }
  std::vector<std::unique_ptr<StoreDisk>> after_crash() override {
    std::vector<std::unique_ptr<StoreDisk>> disks;
    const auto stop = files_->operation_count();
    for (const auto& choice : files_->crash_choices(stop)) {
      disks.push_back(std::make_unique<DirectoryDisk>(files_->crash(stop, choice)));
    }
    return disks;
  }

 private:
  std::shared_ptr<io::MemoryFileSystem> files_;
};

class BucketDisk : public StoreDisk {
 public:
  explicit BucketDisk(std::shared_ptr<BucketServer> server = std::make_shared<BucketServer>())
      : server_(std::move(server)) {}
  std::shared_ptr<io::FileSystem> files() override { return server_->files(); }
  void observe(std::function<void()> observer) override {
    server_->set_observer([observer = std::move(observer)](const auto&, bool changes) {
      if (changes) observer();
    });
  }
  std::vector<std::unique_ptr<StoreDisk>> after_crash() override {
    server_->set_observer({});
    std::vector<std::unique_ptr<StoreDisk>> disks;
    disks.push_back(std::make_unique<BucketDisk>(server_));
    return disks;
  }

 private:
  std::shared_ptr<BucketServer> server_;
};

class Bucket : public testing::Test {
 protected:
  std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
  BucketDisk disk_{server_};
  std::unique_ptr<bucket::Requests> client_ = server_->connect();

  using Objects = std::map<std::string, std::string>;
  // Those of a step, by their keys.
  static Objects take(bucket::Requests& from, std::int64_t step) {
    Objects all;
    for (const auto& one : from.list(cat("run/ckpt-", step, '.'), "").objects) {
      all[one.key] = from.get(one.key).value().bytes;
    }
    return all;
  }
  // As a tool of others does it: nothing goes along but the bytes.
  void bring(const Objects& objects) {
    for (const auto& [key, bytes] : objects) client_->put(key, std::as_bytes(std::span(bytes)));
  }
  static Objects saved_elsewhere(std::int64_t step, const std::string& text) {
    const auto server = std::make_shared<BucketServer>();
    BucketDisk disk(server);
    StoreUser(disk).save(step, text);
    return take(*server->connect(), step);
  }
  std::vector<std::int64_t> beside() {
    const auto files = server_->files();
    return files->steps_beside({files, "/run", {"ckpt"}});
  }
};

// Two copies without a list: of what is damaged alone a restart must hear.
TEST_F(Bucket, WithoutAListDamagedStepsCountIfNoneIsWhole) {
  auto ten = saved_elsewhere(10, "ten");
  ten.at("run/ckpt-10.index") = "torn";
  bring(ten);
  {
    StoreUser owner(disk_);
    const auto* ten_there = owner.store().history().find(10);
    ASSERT_NE(ten_there, nullptr);
    EXPECT_NE(ten_there->damage, "");
  }
  client_->remove("run/.cairn/log.ckpt");
  bring(saved_elsewhere(20, "twenty"));
  StoreUser owner(disk_);
  EXPECT_EQ(owner.store().history().find(10), nullptr);
  EXPECT_EQ(owner.read(20), "twenty");
}

TEST_F(Bucket, DataWhoseIndexIsLostOrDamagedStay) {
  for (const bool is_lost : {true, false}) {
    {
      StoreUser owner(disk_);
      owner.save(is_lost ? 10 : 30, "text");
    }
    const std::string prefix = is_lost ? "run/ckpt-10" : "run/ckpt-30";
    const auto index = client_->get(prefix + ".index");
    ASSERT_TRUE(index);
    if (is_lost) {
      client_->remove(prefix + ".index", "");
    } else {
      client_->put(prefix + ".index", std::as_bytes(std::span("no index")), {});
    }
    { const StoreUser next(disk_); }
    EXPECT_TRUE(client_->look(prefix + ".data-00000-of-00002"));
    client_->put(prefix + ".index", std::as_bytes(std::span(index->bytes)), {});
    StoreUser owner(disk_);
    EXPECT_EQ(owner.read(is_lost ? 10 : 30), "text");
  }
}

// A copy of a directory without its list, as from another bucket.
TEST_F(Bucket, WhatWasBroughtThereCounts) {
  {
    StoreUser owner(disk_);
    owner.save(10, "ten");
    owner.save(20, "twenty");
  }
  for (const auto& one : client_->list("run/.cairn/", "").objects) client_->remove(one.key, "");
  EXPECT_EQ(StoreUser(disk_, StoreUser::reader()).read(10), "ten");
  for (int owners = 1; owners <= 2; ++owners) {
    StoreUser owner(disk_);
    EXPECT_EQ(owner.read(10), "ten");
    EXPECT_EQ(owner.read(20), "twenty");
    owner.save(owners, "new");  // it is newer than what was there
    EXPECT_EQ(owner.store().history().choices().steps.front(), owners);
  }
}

// After the list was put: only who saves enters something into it.
TEST_F(Bucket, WhatWasBroughtBesideTheListStaysAndIsTold) {
  StoreUser(disk_).save(10, "ten");
  const auto brought = saved_elsewhere(30, "thirty");
  bring(brought);
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told.append(line) += '\n'; });
  StoreUser owner(disk_);
  set_log_sink({});
  EXPECT_THAT(told, Says("objects in /run (3, such as ckpt-30."));
  EXPECT_EQ(owner.steps(), std::vector<std::int64_t>{10});
  EXPECT_EQ(take(*client_, 30), brought);
  EXPECT_EQ(beside(), std::vector<std::int64_t>{30});
  EXPECT_FALSE(owner.save_quick(30, "new"));
  told.clear();
  set_log_sink([&](LogLevel, std::string_view line) { told.append(line) += '\n'; });
  owner.save(30, "new");
  set_log_sink({});
  EXPECT_THAT(told, Says("step 30 in /run, which somebody has put there, is replaced"));
  EXPECT_EQ(owner.read(30), "new");
  for (const auto& [key, bytes] : take(*client_, 30)) {
    EXPECT_TRUE(key.ends_with(".index") || key.ends_with("-of-00003")) << key;
  }
  EXPECT_EQ(beside(), std::vector<std::int64_t>());
}

// A save that begins without a look sees it after the next commit.
TEST_F(Bucket, WhatIsBroughtBesideARunningJobIsInTheWayOfNoLaterSave) {
  StoreUser owner(disk_);
  owner.save(10, "ten");
  bring(saved_elsewhere(40, "forty"));
  EXPECT_TRUE(owner.store().is_simple(40, 1));
  EXPECT_TRUE(owner.save_quick(20, "twenty"));
  EXPECT_FALSE(owner.save_quick(40, "new"));
  owner.save(40, "new");
  EXPECT_EQ(owner.read(40), "new");
  EXPECT_TRUE(owner.save_quick(50, "fifty"));
  EXPECT_EQ(StoreUser(disk_).steps(), (std::vector<std::int64_t>{50, 40, 20, 10}));
}

// Wherever it is damaged, it is as good as lost.
TEST_F(Bucket, ADamagedListHidesNoCheckpoint) {
  {
    StoreUser owner(disk_);
    owner.save(10, "ten");
    owner.save(20, "twenty");
  }
  const std::string list = "run/.cairn/log.ckpt";
  const auto sound = client_->get(list).value().bytes;
  const auto files = server_->files();
  const Location place{files, "/run", {"ckpt"}};
  EXPECT_EQ(files->damaged_list(place), io::Path());
  auto damaged = std::vector<std::string>{"", "no list", sound + "x"};
  for (std::size_t at = 0; at < sound.size(); ++at) {
    damaged.push_back(sound.substr(0, at));
    damaged.push_back(sound);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const auto& bytes : damaged) {
    bring({{list, bytes}});
    EXPECT_EQ(files->damaged_list(place), BucketLog::path_of(place)) << bytes;
    EXPECT_EQ(files->steps_that_count(place), std::nullopt);
    EXPECT_EQ(StoreUser(disk_, StoreUser::reader()).steps(), (std::vector<std::int64_t>{20, 10}));
  }
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told.append(line) += '\n'; });
  StoreUser owner(disk_);
  set_log_sink({});
  EXPECT_THAT(told, Says("is damaged: all that are whole count"));
  EXPECT_EQ(owner.steps(), (std::vector<std::int64_t>{20, 10}));
  owner.save(30, "thirty");
  EXPECT_EQ(files->damaged_list(place), io::Path());
  EXPECT_EQ(StoreUser(disk_).steps(), (std::vector<std::int64_t>{30, 20, 10}));
}

// A copy is under way when an owner begins, or a save needs the names.
TEST_F(Bucket, APartOfWhatIsBroughtStays) {
  StoreUser(disk_).save(10, "ten");
  const auto brought = saved_elsewhere(30, "thirty");
  for (const auto& one : brought) {
    bring({one});
    StoreUser owner(disk_);
    auto draft = owner.store().begin_save({.step = 30, .data_files = 1, .may_overwrite = true});
    EXPECT_EQ(owner.store().withdraw(draft), Store::Withdrawn::gone);
    EXPECT_EQ(take(*client_, 30), Objects{one}) << one.first;
    client_->remove(one.first);
  }
}

// The list knows that it has counted, and that all of it was removed.
TEST_F(Bucket, WhatIsBroughtBackAfterItsRemovalStays) {
  Policy policy;
  policy.keep.last = 1;
  Objects ten, twenty;
  {
    StoreUser owner(disk_, policy);
    owner.save(10, "ten");
    ten = take(*client_, 10);
    owner.save(20, "twenty");
    twenty = take(*client_, 20);
    owner.save(30, "thirty");
  }
  bring(ten), bring(twenty);
  { const StoreUser next(disk_); }
  EXPECT_EQ(take(*client_, 10), ten);
  EXPECT_EQ(take(*client_, 20), twenty);
  EXPECT_EQ(beside(), (std::vector<std::int64_t>{10, 20}));
}

// Then nothing tells a save that has failed from what somebody has brought.
TEST_F(Bucket, WithoutItsListWholeStepsCountAndAllStays) {
  {
    StoreUser owner(disk_);
    owner.save(10, "ten");
    owner.save(20, "twenty");
    owner.begin(30, "thirty");  // only its data
  }
  auto index = take(*client_, 20);
  std::erase_if(index, [](const auto& one) { return one.first != "run/ckpt-20.index"; });
  bring({{"run/ckpt-40.index", index.begin()->second}});
  client_->remove("run/.cairn/log.ckpt");
  const auto thirty = take(*client_, 30), forty = take(*client_, 40);
  StoreUser owner(disk_);
  EXPECT_EQ(owner.steps(), (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(take(*client_, 30), thirty);
  EXPECT_EQ(take(*client_, 40), forty);
  EXPECT_FALSE(thirty.empty());
}

TEST_F(Bucket, AnOwnersRecordThatWasRemovedIsNoOtherOwner) {
  const auto files = server_->files();
  const auto lease = Lease::take(*files, "/run/.cairn/owner.ckpt", 0);
  client_->remove("run/.cairn/owner.ckpt");
  EXPECT_CAIRN_ERROR(lease->check(), Code::busy, "owner.ckpt, was removed");
  const auto other = Lease::take(*files, "/run/.cairn/owner.ckpt", 0);
  EXPECT_CAIRN_ERROR(lease->check(), Code::busy, "has another owner");
}

TEST_F(Bucket, ADeadOwnerIsWaitedForAloud) {
  commit::OwnerRecord dead;
  dead.token = commit::new_uuid();
  dead.host = "there";
  dead.pid = 7;
  bring({{"run/.cairn/owner.ckpt", commit::print_owner(dead)}});
  std::string told;
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) told.append(line) += '\n';
  });
  const auto files = server_->files();
  const auto lease = Lease::take(*files, "/run/.cairn/owner.ckpt", 0.05);
  set_log_sink({});
  EXPECT_THAT(told, Says("waiting for up to 0.05 seconds for a sign of life"));
}

// The former owner was stopped before its commit, and goes on when the step is another's.
TEST_F(Bucket, AFormerOwnerTakesNothingOfTheSameStep) {
  StoreUser first(disk_);
  auto begun = first.begin(20, "first", false, false);
  StoreUser second(disk_);
  second.save(20, "second");
  EXPECT_CAIRN_ERROR(first.commit(begun), Code::busy, "another owner");
  EXPECT_EQ(first.store().withdraw(begun.save.draft), Store::Withdrawn::not_ours);
  EXPECT_EQ(StoreUser(disk_, StoreUser::reader()).read(20), "second");
  // A new writer of the former owner's save finds the object, and leaves it.
  auto late = begun.save.draft.make(0, 5);
  late.file->write_at(0, std::as_bytes(std::span("later")));
  EXPECT_CAIRN_ERROR(late.file->sync(), Code::already_exists, "is there");
  EXPECT_EQ(StoreUser(disk_).read(20), "second");
}

// A server gives equal contents equal tags, so a put that comes late could find its condition met.
TEST_F(Bucket, NoTwoLogsAreEqual) {
  const auto files = server_->files();
  BucketLog log(*files, "/run/.cairn/log.ckpt");
  const auto text = [&] { return client_->get("run/.cairn/log.ckpt").value().bytes; };
  log.read();
  log.change([](auto& contents) { contents.uuid[10] = "a"; });
  const auto before = text();
  log.change([](auto& contents) { contents.uuid[20] = "b"; });
  log.change([](auto& contents) { contents.uuid.erase(20); });
  EXPECT_NE(text(), before);
}

TEST_F(Bucket, AServerThatIgnoresConditionsIsRefusedUnlessOneJobWrites) {
  using Kind = bucket::Condition::Kind;
  Policy policy;
  policy.sole_writer = true;
  for (const auto& [kind, name] : {std::pair(Kind::absent, "If-None-Match of a PUT"),
                                   std::pair(Kind::same, "ignores If-Match of a PUT")}) {
    server_->ignore(kind);
    EXPECT_CAIRN_ERROR(StoreUser{disk_}, Code::unsupported, name);
    StoreUser owner(disk_, policy);
    const int step = kind == Kind::absent ? 10 : 20;
    owner.save(step, name);
    EXPECT_EQ(owner.read(step), name);
  }
}

TEST_F(Bucket, ACommitWhoseAnswerIsLostIsFoundOut) {
  StoreUser owner(disk_);
  owner.save(10, "ten");
  auto begun = owner.begin(20, "twenty");
  server_->lose_answer("run/.cairn/log.ckpt");
  EXPECT_CAIRN_ERROR(owner.commit(begun), Code::durability_unknown, "is not known");
  owner.save(30, "thirty");  // it descends from step 10, as far as its owner knows
  StoreUser next(disk_);
  EXPECT_EQ(next.read(20), "twenty");
}

}  // namespace

std::vector<StoreDiskKind> store_disks() {
  return {
      {"directory",
       [] { return std::make_unique<DirectoryDisk>(std::make_shared<io::MemoryFileSystem>()); }},
      {"directory_without_renames",
       [] {
         auto files = std::make_shared<io::MemoryFileSystem>();
         files->refuse_renames();
         return std::make_unique<DirectoryDisk>(std::move(files));
       }},
      {"bucket", [] { return std::make_unique<BucketDisk>(); }}};
}

}  // namespace cairn::test
