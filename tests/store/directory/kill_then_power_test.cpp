// When a process is killed, the power failure after its successor has begun decides what is
// durable. Nothing on which the successor builds may vanish then, nor come back: here the indexes
// that the first one had set aside while it saved and let older checkpoints go.
#include <iostream>

#include "store/directory/direct_kit.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

class KillThenPower : public Direct {
 protected:
  static ManagerOptions staged_on(Disk disk) {
    auto options = options_on(std::move(disk));
    options.write.atomic_rename = true;
    options.keep.last = 1;
    return options;
  }
  // The step that a reader of the directory finds; each step that is listed must be whole.
  static std::int64_t newest_of(const Disk& disk) {
    One one(staged_on(disk));
    const auto newest = one.latest();
    for (const auto& step : one.manager.steps()) {
      EXPECT_EQ(step.damage, "") << step.step;
      EXPECT_TRUE(one.manager.restore(step.step, one.state).step == step.step);
      EXPECT_EQ(one.values, std::vector<std::int64_t>(one.values.size(), step.step));
    }
    return newest;
  }
};

TEST_F(KillThenPower, NothingComesBackWithoutItsData) {
  std::size_t kills = 0, states = 0;
  for (bool died = true; died; kills += test::stride(2)) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    std::int64_t told = 0, first = 0;
    std::size_t left = kills;
    died = false;
    {
      One one(staged_on(disk_));
      one.save(1, 1);
      disk_->mark();
      disk_->set_observer([&](const std::string&) {
        if (died || left-- == 0) {
          died = true;
          throw Crashed{};
        }
      });
      try {
        for (told = 1; told < 4; ++told) one.save(told + 1, told + 1);
      } catch (const Crashed&) {
      }
    }
    disk_->set_observer({});
    const auto begin = disk_->operation_count();
    std::size_t opened = 0;
    {
      One next(staged_on(disk_));
      first = next.latest();
      opened = disk_->operation_count();
      EXPECT_GE(first, told) << "killed at operation " << kills;
      next.save(9, 9);
    }
    for (std::size_t stop = begin; stop <= disk_->operation_count(); ++stop) {
      const auto choices = disk_->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); c += test::state_step(29, 97)) {
        ++states;
        const auto after = disk_->crash(stop, choices[c]);
        const auto now = newest_of(after);
        EXPECT_GE(now, stop < opened ? told : first);
        if (HasFailure()) {
          FAIL() << "found " << now << ": killed at " << kills << ", then "
                 << disk_->describe(stop, choices[c]);
        }
      }
    }
  }
  EXPECT_GT(kills, 60u);
  std::cout << "[ STATES   ] " << states << " power failures after " << kills << " kills\n";
}

}  // namespace
}  // namespace cairn
