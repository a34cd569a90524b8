#include "lab/campaigns/programs/fault_story.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "lab/campaigns/programs/fault_job.hpp"
#include "support/conformance.hpp"

namespace cairn::campaign {
namespace {

const std::vector<test::Combination>& lines() { return test::combinations(); }

bool is_hdf5(std::size_t line) { return (lines()[line].needs & test::libhdf5) != 0; }
bool is_direct(std::size_t line) { return lines()[line].name == "bundle_no_rename"; }

std::size_t number_of(const std::string& text) {
  char* end = nullptr;
  const auto value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end) {
    throw Error(Code::invalid_argument, cat("'", text, "' is no number"));
  }
  return static_cast<std::size_t>(value);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const auto end = std::min(text.find(at, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

template <class All>
std::size_t place_of(const All& all, const std::string& name) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  throw Error(Code::invalid_argument, cat("'", name, "' is not known"));
}

// The operation that makes the last save a checkpoint.
std::size_t commit_of(const io::MemoryFileSystem& disk, std::size_t line) {
  for (auto i = disk.operation_count(); i-- > 0;) {
    const auto text = disk.operation_text(i);
    const bool commits = is_direct(line) ? text.starts_with("sync ") && text.ends_with(".index")
                                         : text.starts_with("rename ") &&
                                               (text.ends_with(".index") || text.ends_with(".h5"));
    if (commits && text.find("aside") == text.npos) return i;
  }
  return 0;
}

}  // namespace

const std::vector<Story>& stories() {
  using enum Act;
  static const std::vector<Story> all = {
      {"first", Scenery::empty, {}, {open, save}},
      {"save", Scenery::two_steps, {open, restore_newest}, {save}},
      {"save_again", Scenery::two_steps, {open, restore_newest, save, save}, {save}},
      {"overwrite", Scenery::two_steps, {open, restore_newest}, {save_same}},
      {"overwrite_other", Scenery::other_format, {open, restore_newest}, {save_same}},
      {"retention", Scenery::two_steps, {open, restore_newest}, {save}, 1, false},
      {"recycling", Scenery::two_steps, {open, restore_newest, save, save}, {save}, 1},
      {"restore", Scenery::two_steps, {open}, {restore_newest, steps, restore_first}},
      {"read_only", Scenery::two_steps, {}, {open_read_only, restore_newest, steps}},
      {"recover_torn", Scenery::torn_save, {}, {open}},
      {"recover_whole", Scenery::whole_save, {}, {open}},
      {"recover_tidy", Scenery::not_tidied, {}, {open}},
      {"ending", Scenery::two_steps, {open, restore_newest, save, save}, {end}, 1},
      {"frozen_first", Scenery::two_steps, {open, restore_newest}, {save}, 0, true, true},
      {"frozen", Scenery::two_steps, {open, restore_newest, save}, {save, save}, 0, true, true},
      {"frozen_retention",
       Scenery::two_steps,
       {open, restore_newest, save},
       {save, save},
       1,
       false,
       true},
      {"frozen_recycling",
       Scenery::two_steps,
       {open, restore_newest, save, save},
       {save, save},
       1,
       true,
       true},
      {"frozen_overwrite",
       Scenery::two_steps,
       {open, restore_newest, save},
       {save_same},
       0,
       true,
       true},
      {"frozen_whole", Scenery::whole_save, {}, {open}, 0, true, true},
  };
  return all;
}

std::string text_of(const FaultCase& one) {
  std::string faults;
  for (const auto& fault : one.faults) {
    faults += cat(faults.empty() ? "" : "+", name_of(fault.kind), "@", fault.at);
  }
  return cat(lines()[one.line].name, "/", stories()[one.story].name, "/", one.ranks, "/", faults,
             "/", one.schedule);
}

FaultCase parse_case(const std::string& text) {
  const auto parts = split(text, '/');
  if (parts.size() != 5) {
    throw Error(Code::invalid_argument, cat("'", text, "' is no case"), "",
                "Give LINE/STORY/RANKS/KIND@NUMBER/SCHEDULE.");
  }
  FaultCase one;
  one.line = place_of(lines(), parts[0]);
  one.story = place_of(stories(), parts[1]);
  one.ranks = static_cast<int>(number_of(parts[2]));
  for (const auto& fault : parts[3].empty() ? std::vector<std::string>() : split(parts[3], '+')) {
    const auto halves = split(fault, '@');
    one.faults.push_back({fault_kind(halves.front()), number_of(halves.back())});
  }
  one.schedule = static_cast<unsigned>(number_of(parts[4]));
  return one;
}

bool can_be_stuck(std::size_t line) {
  return (lines()[line].needs & (test::shared_files | test::shared_datasets)) == 0;
}

bool is_played(std::size_t line, const Story& story) {
#ifndef CAIRN_CONFORMANCE_HDF5
  if (is_hdf5(line) || story.scenery == Scenery::other_format) return false;
#endif
  const auto& name = lines()[line].name;
  if (story.frozen && name != "bundle" && name != "bundle_async") return false;
  return story.scenery != Scenery::other_format || !is_direct(line);
}

FaultStage::Scene FaultStage::set_up(const FaultCase& which) {
  const auto scenery = stories()[which.story].scenery;
  Scene scene{std::make_shared<io::MemoryFileSystem>(), {}};
  if (scenery == Scenery::empty) return scene;
  std::size_t begun = 0;
  run_fault_ranks(which, [&](std::shared_ptr<Group> group) {
    FaultReport report;
    FaultJob job{which, scene.disk};
    job.report = &report;
    job.ledger = &scene.ledger;
    job.number = 1;
    job.which.faults.clear();
    if (scenery == Scenery::other_format) {
      job.which.line = place_of(lines(), is_hdf5(which.line) ? "bundle" : "hdf5");
    }
    job.which.story = place_of(stories(), stories()[which.story].frozen ? "frozen" : "save");
    FaultRank rank(job, group);
    rank.act(Act::open, false);
    rank.act(Act::save, false);
    rank.act(Act::save, false);
    group->barrier();
    if (rank.root()) begun = scene.disk->operation_count();
    if (scenery == Scenery::torn_save || scenery == Scenery::whole_save) {
      rank.act(Act::save, false);
    }
    if (scenery == Scenery::not_tidied) rank.act(Act::save_same, false);
    group->barrier();
    for (const auto& one : report.wrong) throw Error(Code::internal, one);
  });
  auto stop = scene.disk->operation_count();
  const auto commit = commit_of(*scene.disk, which.line);
  if (scenery == Scenery::torn_save) stop = begun + (commit - begun) / 2;
  if (scenery == Scenery::whole_save) stop = commit;
  if (scenery == Scenery::not_tidied) stop = commit + 2;
  scene.ledger = scene.ledger.at(stop);
  // Nobody was told of a save whose job died there; it may exist or not.
  scene.disk = scene.disk->crash(stop, {});
  return scene;
}

const FaultStage::Scene& FaultStage::scene(const FaultCase& which) {
  const auto& story = stories()[which.story];
  auto& place = scenes_[{which.line, story.scenery, which.ranks, story.frozen}];
  if (!place) place = std::make_unique<Scene>(set_up(which));
  return *place;
}

FaultReport FaultStage::play(const FaultCase& which) {
  FaultReport report;
  const auto& beginning = scene(which);
  const auto& story = stories()[which.story];
  auto ledger = beginning.ledger;
  FaultJob job{which, beginning.disk->crash(beginning.disk->operation_count(), {})};
  job.script = std::make_shared<FaultScript>(neglected_);
  job.stale_looks = stale_looks_;
  job.ledger = &ledger;
  job.report = &report;
  struct Picture {
    std::shared_ptr<io::MemoryFileSystem> disk;
    const char* name;
    bool keeps_all = false;
  };
  std::vector<Picture> pictures;
  Ledger then;
  std::size_t stop = 0;
  try {
    run_fault_ranks(which, [&](std::shared_ptr<Group> group) {
      FaultRank rank(job, group);
      for (const auto act : story.before) rank.act(act, false);
      group->barrier();
      if (rank.root()) job.script->begin(which.faults);
      group->barrier();
      for (const auto act : story.at_risk) {
        if (!rank.act(act, true) && act == Act::open) break;
      }
      group->barrier();
      if (rank.root()) {
        stop = job.disk->operation_count();
        pictures = {{job.disk->crash(stop, {.keep = true}), "killed after the fault", true},
                    {job.disk->crash(stop, {.keep = false}), "without power after the fault"}};
        then = ledger;
        report.operations = job.script->operations();
        report.happened = job.script->happened();
      }
      rank.mend();
      rank.go_on();
      group->barrier();
      rank.act(Act::end, false);
      group->barrier();
    });
  } catch (const std::exception& error) {
    report.wrong.push_back(cat("the job ended by ", error.what()));
  } catch (...) {
    report.wrong.push_back("the job ended by something that is no std::exception");
  }
  const auto look = [&](const Picture& picture, const Ledger& known, std::size_t at) {
    std::string wrong;
    const auto found = fault_restart(which, picture.disk, wrong);
    wrong += known.judge(found, at);
    const bool has_claimed =
        std::any_of(found.steps.begin(), found.steps.end(),
                    [&](const auto& one) { return one.stamp == report.claimed; });
    if (picture.keeps_all && report.claimed != 0 && !has_claimed) {
      wrong += cat(" stamp ", report.claimed, " was said to be committed;");
    }
    if (!wrong.empty()) {
      report.wrong.push_back(cat(picture.name, ":", wrong, "\n", known.text()));
    }
  };
  if (!report.happened.empty()) {
    for (const auto& picture : pictures) look(picture, then, stop);
  }
  const auto end = job.disk->operation_count();
  look({job.disk->crash(end, {.keep = false}), "at the end, without power"}, ledger, end);
  return report;
}

}  // namespace cairn::campaign
