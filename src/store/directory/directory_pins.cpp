// Pins and marks, and what retention would do, or does before a save that lacks room.

#include "base/text.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/retention.hpp"

namespace cairn {
namespace {

Error no_such_step(const Location& place, std::int64_t step) {
  return Error(Code::not_found, cat("there is no step ", step, " in ", place.directory.string()),
               "", "steps() lists what is there.")
      .at(place.directory.string());
}

// A step as it is on the disk, and what it is called there alone.
struct OnDisk {
  commit::Naming name;
  std::optional<CatalogEntry> entry;
};

OnDisk look_at_disk(const Location& place, std::int64_t step) {
  if (step < 0) throw no_such_step(place, step);
  OnDisk there{{commit::prefix_name(place.naming, step), false}, std::nullopt};
  const auto entries = scan_catalog({place.files, place.directory, there.name});
  if (!entries.empty()) there.entry = entries.front();
  return there;
}

}  // namespace

// What this owner knows may be of long ago. Where locks do not keep owners on two hosts apart, one
// that has come meanwhile has not seen the pin: then it is not told of.
void Directory::pin(std::int64_t step) {
  owned_.name->check();  // before the lock, which makes a directory that was removed anew
  const auto lock = PinLock::take({place_.files, place_.directory}, policy_.owner_wait_seconds);
  owned_.name->check();
  const auto there = look_at_disk(place_, step);
  if (!there.entry) throw no_such_step(place_, step);
  add_pin({place_.files, place_.directory, there.name}, *there.entry);
  owned_.name->check();
  refresh_pins(history_.catalog());
}

void Directory::unpin(std::int64_t step) {
  owned_.name->check();
  const auto lock = PinLock::take({place_.files, place_.directory}, policy_.owner_wait_seconds);
  owned_.name->check();
  const auto there = look_at_disk(place_, step);
  const bool was = remove_pin({place_.files, place_.directory, there.name}, 0);
  if (!was && !there.entry) throw no_such_step(place_, step);
  refresh_pins(history_.catalog());
}

void Directory::mark(std::int64_t step, std::optional<StepMark> mark) {
  owned_.name->check();
  const auto lock = PinLock::take({place_.files, place_.directory}, policy_.owner_wait_seconds);
  owned_.name->check();
  const auto there = look_at_disk(place_, step);
  const Location alone{place_.files, place_.directory, there.name};
  if (!there.entry) throw no_such_step(place_, step);
  if (mark) {
    add_mark(alone, *there.entry, *mark);
  } else {
    remove_mark(alone, 0);
  }
  owned_.name->check();
  refresh_pins(history_.catalog());
}

std::optional<std::int64_t> Directory::step_to_prove(const std::vector<std::int64_t>& saving,
                                                     const std::set<std::int64_t>& tried) {
  make_durable();
  refresh_pins(history_.catalog());
  return history_.step_to_prove(policy_.keep, saving, tried);
}

std::size_t Directory::remove_surplus(std::int64_t proved,
                                      const std::vector<std::int64_t>& saving) {
  return upkeep_.remove_surplus(history_.catalog(), [&](std::vector<std::int64_t>& steps) {
    history_.spare(steps, proved, saving);
  });
}

}  // namespace cairn
