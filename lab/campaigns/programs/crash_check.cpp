#include "lab/campaigns/programs/crash_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "lab/campaigns/programs/codecs.hpp"
#include "lab/campaigns/programs/left_over.hpp"
#include "testing/crash.hpp"

namespace cairn::campaign {
namespace {

constexpr std::int64_t later_stamp = 90000;  // stamps of saves after the story

// Chooses a restart: on any number of ranks, in either format.
Process choose_restart([[maybe_unused]] const Plan& plan, Random& random) {
  Process process;
  process.ranks = random.one_in(2) ? 1 : random.between(1, 3);
#ifdef CAIRN_CAMPAIGN_HDF5
  if (!plan.direct && random.one_in(3)) {
    process.format = Format::hdf5;
    process.codec = choose_codec(random);
  }
#endif
  process.when_busy = WhenBusy::wait;
  return process;
}

// Runs one job that opens the directory and looks at everything; then the body.
template <class F>
Found look_at_all(const Plan& plan, const std::shared_ptr<io::MemoryFileSystem>& disk,
                  const Twice& twice, const Process& process, std::string& wrong, F&& body) {
  Found found;
  const auto job = [&](std::shared_ptr<Group> group) {
    StampedState mine(group, plan.shape);
    CheckpointManager manager(group, "/run", options_of(plan, process, disk));
    std::string seen;
    const auto all = look(manager, mine, *group, seen);
    std::vector<CheckpointContents> contents;
    for (const auto& one : all.steps) try {
        contents.push_back(manager.open(one.step));
      } catch (const Error& error) {
        if (error.code() == Code::communication) throw;
        seen += cat(" step ", one.step, " cannot be opened: ", error.what(), ";");
      }
    if (group->rank() == 0) {
      found = all;
      std::map<std::string, bool> prefixes;
      for (const auto& one : all.steps) {
        const auto at = twice.find(one.step);
        if (at == twice.end() || at->second.stamp != one.stamp) continue;
        prefixes.emplace(cat("ckpt-", one.step), at->second.required);
      }
      wrong += seen + left_over(*disk, contents, prefixes);
    }
    group->barrier();
    body(manager, mine, *group, all);
  };
  try {
    run_ranks(plan, process.ranks, 77, job);
  } catch (const std::exception& error) {
    wrong += cat(" the restart failed: ", error.what(), ";");
  }
  return found;
}

void nothing_more(CheckpointManager&, StampedState&, Group&, const Found&) {}

std::string steps_text(const Found& found) {
  std::string text;
  for (const auto& one : found.steps) text += cat(" ", one.step, " (stamp ", one.stamp, ")");
  return text.empty() ? " nothing" : text;
}

}  // namespace

io::CrashChoice choose_crash(const io::MemoryFileSystem& disk, std::size_t stop, Random& random) {
  io::CrashChoice choice;
  choice.keep = random.one_in(2);
  const auto open = disk.unsynced(stop);
  if (open.empty() || random.one_in(4)) return choice;
  const int in = random.one_in(2) ? 2 : static_cast<int>(open.size());
  std::vector<std::size_t> writes;
  for (const auto operation : open) {
    if (random.one_in(in)) choice.except.push_back(operation);
    const auto text = disk.operation_text(operation);
    if (text.starts_with("write ")) writes.push_back(operation);
  }
  if (writes.empty() || random.one_in(2)) return choice;
  const auto torn = writes[static_cast<std::size_t>(random.below(static_cast<int>(writes.size())))];
  // "write /d/f [0, 4096)"
  const auto text = disk.operation_text(torn);
  const auto from = text.rfind('[');
  const auto first = std::strtoll(text.c_str() + from + 1, nullptr, 10);
  const auto end = std::strtoll(text.c_str() + text.find(',', from) + 1, nullptr, 10);
  constexpr std::int64_t sector = 512;
  const auto cuts = (end - 1) / sector - first / sector;
  if (cuts < 1) return choice;
  const auto cut = (first / sector + 1 + random.below(static_cast<int>(cuts))) * sector;
  const bool last = random.one_in(2);
  choice.tear =
      io::CrashChoice::Tear{torn, static_cast<std::size_t>(last ? end - cut : cut - first), last};
  std::erase(choice.except, torn);
  if (!choice.keep) choice.except.push_back(torn);
  return choice;
}

Found restart(const Plan& plan, std::shared_ptr<io::MemoryFileSystem> disk, const Twice& twice,
              Random& random, bool saves_more, std::string& wrong) {
  const auto process = choose_restart(plan, random);
  const int turn = random.below(3), choice = random.below(1000);
  std::int64_t saved = -1;
  const auto save = [&](CheckpointManager& manager, StampedState& mine, Group& group,
                        const Found& found) {
    if (!saves_more) return;
    std::int64_t step = found.steps.empty() ? 1 : found.steps.back().step + 1;
    const auto there = manager.steps();
    if (turn == 0 && !there.empty()) {  // over an existing one
      step = there[static_cast<std::size_t>(choice) % there.size()].step;
    }
    const auto is_pinned = [&] {
      return std::any_of(there.begin(), there.end(),
                         [&](const auto& one) { return one.step == step && one.pinned; });
    };
    while (is_pinned()) ++step;
    mine.fill(later_stamp);
    if (turn == 1) {
      manager.save_async(step, mine.state());
      mine.spoil();
      manager.wait();
    } else {
      manager.save(step, mine.state());
    }
    if (group.rank() == 0) saved = step;
  };
  const auto found = look_at_all(plan, disk, twice, process, wrong, save);
  if (!saves_more || saved < 0) return found;
  const auto later = disk->crash(disk->operation_count(), {.keep = false});
  std::string wrong_then;
  const auto then =
      look_at_all(plan, later, twice, choose_restart(plan, random), wrong_then, nothing_more);
  auto expected = found;
  std::erase_if(expected.steps, [&](const auto& one) { return one.step == saved; });
  expected.steps.push_back({saved, later_stamp});
  if (then.newest != later_stamp || steps_text(then) != steps_text(expected)) {
    wrong_then += cat(" expected", steps_text(expected), ", found", steps_text(then));
  }
  if (!wrong_then.empty()) wrong += cat(" after one more save of step ", saved, ":", wrong_then);
  return found;
}

std::string restart_badly(const Plan& plan, std::shared_ptr<io::MemoryFileSystem> disk,
                          const Twice& twice, const Ledger& ledger, Random& random) {
  static const char* const kinds[] = {"open", "read", "read", "list", "status", "open"};
  auto process = choose_restart(plan, random);
  const auto files = std::make_shared<test::ProcessFiles>(disk);
  test::Mishap mishap;
  mishap.kind = kinds[random.below(6)];
  mishap.skip = static_cast<std::size_t>(random.below(30));
  mishap.times = static_cast<std::size_t>(random.one_in(3) ? 1000 : random.between(1, 4));
  const int choice = random.below(1000);
  const bool restores = random.one_in(2);
  Ledger known = ledger;
  std::string wrong;
  const auto job = [&](std::shared_ptr<Group> group) {
    StampedState mine(group, plan.shape);
    if (group->rank() == 0) files->arm(mishap);
    group->barrier();
    std::optional<CheckpointManager> manager;
    try {
      manager.emplace(group, "/run", options_of(plan, process, files));
      group->barrier();
      if (group->rank() == 0) files->disarm();
      group->barrier();
      std::int64_t step = choice % 40;
      if (restores) {
        if (const auto report = manager->restore_latest(mine.state())) {
          step = report->step + 1 + choice % 3;
          if (group->rank() == 0) known.restored(1000, mine.stamp(), 0);
        }
      }
      mine.fill(later_stamp);
      known.begin(1000, later_stamp, step, 0, 0);
      manager->save(step, mine.state());
      known.committed(later_stamp, 0);
    } catch (const Error& error) {
      known.failed(later_stamp, &error, 0);
    }
  };
  known.forgive();
  try {
    run_ranks(plan, process.ranks, 78, job);
  } catch (const std::exception& error) {
    wrong += cat(" the restart ended by ", error.what(), ";");
  }
  const auto stop = disk->operation_count();
  const auto later = disk->crash(stop, choose_crash(*disk, stop, random));
  const auto found =
      look_at_all(plan, later, twice, choose_restart(plan, random), wrong, nothing_more);
  wrong += known.judge(found, 0);
  if (wrong.empty()) return "";
  return cat("after ", mishap.times, " errors of ", mishap.kind, " from number ", mishap.skip,
             " on at the opening", restores ? " and a restore" : "", ":", wrong, "\n",
             known.text());
}

std::shared_ptr<io::MemoryFileSystem> restart_and_crash(const Plan& plan,
                                                        std::shared_ptr<io::MemoryFileSystem> disk,
                                                        Random& random,
                                                        std::optional<std::int64_t>& seen,
                                                        std::string& how, std::string& wrong) {
  const auto process = choose_restart(plan, random);
  const auto files = std::make_shared<test::ProcessFiles>(disk);
  const auto killed = static_cast<std::size_t>(random.below(40));
  files->kill_after({killed});
  std::size_t told = 0;
  std::int64_t newest = 0;
  const auto job = [&](std::shared_ptr<Group> group) {
    StampedState mine(group, plan.shape);
    CheckpointManager manager(group, "/run", options_of(plan, process, files));
    mine.spoil();
    const auto report = manager.restore_latest(mine.state());
    if (group->rank() != 0) return;
    newest = report ? mine.stamp() : 0;
    told = disk->operation_count();
  };
  try {
    run_ranks(plan, process.ranks, 79, job);
  } catch (const Crashed&) {
  } catch (const std::exception& error) {
    wrong += cat(" a restart failed: ", error.what(), ";");
  }
  const auto stop =
      static_cast<std::size_t>(random.between(0, static_cast<int>(disk->operation_count())));
  if (told > 0 && stop >= told) seen = newest;
  const auto choice = choose_crash(*disk, stop, random);
  how = cat("; then a restart killed after ", killed, " operations, and ",
            disk->describe(stop, choice));
  return disk->crash(stop, choice);
}

}  // namespace cairn::campaign
