// What is said of a checkpoint when the power fails.
#include "store/directory/marks.hpp"

#include <gmock/gmock.h>

#include <set>

#include "cairn/checkpoint_manager.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

TEST(Marks, AreDurableAndSoIsTheirRemoval) {
  ManagerOptions options;
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  options.write.file_system = disk;
  double value = 1;
  State state;
  state.add("value", value);
  CheckpointManager(serial_group(), "/run", options).save(1, state);
  const Location place{disk, "/run", {"ckpt", true}};
  const auto entry = look_at_step(place, 1);
  const auto marks_after_a_crash = [&] {
    std::set<std::optional<StepMark>> marks;
    const auto now = disk->operation_count();
    for (const auto& choice : disk->crash_choices(now)) {
      marks.insert(find_mark({disk->crash(now, choice), place.directory, place.naming}, entry));
    }
    return marks;
  };
  disk->mark();
  add_mark(place, entry, StepMark::bad);
  EXPECT_THAT(marks_after_a_crash(), ElementsAre(StepMark::bad));
  remove_mark(place, 1);
  EXPECT_THAT(marks_after_a_crash(), ElementsAre(std::nullopt));
}

}  // namespace
}  // namespace cairn
