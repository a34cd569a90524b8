// Repairs that could do harm: this step's name has an index, metadata or data of another step.
// Sound files stay.
#include "tools/repair.hpp"

#include <utility>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/sparse.hpp"
#include "store/commit/names.hpp"
#include "store/commit/sequences.hpp"
#include "store/contents/data_file.hpp"
#include "store/directory/catalog.hpp"
#include "support/says.hpp"
#include "tools/repair_kit.hpp"

namespace cairn {
namespace {

using lost::names_of;
using lost::repair;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Repairs, AnIndexOfAnotherStepGoesAndNoData) {
  save(files_, {1, 2, 4});
  const auto good = take(files_);
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  EXPECT_EQ(values(files_, 2), (Values{std::nullopt, std::nullopt}));
  test::expect_error(Code::data_loss, test::Says("verify --repair puts the index back"), [&] {
    Both job(files_, options_);
    job.manager.restore(2, job.state);
  });
  EXPECT_EQ(latest(files_), 4);
  const auto repaired = repair(files_, "/run/ckpt-2");
  EXPECT_THAT(repaired.done, ElementsAre(test::Says("ckpt-2.index was put back")));
  EXPECT_THAT(repaired.left, IsEmpty());
  EXPECT_EQ(repaired.after.verdict(), Verdict::whole);
  EXPECT_THAT(changed(files_, good), IsEmpty());
  for (const std::int64_t step : {1, 2, 4}) EXPECT_EQ(values(files_, step), right(step)) << step;
}

TEST_F(Repairs, ExchangedIndexesAreBothPutBack) {
  save(files_, {1, 2, 4});
  const auto good = take(files_);
  exchange(files_, "ckpt-2.index", "ckpt-4.index");
  EXPECT_EQ(latest(files_), 1);
  for (const auto* prefix : {"/run/ckpt-2", "/run/ckpt-4"}) {
    EXPECT_EQ(repair(files_, prefix).after.verdict(), Verdict::whole);
  }
  EXPECT_THAT(changed(files_, good), IsEmpty());
  EXPECT_EQ(latest(files_), 4);
}

// Files of an earlier save of the step are used, as a crash may bring them back, but only if it is
// known that there was one.
TEST_F(Repairs, OfSeveralSavesTheLastOne) {
  options_.overwrite = true;
  save(files_, {1});
  const auto three_files =
      std::exchange(options_.store.policy, std::make_shared<MaxShardSizePolicy>(1600));
  save(files_, {2});
  const auto earlier = take(files_);
  options_.store.policy = three_files;
  save(files_, {4, 2});
  const auto good = take(files_);
  std::vector<std::string> gone;  // the last one has the metadata
  for (const auto& [name, bytes] : earlier) {
    if (!good.contains(name)) gone.push_back(name);
  }
  ASSERT_GE(gone.size(), 2U);
  for (const bool damaged : {false, true}) {
    for (std::size_t missing = 0; missing <= gone.size(); ++missing) {
      SCOPED_TRACE(missing);
      copy(files_, "ckpt-4.index", "ckpt-2.index");
      if (damaged) flip(files_, "ckpt-2.index", 0);
      for (std::size_t i = 0; i < gone.size(); ++i) {
        if (i != missing) put(files_, gone[i], earlier.at(gone[i]));
      }
      const auto repaired = repair(files_, "/run/ckpt-2");
      if (missing == gone.size() - 1) {
        EXPECT_THAT(repaired.left, ElementsAre(test::Says("is of several saves")));
      } else {
        EXPECT_THAT(repaired.left, IsEmpty());
        EXPECT_EQ(bytes(files_, "ckpt-2.index"), good.at("ckpt-2.index"));
      }
      for (const auto& name : gone) {
        if (files_->status("/run/" + name)) remove(files_, name);
      }
    }
  }
}

// In a download from a bucket each data file ends with the id of its save.
TEST_F(Repairs, LostMetadataOfADownload) {
  save(files_, {2});
  const auto id = save_id(read_contents(*files_, "/run/ckpt-2"));
  const std::string data[] = {"ckpt-2.data-00000-of-00003", "ckpt-2.data-00001-of-00003"};
  for (const auto& name : data) put(files_, name, bytes(files_, name) + id);
  const auto good = take(files_);
  EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-2"}).verdict(), Verdict::whole);
  remove(files_, "ckpt-2.data-00002-of-00003");
  const auto damaged = verify_checkpoint({*files_, "/run/ckpt-2"});
  for (const auto& one : damaged.findings) {
    EXPECT_THAT(one.file, testing::Not(testing::AnyOf("/run/" + data[0], "/run/" + data[1])));
  }
  const auto repaired = repair(files_, "/run/ckpt-2");
  EXPECT_EQ(repaired.after.verdict(), Verdict::whole);
  for (const auto& name : data) EXPECT_EQ(bytes(files_, name), good.at(name));
  EXPECT_EQ(values(files_, 2), right(2));
}

// Two files with different ends are not of one save.
TEST_F(Repairs, LostMetadataOfFilesThatDoNotBelongTogether) {
  save(files_, {2});
  const auto id = save_id(read_contents(*files_, "/run/ckpt-2"));
  auto other = id;
  other[3] = static_cast<char>(other[3] ^ 1);
  put(files_, "ckpt-2.data-00000-of-00003", bytes(files_, "ckpt-2.data-00000-of-00003") + id);
  put(files_, "ckpt-2.data-00001-of-00003", bytes(files_, "ckpt-2.data-00001-of-00003") + other);
  remove(files_, "ckpt-2.data-00002-of-00003");
  EXPECT_THAT(repair(files_, "/run/ckpt-2").done, IsEmpty());
}

// The only copy of an index is kept, whatever its name.
TEST_F(Repairs, AnIndexThatIsNowhereElseIsKept) {
  save(files_, {2, 4});
  const auto good = take(files_);
  exchange(files_, "ckpt-2.index", "ckpt-4.index");
  remove(files_, "ckpt-4.data-00002-of-00003");
  EXPECT_EQ(repair(files_, "/run/ckpt-4").after.verdict(), Verdict::damaged);
  const auto repaired = repair(files_, "/run/ckpt-2");
  EXPECT_THAT(repaired.done, ElementsAre(test::Says("ckpt-2.index was put back"),
                                         test::Says("is ckpt-2.index.replaced")));
  EXPECT_EQ(bytes(files_, "ckpt-2.index.replaced"), good.at("ckpt-4.index"));
  EXPECT_EQ(latest(files_), 2);
  files_->rename("/run/ckpt-2.index.replaced", "/run/ckpt-4.index");
  EXPECT_EQ(values(files_, 4), right(4));
}

// If the files belong to several saves, nobody can tell which save is meant.
TEST_F(Repairs, NothingIsReplacedWhereTheMetadataDoNotFit) {
  save(files_, {1, 2, 4});
  const auto good = take(files_);
  const auto is_left = [&](const std::string& what, auto why) {
    SCOPED_TRACE(what);
    const auto bad = take(files_);
    const auto repaired = repair(files_, "/run/ckpt-2");
    EXPECT_THAT(repaired.done, IsEmpty());
    EXPECT_THAT(repaired.left, why);
    EXPECT_EQ(repaired.after.verdict(), Verdict::damaged);
    EXPECT_THAT(changed(files_, bad), IsEmpty());
    for (const auto& [name, all] : good) put(files_, name, all);
  };
  // Without the metadata it is unknown to which step the data belong.
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  flip(files_, "ckpt-2.data-00002-of-00003", 20);
  is_left("the index of another, and damaged metadata",
          ElementsAre(test::Says("data-00000-of-00003 is damaged, missing or another"),
                      test::Says("data-00001-of-00003 is damaged, missing or another"),
                      test::Says("nothing is taken from others")));
  // All files but the metadata belong to another step.
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  copy(files_, "ckpt-4.data-00000-of-00003", "ckpt-2.data-00000-of-00003");
  copy(files_, "ckpt-4.data-00001-of-00003", "ckpt-2.data-00001-of-00003");
  EXPECT_EQ(values(files_, 2), (Values{std::nullopt, std::nullopt}));
  is_left("index and data of another",
          ElementsAre(test::Says("holds what belongs to the index that stands there"),
                      test::Says("holds what belongs to the index that stands there")));
  // In addition the metadata are lost.
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  copy(files_, "ckpt-4.data-00000-of-00003", "ckpt-2.data-00000-of-00003");
  copy(files_, "ckpt-4.data-00001-of-00003", "ckpt-2.data-00001-of-00003");
  remove(files_, "ckpt-2.data-00002-of-00003");
  is_left("index and data of another, without metadata",
          ElementsAre(test::Says("its index is that of ckpt-4")));
  for (const auto* file :
       {"index", "data-00000-of-00003", "data-00001-of-00003", "data-00002-of-00003"}) {
    copy(files_, cat("ckpt-4.", file), cat("ckpt-2.", file));
  }
  EXPECT_EQ(values(files_, 2), (Values{std::nullopt, std::nullopt}));
  is_left("all of another", ElementsAre(test::Says("it holds ckpt-4")));
  copy(files_, "ckpt-4.data-00002-of-00003", "ckpt-2.data-00002-of-00003");
  EXPECT_EQ(values(files_, 2), right(2)) << "the name is all that says so";
  is_left("the metadata of another", ElementsAre(test::Says("holds what belongs to ckpt-4")));
}

TEST_F(Repairs, WithoutAWholeCheckpointAllIsAsItWas) {
  save(files_, {1, 2, 4});
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  flip(files_, "ckpt-2.data-00000-of-00003", 20);  // "u", which no other has
  auto bad = take(files_);
  EXPECT_THAT(repair(files_, "/run/ckpt-2").left, ElementsAre(test::Says("no other checkpoint")));
  EXPECT_THAT(changed(files_, bad), IsEmpty());
  // Only "v" could be taken from step 1.
  flip(files_, "ckpt-2.data-00001-of-00003", 20);
  bad = take(files_);
  const auto repaired = repair(files_, "/run/ckpt-2");
  EXPECT_THAT(repaired.done, IsEmpty());
  EXPECT_THAT(changed(files_, bad), IsEmpty());
  EXPECT_EQ(names_of(*files_, ".cairn/repair").size(), 0u);
}

// A file that belongs to another step and is nowhere else is not overwritten by a copy from a
// third.
TEST_F(Repairs, DataThatChangedPlacesStay) {
  save(files_, {1, 2, 4});
  exchange(files_, "ckpt-2.data-00001-of-00003", "ckpt-4.data-00001-of-00003");
  const auto bad = take(files_);
  EXPECT_THAT(repair(files_, "/run/ckpt-2").left,
              ElementsAre(test::Says("holds what belongs to ckpt-4.data-00001-of-00003")));
  EXPECT_THAT(changed(files_, bad), IsEmpty());
  // A file that is only a copy of the other step's is replaced.
  put(files_, "ckpt-4.data-00001-of-00003", bad.at("ckpt-2.data-00001-of-00003"));
  EXPECT_EQ(repair(files_, "/run/ckpt-2").after.verdict(), Verdict::whole);
  EXPECT_EQ(values(files_, 2), right(2));
}

TEST_F(Repairs, AnIndexThatIsMissingIsPutBackBesideDamage) {
  save(files_, {2, 4});
  const auto index = bytes(files_, "ckpt-4.index");
  flip(files_, "ckpt-4.data-00000-of-00003", 20);
  for (const bool removed : {true, false}) {
    if (removed) remove(files_, "ckpt-4.index");
    if (!removed) flip(files_, "ckpt-4.index", 9);
    const auto repaired = repair(files_, "/run/ckpt-4");
    EXPECT_THAT(repaired.done, ElementsAre(test::Says("ckpt-4.index was put back")));
    EXPECT_THAT(repaired.left, ElementsAre(test::Says("data-00000-of-00003 is damaged")));
    EXPECT_EQ(bytes(files_, "ckpt-4.index"), index);
    EXPECT_EQ(values(files_, 4), (Values{std::nullopt, 1.0}));
  }
}

// Without its 1 KiB of metadata a checkpoint is not lost.
TEST_F(Repairs, LostMetadataAreWrittenAnew) {
  save(files_, {1, 2, 4, 5});
  const auto good = take(files_);
  const auto state_file = bytes(files_, "checkpoint");
  // The newest checkpoint gets a sequence above all that were ever reserved: a crash may bring back
  // a save with one of these.
  constexpr auto block = commit::sequence_block;
  const std::map<std::int64_t, std::vector<std::int64_t>> sequences{
      {1, {1, 1}}, {2, {2, 2}}, {4, {3, 3}}, {5, {block + 1, 2 * block + 1}}};
  for (const auto& [step, both] : sequences) {
    for (const bool removed : {true, false}) {
      const auto sequence = both[removed ? 0 : 1];
      SCOPED_TRACE(cat("step ", step, removed ? " removed" : " flipped"));
      const auto file = cat("ckpt-", step, ".data-00002-of-00003");
      if (removed) remove(files_, file);
      if (!removed) flip(files_, file, 20);
      EXPECT_EQ(values(files_, step), right(step));
      EXPECT_EQ(latest(files_), step == 5 ? 4 : 5) << "it is taken last";
      const auto repaired = repair(files_, cat("/run/ckpt-", step));
      EXPECT_THAT(repaired.done,
                  ElementsAre(test::Says(".index was written anew"),
                              HasSubstr(cat("step ", step, ", commit ", sequence, ";"))));
      EXPECT_THAT(repaired.left, IsEmpty());
      EXPECT_EQ(repaired.after.verdict(), Verdict::whole);
      EXPECT_EQ(changed(files_, good), (std::set{cat("ckpt-", step, ".index"), file}));
      EXPECT_EQ(values(files_, step), right(step));
      Both job(files_, options_);
      std::vector<std::int64_t> steps;
      for (const auto& info : job.manager.steps()) {
        steps.push_back(info.step);
        EXPECT_EQ(info.damage, "");
      }
      EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 4, 5})) << "in the order of commits";
      EXPECT_EQ(job.manager.restore_latest(job.state)->step, 5);
      for (const auto& [name, all] : good) put(files_, name, all);
      put(files_, "checkpoint", state_file);
    }
  }
}

