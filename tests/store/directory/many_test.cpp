// Directories with thousands of checkpoints, or of unfinished saves: what a save and an opening do
// there.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"
#include "store/directory/catalog.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"
#include "testing/counting.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

using io::OperationCounts;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// The definition in the comment of mark_superseded: superseded is what was committed between a
// checkpoint and the one from which its run went on or, where that is not known, what has the same
// or a higher step. If no other checkpoint can be that one, an unreadable one may be.
std::vector<bool> superseded_by_definition(const std::vector<CatalogEntry>& entries) {
  std::vector<bool> superseded(entries.size());
  for (std::size_t now = 0; now < entries.size(); ++now) {
    const auto parent = entries[now].save.parent;
    std::size_t behind = 0;
    for (std::size_t i = 0; i < now; ++i) {
      const auto& older = entries[i];
      const bool of_others = !older.ours && older.damage.empty();
      const auto sequence = older.save.sequence;
      if (of_others || (sequence > 0 && sequence <= parent)) behind = i + 1;
    }
    const bool has_parent = std::any_of(entries.begin(), entries.end(), [&](const auto& one) {
      return one.save.sequence == parent;
    });
    for (std::size_t i = behind; !has_parent && i < now; ++i) {
      const auto& older = entries[i];
      if (older.save.sequence <= 0 && !older.damage.empty() && older.step < entries[now].step) {
        behind = i + 1;
      }
    }
    for (std::size_t i = parent < 0 ? 0 : behind; i < now; ++i) {
      if (parent >= 0 || entries[i].step >= entries[now].step) superseded[i] = true;
    }
  }
  return superseded;
}

TEST(ManyCheckpoints, AreSupersededAsTheDefinitionSays) {
  std::mt19937 random(1);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  int some = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<CatalogEntry> entries(static_cast<std::size_t>(below(12)));
    int number = 0;
    for (auto& entry : entries) {
      number += 1 + below(2);
      entry.step = below(15);
      entry.save.sequence = below(5) == 0 ? 0 : number;
      entry.save.parent = below(4) == 0 ? -1 : below(4) == 0 ? below(number + 1) : number - 1;
      entry.ours = below(6) != 0;
      if (below(6) == 0) entry.damage = "damaged";
      entry.superseded = below(2) == 0;
    }
    const auto wanted = superseded_by_definition(entries);
    mark_superseded(entries);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ASSERT_EQ(entries[i].superseded, wanted[i]) << "round " << round << ", entry " << i;
      some += wanted[i];
    }
  }
  EXPECT_GT(some, 1000);
}

TEST(ManyCheckpoints, AStepHasTheEntriesThatBeginLikeItsFiles) {
  const std::vector<std::string> listing{
      "checkpoint",    "ckpt-1.h5",     "ckpt-1.index", "ckpt-1.index.aside_0123456789abcdef",
      "ckpt-10.index", "ckpt-1_temp_x", "ckpt-2.index"};
  const auto of = [&](const commit::Naming& name, std::int64_t step) {
    const auto some = commit::entries_of(listing, name, step);
    return std::vector<std::string>(some.begin(), some.end());
  };
  EXPECT_THAT(of({"ckpt"}, 1),
              ElementsAre("ckpt-1.h5", "ckpt-1.index", "ckpt-1.index.aside_0123456789abcdef"));
  EXPECT_THAT(of({"ckpt"}, 10), ElementsAre("ckpt-10.index"));
  EXPECT_THAT(of({"ckpt"}, 3), ElementsAre());
  EXPECT_THAT(of({"ckpt-2", false}, 0), ElementsAre("ckpt-2.index"));
}

class Many : public testing::Test {
 protected:
  Many() {
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
    options_.keep.last = 0;
    set_log_sink([this](LogLevel, std::string_view line) { said_.emplace_back(line); });
    state_.add("a", value_);
  }
  ~Many() override {
    manager_.reset();
    set_log_sink({});
  }

  OperationCounts of_an_opening() {
    manager_.reset();
    files_->take();
    manager_.emplace(serial_group(), "/run", options_);
    const auto [counts, log] = files_->take();
    listings_ = std::count(log.begin(), log.end(), "list /run");
    return counts;
  }
  OperationCounts of_a_save() {
    files_->take();
    manager_->save(++step_, state_);
    return files_->take().first;
  }
  void save_up_to(std::int64_t step) {
    while (step_ < step) manager_->save(++step_, state_);
  }
  // Leaves the files of a job that was killed in a save.
  void leave_unfinished(int first, int end) {
    for (int i = first; i < end; ++i) {
      std::string uuid = cat(1000000 + i);
      uuid.insert(0, 32 - uuid.size(), '0');
      const io::Path temp = cat("/run/ckpt-", i, "_temp_", uuid);
      disk_->create_directory(temp);
      io::write_file(*disk_, temp / "part-00000-of-00002", "torn");
    }
  }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  std::shared_ptr<io::CountingFiles> files_ = std::make_shared<io::CountingFiles>(disk_);
  ManagerOptions options_;
  double value_ = 1;
  State state_;
  std::int64_t step_ = 0, listings_ = 0;
  std::vector<std::string> said_;
  std::optional<CheckpointManager> manager_;
};

TEST_F(Many, CheckpointsCostASaveNothingAndAnOpeningSomethingEach) {
  of_an_opening();
  save_up_to(8);
  const auto few = of_a_save();
  const auto opening_few = of_an_opening();
  const auto before = step_;
  of_a_save();  // the first one after an opening has more to do
  save_up_to(60);
  const auto many = of_a_save();
  EXPECT_EQ(few.of, many.of);
  const auto more = step_ - before;
  const auto opening_many = of_an_opening();
  const auto each = [&](OperationCounts::Kind kind) {
    return static_cast<double>(opening_many.of[kind] - opening_few.of[kind]) /
           static_cast<double>(more);
  };
  EXPECT_LE(each(OperationCounts::open), 4);
  EXPECT_LE(each(OperationCounts::stat), 8);
  EXPECT_LE(each(OperationCounts::list), 0);
}

TEST_F(Many, UnfinishedSavesCostAnOpeningTheSameEach) {
  of_an_opening();
  of_a_save();
  manager_.reset();
  leave_unfinished(10, 20);
  const auto ten = of_an_opening();
  const auto listings = listings_;
  manager_.reset();
  leave_unfinished(20, 80);
  said_.clear();
  const auto sixty = of_an_opening();
  EXPECT_EQ(listings_, listings);  // each takes as long as there are entries
  const auto none = of_an_opening();
  for (std::size_t kind = 0; kind < OperationCounts::kinds; ++kind) {
    EXPECT_LE(sixty.of[kind] - none.of[kind], 6 * (ten.of[kind] - none.of[kind]))
        << OperationCounts::names[kind];
  }
  EXPECT_EQ(disk_->list("/run"),
            (std::vector<std::string>{".cairn", "checkpoint", "ckpt-1.data-00000-of-00002",
                                      "ckpt-1.data-00001-of-00002", "ckpt-1.index"}));
  // The message comes once, not once for each step.
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr("and 59 more"), test::Says("did not finish"))));
  EXPECT_THAT(said_, SizeIs(1));
}

}  // namespace
}  // namespace cairn
