// A repair that dies, or meets an error of the disk, makes nothing worse.
#include <functional>

#include "base/text.hpp"
#include "support/rounds.hpp"
#include "tools/repair_kit.hpp"

namespace cairn {
namespace {

using lost::names_of;
using lost::repair;
using testing::AnyOf;
using testing::IsEmpty;

struct Mishap {
  std::string name;
  std::function<void(const lost::Disk&)> befalls;
  std::int64_t step = 2;
};

class RepairDies : public Repairs {
 protected:
  static std::vector<Mishap> mishaps() {
    return {
        {"the index of another",
         [](const Disk& disk) { copy(disk, "ckpt-4.index", "ckpt-2.index"); }},
        {"the index of another and damage that another has",
         [](const Disk& disk) {
           copy(disk, "ckpt-4.index", "ckpt-2.index");
           flip(disk, "ckpt-2.data-00001-of-00003", 20);
         }},
        {"damage that another has",
         [](const Disk& disk) { flip(disk, "ckpt-2.data-00001-of-00003", 20); }},
        {"a file that another has is missing, and the copy of the index",
         [](const Disk& disk) {
           remove(disk, "ckpt-2.data-00001-of-00003");
           auto all = bytes(disk, "ckpt-2.data-00002-of-00003");
           put(disk, "ckpt-2.data-00002-of-00003", all.substr(0, all.size() - 9));
         }},
        {"a damaged index", [](const Disk& disk) { flip(disk, "ckpt-4.index", 9); }, 4},
        {"a lost index", [](const Disk& disk) { remove(disk, "ckpt-4.index"); }, 4},
        {"lost metadata", [](const Disk& disk) { remove(disk, "ckpt-2.data-00002-of-00003"); }},
        {"damaged metadata", [](const Disk& disk) { flip(disk, "ckpt-4.data-00002-of-00003", 20); },
         4},
        {"nothing that can be mended",
         [](const Disk& disk) {
           copy(disk, "ckpt-4.index", "ckpt-2.index");
           flip(disk, "ckpt-2.data-00000-of-00003", 20);
         }},
    };
  }
  // Checks that every value that was right before is right now.
  void expect_no_worse(const Disk& disk, const std::map<std::int64_t, Values>& before) {
    for (const auto& [step, now] : values(disk)) {
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (before.at(step)[i]) {
          EXPECT_EQ(now[i], before.at(step)[i]) << "step " << step;
        }
        if (now[i]) {
          EXPECT_EQ(now[i], right(step)[i]) << "of another step than " << step;
        }
      }
    }
  }
};

TEST_F(RepairDies, NothingIsWorseThanBefore) {
  std::size_t states = 0, begin = 0;
  for (const bool renames : {true, false}) {
    options_.write.atomic_rename = renames;
    for (const auto& mishap : mishaps()) {
      SCOPED_TRACE(cat(mishap.name, renames ? "" : ", no renames"));
      auto disk = std::make_shared<io::MemoryFileSystem>();
      if (!renames) disk->refuse_renames();
      save(disk, {1, 2, 4});
      mishap.befalls(disk);
      disk->mark();
      const auto before = values(disk);
      const auto prefix = cat("/run/ckpt-", mishap.step);
      const auto verdict = repair(disk, prefix).after.verdict();
      EXPECT_EQ(verdict, mishap.name.starts_with("nothing") ? Verdict::damaged : Verdict::whole);
      const auto stride = test::state_step(2, 7);  // starts at another one for each mishap
      for (std::size_t stop = begin++ % stride; stop <= disk->operation_count(); stop += stride) {
        const auto choices = disk->crash_choices(stop);
        // All operations kept or all lost, in turns, and some of the other choices.
        const auto few = test::state_step(9, 29);
        for (std::size_t c = few > 1 ? stop / stride % 2 : 0; c < choices.size(); c += few) {
          SCOPED_TRACE(disk->describe(stop, choices[c]));
          const auto after = disk->crash(stop, choices[c]);
          ++states;
          expect_no_worse(after, before);
          // The repair is tried again, at once or after a job was there.
          const bool settled = names_of(*after, cat("ckpt-", mishap.step, ".part_")).empty();
          if (settled && states % 2) {
            EXPECT_EQ(repair(after, prefix).after.verdict(), verdict);
            expect_no_worse(after, before);
          }
          latest(after);
          EXPECT_EQ(repair(after, prefix).after.verdict(), verdict);
          expect_no_worse(after, before);
          EXPECT_FALSE(after->status("/run/.cairn/repair"));
          EXPECT_THAT(names_of(*after, cat("ckpt-", mishap.step, ".part_")), IsEmpty());
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(states, test::rounds(100u));
}

// With errors of the disk instead, the repair reports them, and may be tried again.
TEST_F(RepairDies, AnyErrorOfTheDiskLeavesNothingWorse) {
  const auto every = test::state_step(3, 11);
  std::size_t begin = 0;
  for (const bool renames : {true, false}) {
    options_.write.atomic_rename = renames;
    for (const auto& mishap : mishaps()) {
      std::size_t operations = 1;
      // Every third operation, starting at another one for each mishap.
      for (std::size_t skip = begin++ % every; skip < operations; skip += every) {
        SCOPED_TRACE(cat(mishap.name, renames ? "" : ", no renames", ", after ", skip));
        auto disk = std::make_shared<io::MemoryFileSystem>();
        if (!renames) disk->refuse_renames();
        save(disk, {1, 2, 4});
        mishap.befalls(disk);
        const auto before = values(disk);
        const auto prefix = cat("/run/ckpt-", mishap.step);
        if (skip < every) {
          const auto undisturbed = disk->crash(disk->operation_count(), {});
          repair(undisturbed, prefix);
          operations = undisturbed->operation_count();
        }
        disk->inject({Code::io, "", "", skip, 1});
        try {
          repair(disk, prefix);
        } catch (const Error& error) {
          EXPECT_THAT(error.code(), AnyOf(Code::io, Code::durability_unknown)) << error.what();
        }
        disk->clear_faults();
        expect_no_worse(disk, before);
        latest(disk);
        expect_no_worse(disk, before);
        const bool mends = !mishap.name.starts_with("nothing");
        EXPECT_EQ(repair(disk, prefix).after.verdict(), mends ? Verdict::whole : Verdict::damaged);
        expect_no_worse(disk, before);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