TEST_F(Repairs, MetadataAreNotMadeUp) {
  save(files_, {1, 2, 4});
  const auto good = take(files_);
  const auto is_left = [&](const std::string& why) {
    const auto bad = take(files_);
    const auto repaired = repair(files_, "/run/ckpt-2");
    EXPECT_THAT(repaired.left, testing::Contains(HasSubstr(why)));
    EXPECT_THAT(repaired.done, IsEmpty());
    EXPECT_THAT(changed(files_, bad), IsEmpty());
  };
  remove(files_, "ckpt-2.data-00002-of-00003");
  flip(files_, "ckpt-2.data-00001-of-00003", 20);
  is_left("nothing is taken from others");
  for (const auto& [name, all] : good) put(files_, name, all);
  remove(files_, "ckpt-2.data-00002-of-00003");
  const auto temp = cat("/run/ckpt-9_temp_", commit::new_uuid());
  files_->create_directory(temp);
  is_left("a job has left ckpt-9_temp_");
  files_->remove_directory(temp);
  EXPECT_EQ(repair(files_, "/run/ckpt-2").after.verdict(), Verdict::whole);
}

// The fill value of the gaps is not known any more.
TEST_F(Repairs, OfASparseTensorNoMetadataAreMadeUp) {
  std::vector<double> part(50, 3);
  State state;
  state.add("sparse", stored(Storage::sliced, sparse(slice(part.data(), {100}, {0}, {50}), -1.0)));
  CheckpointManager(serial_group(), "/run", options_).save(1, state);
  const auto names = names_of(*files_, "ckpt-1.data-");
  remove(files_, names.back());
  EXPECT_THAT(repair(files_, "/run/ckpt-1").left, ElementsAre(test::Says("is stored in part")));
}

