// Saves without atomic rename: a step that is saved a second time must not be lost in between.
#include <iostream>

#include "base/text.hpp"
#include "store/commit/protocol.hpp"
#include "store/directory/direct_kit.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

// A save died while it replaced the index, and the next job could not read what the save had left.
// When that job saves the step again, the old index may be all that is left of the step.
TEST_F(Direct, TheOldIndexIsBackBeforeTheStepIsSavedAgain) {
  for (const bool torn : {false, true}) {
    SCOPED_TRACE(torn ? "torn index" : "no index");
    disk_ = new_disk();
    save(10, 1);
    {
      One one(options_on(disk_));
      die_at(disk_, "create /run/ckpt-10.index", [&] { one.save(10, 2); });
      if (torn) io::write_file(*disk_, "/run/ckpt-10.index", "torn");
    }
    disk_->mark();
    {
      disk_->inject({Code::io, "read", "record-", 0, 1});
      One one(options_on(disk_));
      EXPECT_THAT(listing(), testing::Contains(HasSubstr(".part_"))) << "undecided";
      disk_->inject({Code::io, "read", "old-index", 0, 1});
      try {
        one.save(10, 3);
        ADD_FAILURE() << "it may be all that is left";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), test::Says("step 10 cannot be saved now"));
      }
      one.save(10, 3);
    }
    std::size_t states = 0;
    for (std::size_t stop = 0; stop <= disk_->operation_count(); ++stop) {
      const auto choices = disk_->crash_choices(stop);
      for (std::size_t c = stop % test::stride(7); c < choices.size(); c += test::stride(7)) {
        ++states;
        const auto after = disk_->crash(stop, choices[c]);
        for (const auto& name : after->list("/run")) {  // as if it could not be completed
          if (name.find(".part_") == name.npos) continue;
          for (const auto& file : after->list("/run/" + name)) {
            if (file.starts_with("record-")) after->remove("/run/" + name + "/" + file);
          }
        }
        const auto found = One(options_on(after)).latest();
        ASSERT_TRUE(found == 1 || found == 3) << found << ": " << disk_->describe(stop, choices[c]);
      }
    }
    std::cout << "[ STATES   ] " << states << " crash states\n";
    EXPECT_EQ(latest(), 3);
  }
}

// A save died when its index had a name and no bytes. The next job could not read what the save had
// left, and its state file listed that step. Once the save is given up, the step counts as never
// saved.
TEST_F(Direct, AStepThatOnlyATornIndexSpokeOfIsNotLost) {
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again ? "that step is saved again, and dies" : "another step is saved");
    disk_ = new_disk();
    save(10, 1);
    {
      One one(options_on(disk_));
      die_at(disk_, "write /run/ckpt-20.index", [&] { one.save(20, 2); });
    }
    {
      disk_->inject({Code::io, "read", "record-", 0, 1});
      One one(options_on(disk_));
      one.save(30, 3);
      EXPECT_THAT(listing(), testing::Contains(HasSubstr(".part_"))) << "undecided";
      if (again) die_at(disk_, "create /run/ckpt-20.data", [&] { one.save(20, 4); });
    }
    for (int restart = 0; restart < 2; ++restart) {
      One one(options_on(disk_));
      std::vector<std::int64_t> steps;
      for (const auto& info : one.manager.steps()) {
        steps.push_back(info.step);
        EXPECT_EQ(info.damage, "");
      }
      EXPECT_THAT(steps, testing::ElementsAre(10, 30));
      EXPECT_THAT(listing(), testing::Not(testing::Contains(HasSubstr("ckpt-20"))));
    }
    EXPECT_EQ(latest(), 3);
  }
}

// For instance that of a merge, which has no records, once it is done and its directory removed for
// good.
TEST_F(Direct, AnOldIndexWithoutRecordsDoesNotComeBack) {
  save(10, 1);
  const auto temp = cat("/run/ckpt-10.part_", commit::new_uuid());
  disk_->create_directory(temp);
  io::write_file(*disk_, temp + "/old-index", "an index");
  disk_->sync_directory(temp);
  disk_->sync_directory("/run");
  disk_->mark();
  commit::remove_temp(*disk_, temp);
  disk_->sync_directory("/run");
  const auto end = disk_->operation_count();
  for (const auto& choice : disk_->crash_choices(end)) {
    EXPECT_FALSE(disk_->crash(end, choice)->status(temp)) << disk_->describe(end, choice);
  }
}

TEST_F(Direct, APinThatIsMadeAgainIsNotLostMeanwhile) {
  One one(options_on(disk_));
  one.save(10, 1);
  one.manager.pin(10);
  disk_->mark();
  one.manager.pin(10);
  for (std::size_t stop = 0; stop <= disk_->operation_count(); ++stop) {
    for (const auto& choice : disk_->crash_choices(stop)) {
      const auto after = disk_->crash(stop, choice);
      EXPECT_TRUE(One(options_on(after)).manager.steps().at(0).pinned)
          << disk_->describe(stop, choice);
    }
  }
}

}  // namespace
}  // namespace cairn
