#include "support/store_kit.hpp"

#include <gmock/gmock.h>

#include "base/text.hpp"
#include "layout/bundle/part_record.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/sink.hpp"
#include "support/memory_run.hpp"
#include "testing/crash.hpp"

namespace cairn::test {

using testing::ElementsAre;
using testing::IsEmpty;

Policy StoreUser::reader() {
  Policy policy;
  policy.read_only = true;
  return policy;
}

StoreUser::StoreUser(StoreDisk& disk, Policy policy)
    : files_(disk.files()), place_{files_, "/run", {"ckpt"}} {
  policy.owner_wait_seconds = 0;
  const bool writes = !policy.read_only;
  store_ = make_store(place_, files_.get());
  store_->set_policy(std::move(policy));
  place_.atomic_rename = store_->take();
  store_->begin(writes ? store_->recover({*group_, {0}}) : Recovered{});
}

std::vector<std::int64_t> StoreUser::steps() const { return store_->history().choices().steps; }

std::string StoreUser::read(std::int64_t step) const {
  const auto contents = read_contents(*files_, place_.prefix(step));
  const auto& tensor = contents.tensors.at(0);
  return read_slice(*files_, contents, tensor, tensor.slices.at(0));
}

StoreUser::Begun StoreUser::write(Draft draft, const std::string& text) const {
  Begun begun{{std::move(draft), {}}, {}};
  auto& [save, meta] = begun.save;
  const auto& id = save.id();
  meta.step = id.step;
  meta.name = place_.naming.name;
  meta.sequence = id.sequence;
  meta.parent = id.parent;
  meta.wall_time_seconds = static_cast<double>(id.sequence);
  meta.ranks = 1;
  meta.uuid = save.uuid();
  const auto bytes = static_cast<std::int64_t>(text.size());
  begun.entries = {whole_entry("x", DType::uint8, {bytes}, 0, bytes, 0)};
  Sink sink(save, begun.entries);
  sink.begin(begun.entries.front());
  sink.append(std::as_bytes(std::span(text)));
  sink.end(begun.entries.front());
  sink.finish();
  if (save.leaves_records()) {
    bundle::PartRecord record{save.uuid(), 7, 0, 1, save.num_files(), meta, begun.entries};
    save.record(0, 1, bundle::encode_part_record(record));
  }
  return begun;
}

StoreUser::Begun StoreUser::begin(std::int64_t step, const std::string& text, bool may_overwrite,
                                  bool records) {
  store_->history().apply_tidied();
  auto draft = store_->begin_save({.step = step,
                                   .data_files = 1,
                                   .bytes = static_cast<std::int64_t>(text.size()),
                                   .records = records,
                                   .may_overwrite = may_overwrite});
  draft.descends_from(store_->history().head(), 1);
  return write(std::move(draft), text);
}

void StoreUser::commit(Begun& begun) {
  auto& [save, meta] = begun.save;
  if (save.names_data()) {
    save.name({0});
    save.was_named(1);
  }
  const auto there = store_->history().copy_of(save.step());
  const auto index = store_->publish(begun.save, 1, {std::move(begun.entries), {}}, there);
  store_->committed(begun.save, false, index);
}

void StoreUser::save(std::int64_t step, const std::string& text, bool may_overwrite) {
  auto begun = begin(step, text, may_overwrite);
  commit(begun);
  store_->tell(begun.save.draft);
  store_->tidy(&begun.save.draft);
}

bool StoreUser::save_quick(std::int64_t step, const std::string& text) {
  store_->history().apply_tidied();
  if (!store_->is_simple(step, 1)) return false;
  auto id = store_->offer(1);
  id.step = step;
  id.parent = store_->history().head();
  store_->use(id);
  auto draft = store_->join(id);
  store_->look_before(draft, static_cast<std::int64_t>(text.size()));
  draft.make_place();
  auto begun = write(std::move(draft), text);
  commit(begun);
  store_->tidy_later(begun.save.draft, 1, true, {})();
  return true;
}

namespace {

class StoreKit : public testing::TestWithParam<StoreDiskKind> {
 protected:
  StoreKit() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~StoreKit() override { set_log_sink({}); }
  static Policy keeping(int last) {
    Policy policy;
    policy.keep.last = last;
    return policy;
  }
  std::unique_ptr<StoreDisk> disk_ = GetParam().make();
};

TEST_P(StoreKit, WhatWasCommittedIsThereForOthers) {
  {
    StoreUser owner(*disk_);
    EXPECT_THAT(owner.steps(), IsEmpty());
    owner.save(10, "ten");
    owner.save(20, "twenty");
    EXPECT_THAT(owner.steps(), ElementsAre(20, 10));
    EXPECT_EQ(owner.store().history().head(), owner.store().history().find(20)->save.sequence);
  }
  for (const auto& policy : {Policy{}, StoreUser::reader()}) {
    StoreUser other(*disk_, policy);
    EXPECT_THAT(other.steps(), ElementsAre(20, 10));
    EXPECT_EQ(other.read(10), "ten");
    EXPECT_EQ(other.read(20), "twenty");
  }
}

TEST_P(StoreKit, NumbersAscendOverOwners) {
  std::int64_t last = 0;
  for (const std::int64_t step : {10, 20, 30}) {
    StoreUser owner(*disk_);
    const auto elsewhere = owner.store().number_elsewhere(step);
    EXPECT_GT(elsewhere, last);
    owner.save(step, "text");
    last = owner.store().history().find(step)->save.sequence;
    EXPECT_GT(last, elsewhere);
  }
}

TEST_P(StoreKit, ASaveMayBeginWithoutALook) {
  StoreUser owner(*disk_, keeping(2));
  owner.save(10, "ten");
  EXPECT_FALSE(owner.store().is_simple(10, 1)) << "it is there";
  for (const std::int64_t step : {20, 30, 40}) {
    if (!owner.save_quick(step, cat(step))) owner.save(step, cat(step));
  }
  owner.store().history().apply_tidied();
  EXPECT_THAT(owner.steps(), ElementsAre(40, 30));
  EXPECT_EQ(owner.read(40), "40");
}

TEST_P(StoreKit, WhatAllWritersHaveRecordedIsCompleted) {
  {
    StoreUser owner(*disk_);
    owner.save(10, "ten");
    owner.begin(20, "twenty");
    owner.store().leave(true);
  }
  StoreUser next(*disk_);
  EXPECT_EQ(next.steps(), (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(next.read(20), "twenty");
}

TEST_P(StoreKit, OfAnAbandonedSaveNothingStays) {
  StoreUser owner(*disk_);
  owner.save(10, "ten");
  auto begun = owner.begin(20, "lost");
  EXPECT_EQ(owner.store().withdraw(begun.save.draft), Store::Withdrawn::gone);
  owner.store().spoil(true);
  EXPECT_THAT(disk_->files()->list("/run"),
              testing::Not(testing::Contains(testing::HasSubstr("ckpt-20"))));
  owner.save(20, "twenty");
  EXPECT_EQ(owner.read(20), "twenty");
}

TEST_P(StoreKit, AStepIsReplacedWithPermissionOnly) {
  StoreUser owner(*disk_);
  owner.save(10, "ten");
  expect_error(Code::already_exists, testing::_, [&] { owner.begin(10, "other"); });
  EXPECT_EQ(owner.read(10), "ten");
  auto begun = owner.begin(10, "other, and longer", true);
  EXPECT_EQ(owner.read(10), "ten") << "until the commit";
  owner.commit(begun);
  EXPECT_EQ(owner.read(10), "other, and longer");
  owner.store().tell(begun.save.draft);
  owner.store().tidy(&begun.save.draft);
  EXPECT_EQ(owner.read(10), "other, and longer");
  EXPECT_THAT(owner.steps(), ElementsAre(10));
}

TEST_P(StoreKit, RetentionTakesWhatNothingProtects) {
  StoreUser owner(*disk_, keeping(1));
  owner.save(10, "ten");
  owner.store().pin(10);
  owner.save(20, "twenty");
  expect_error(Code::already_exists, testing::_, [&] { owner.begin(10, "other", true); });
  owner.save(30, "thirty");
  EXPECT_THAT(owner.steps(), ElementsAre(30, 10)) << "10 is pinned";
  owner.store().unpin(10);
  const auto decisions = owner.store().preview_retention(40, std::nullopt);
  EXPECT_EQ(std::count_if(decisions.begin(), decisions.end(), [](auto& one) { return one.stays; }),
            1);
  owner.save(40, "forty");
  EXPECT_THAT(owner.steps(), ElementsAre(40));
  EXPECT_EQ(owner.read(40), "forty");
  expect_error(Code::not_found, testing::_, [&] { owner.store().pin(10); });
  StoreUser reader(*disk_, StoreUser::reader());
  EXPECT_THAT(reader.steps(), ElementsAre(40));
}

TEST_P(StoreKit, RoomIsMadeOfWhatIsNotNeeded) {
  {
    StoreUser owner(*disk_);
    for (const std::int64_t step : {10, 20, 30}) owner.save(step, cat(step));
  }
  StoreUser owner(*disk_, keeping(2));
  EXPECT_EQ(owner.store().step_to_prove({}, {}), 30);
  EXPECT_EQ(owner.store().remove_surplus(30, {}), 1u);
  owner.store().history().apply_tidied();
  EXPECT_THAT(owner.steps(), ElementsAre(30, 20));
}

TEST_P(StoreKit, AReaderSeesWhatHasChanged) {
  StoreUser owner(*disk_);
  owner.save(10, "ten");
  StoreUser reader(*disk_, StoreUser::reader());
  EXPECT_EQ(reader.store().look_for_change(10), Store::Change::none);
  owner.save(10, "other", true);
  owner.save(20, "twenty");
  EXPECT_EQ(reader.store().look_for_change(10), Store::Change::replaced);
  EXPECT_THAT(reader.steps(), ElementsAre(20, 10));
}

TEST_P(StoreKit, DamageIsRemembered) {
  {
    StoreUser owner(*disk_);
    owner.save(10, "ten");
    owner.save(20, "twenty");
    owner.store().remember_damage(20, Error(Code::data_loss, "a bit", "", ""));
    EXPECT_THAT(owner.steps(), ElementsAre(10));
  }
  EXPECT_THAT(StoreUser(*disk_).steps(), ElementsAre(10));
}

// A second process is refused, or takes over; then the first commits and removes nothing any more.
TEST_P(StoreKit, OneProcessCommits) {
  StoreUser first(*disk_, keeping(1));
  first.save(10, "ten");
  auto begun = first.begin(20, "twenty");
  std::optional<StoreUser> second;
  try {
    second.emplace(*disk_, keeping(1));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::busy);
    first.commit(begun);
    EXPECT_EQ(first.read(20), "twenty");
    return;
  }
  second->save(30, "thirty");
  expect_error(Code::busy, testing::_, [&] { first.store().check_owner(); });
  expect_error(Code::busy, testing::_, [&] { first.commit(begun); });
  EXPECT_EQ(first.store().withdraw(begun.save.draft), Store::Withdrawn::not_ours);
  StoreUser reader(*disk_, StoreUser::reader());
  EXPECT_THAT(reader.steps(), ElementsAre(30));
  EXPECT_EQ(reader.read(30), "thirty");
}

// The process dies, or the power fails, at every operation of a job's saves.
struct Job {
  std::map<std::int64_t, std::vector<std::string>> texts;  // the texts that a step may have
  std::int64_t acknowledged = -1;                          // the last step that was acknowledged

  void run(StoreDisk& disk) {
    StoreUser owner(disk, keeping_one());
    const auto save = [&](std::int64_t step, const std::string& text, bool quick) {
      texts[step].push_back(text);
      if (!quick || !owner.save_quick(step, text)) owner.save(step, text, true);
      acknowledged = step;
      texts[step] = {text};
    };
    save(10, "ten", false);
    save(20, std::string(5000, 'x'), false);
    save(30, std::string(5000, 'y'), true);
    save(30, std::string(5000, 'z'), false);
    save(40, std::string(4000, 'w'), true);
  }
  static Policy keeping_one() {
    Policy policy;
    policy.keep.last = 1;
    policy.recycle = true;
    return policy;
  }
};

TEST_P(StoreKit, ACrashAtAnyInstantLeavesAGoodCheckpoint) {
  std::size_t disks = 0;
  for (std::size_t stop = 0;; ++stop) {
    auto disk = GetParam().make();
    std::size_t count = 0;
    disk->observe([&] {
      if (count++ >= stop) throw Crashed{};
    });
    Job job;
    bool ended = true;
    try {
      job.run(*disk);
    } catch (const Crashed&) {
      ended = false;
    }
    for (const auto& left : disk->after_crash()) {
      ++disks;
      SCOPED_TRACE(cat("stopped before operation ", stop, ", disk ", disks));
      StoreUser next(*left, Job::keeping_one());
      const auto steps = next.steps();
      if (job.acknowledged >= 0) {
        ASSERT_FALSE(steps.empty());
        ASSERT_GE(steps.front(), job.acknowledged);
      }
      for (const auto step : steps)
        ASSERT_THAT(job.texts[step], testing::Contains(next.read(step)));
      next.save(50, "fifty");
      ASSERT_EQ(next.read(50), "fifty");
      ASSERT_EQ(StoreUser(*left, StoreUser::reader()).steps().front(), 50);
    }
    if (ended) break;
  }
  std::printf("%zu disks\n", disks);
}

INSTANTIATE_TEST_SUITE_P(Every, StoreKit, testing::ValuesIn(store_disks()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cairn::test