TEST_F(Repairs, PinsHoldForWhatWasRepaired) {
  save(files_, {1, 2, 4});
  const auto pin = [&](std::int64_t step) {
    CheckpointManager(serial_group(), "/run", options_).pin(step);
  };
  const auto pinned = [&] {
    std::vector<std::int64_t> steps;
    for (const auto& entry : scan_catalog({files_, "/run", "ckpt"})) {
      if (entry.pin == Pin::holds && entry.damage.empty()) steps.push_back(entry.step);
    }
    return steps;
  };
  pin(1);
  remove(files_, "ckpt-1.data-00002-of-00003");
  EXPECT_EQ(repair(files_, "/run/ckpt-1").after.verdict(), Verdict::whole);
  EXPECT_THAT(pinned(), ElementsAre(1));
  copy(files_, "ckpt-4.index", "ckpt-2.index");
  pin(2);
  EXPECT_EQ(repair(files_, "/run/ckpt-2").after.verdict(), Verdict::whole);
  EXPECT_THAT(pinned(), ElementsAre(1, 2));
  remove(files_, "ckpt-4.index");
  pin(4);
  EXPECT_EQ(repair(files_, "/run/ckpt-4").after.verdict(), Verdict::whole);
  EXPECT_THAT(pinned(), ElementsAre(1, 2, 4));
}

// Without a number in the name, the note tells to which save the metadata belong; without the note,
// all files together tell it.
TEST_F(Repairs, OfACheckpointWithoutANumberTheNoteDecides) {
  double u = 3;
  State state;
  state.add("u", u);
  CheckpointOptions options;
  options.write.file_system = files_;
  {
    Checkpoint checkpoint(serial_group(), state, options);
    checkpoint.write("/run/one");
    u = 4;
    checkpoint.write("/run/two");
  }
  const auto good = bytes(files_, "one.index");
  for (const bool noted : {true, false}) {
    copy(files_, "two.index", "one.index");
    if (!noted) files_->remove("/run/.cairn/saved/one.index");
    EXPECT_EQ(repair(files_, "/run/one").after.verdict(), Verdict::whole);
    EXPECT_EQ(bytes(files_, "one.index"), good);
    if (!noted) continue;
    flip(files_, "one.data-00000-of-00002", 3);
    copy(files_, "two.index", "one.index");
    EXPECT_THAT(repair(files_, "/run/one").left, ElementsAre(test::Says("no other checkpoint")));
    flip(files_, "one.data-00000-of-00002", 3);
  }
}

}  // namespace
}  // namespace cairn
