// Faults of single operations while checkpoints are on nodes, and then a node vanishes as well.
//
//   campaign_nodes [--stories LIST] [--kinds LIST] [--lost 1|2] [--stride N/FROM] [--verbose]
//   campaign_nodes --case STORY/LOST/KIND@K [--verbose]
//
//   save        saves on nodes, of which older ones go, and one at home
//   flush       saves that go home from the nodes meanwhile
//   rebuild     a restart without a node (without two): the lost parts are computed
//   gc_local    a node is tidied of a run that is gone, and of a save that died
//   bring_home  what nodes have is copied to the run's directory
//
// Of the operations of all ranks, on nodes and at home, the k-th has the fault. Ranks must all hear
// the same; what was acknowledged must then be there, also when any node vanishes that may; and the
// same job, or the same tool again, does what it should have done. No power fails here: nodes do.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/cairn.hpp"
#include "lab/campaigns/programs/command_line.hpp"
#include "lab/campaigns/programs/faulty_files.hpp"
#include "store/nodes/flush_node.hpp"
#include "store/nodes/tidy_node.hpp"
#include "testing/threads.hpp"

namespace cairn::campaign {
namespace {

constexpr int ranks = 4;
constexpr std::int64_t columns = 700;
constexpr auto tier_directory = "/nodes/%n";
using Disk = std::shared_ptr<io::MemoryFileSystem>;
using Files = std::shared_ptr<io::FileSystem>;

Disk copy_of(const Disk& disk) { return disk->crash(disk->operation_count(), {.keep = true}); }

void lose(io::FileSystem& disk, const io::Path& path) {
  if (!disk.status(path)) return;
  for (const auto& name : disk.list(path)) {
    const auto one = path / name;
    if (disk.status(one)->is_directory) {
      lose(disk, one);
    } else {
      disk.remove(one);
    }
  }
  disk.remove_directory(path);
}

struct Case {
  std::string story = "save";
  int lost = 1;
  std::optional<InjectedFault> fault = std::nullopt;
};
std::string text_of(const Case& one) {
  return cat(one.story, "/", one.lost, "/",
             one.fault ? cat(name_of(one.fault->kind), "@", one.fault->at) : "none@0");
}

struct Report {
  std::vector<FileOperation> operations;
  std::vector<std::string> happened, heard, wrong;
};

// The error may say that the save is a checkpoint nevertheless, or that a restart may make it one.
bool says_perhaps(const std::string& error) {
  return error.find("is committed and visible") != error.npos ||
         error.find("a restart may still") != error.npos;
}

// One rank, on a node of its own.
class Rank {
 public:
  Rank(std::shared_ptr<Group> group, Files files, const Case& which, std::string home = "/run")
      : group_(std::move(group)), files_(std::move(files)), which_(which), home_(std::move(home)) {
    state_.add("row", slice(row_.data(), {ranks, columns}, {group_->rank(), 0}, {1, columns}));
    state_.add("stamp", stamp_);
  }

  // Makes a call; returns its error, as text that is the same on all ranks, or "". Differences are
  // wrong.
  std::string attempt(const std::string& what, const std::function<void()>& call, Report& report) {
    std::string text;
    try {
      call();
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      text = cat("[", code_name(error.code()), "] ", error.what());
    }
    const auto hash = text.empty() ? 0 : std::int64_t{crc32c(text)} + 1;
    std::int64_t ends[] = {hash, -hash};
    group_->all_reduce(ends, Group::Op::max);
    if (group_->rank() > 0) return text;
    if (ends[0] != -ends[1])
      report.wrong.push_back(cat(what, " ended differently on ranks: ", text));
    if (!text.empty()) report.heard.push_back(cat(what, ": ", text));
    for (const auto* odd : {"[internal]", "[disagreement]", "[invalid_argument]", "[busy]"}) {
      if (text.starts_with(odd))
        report.wrong.push_back(cat(what, " failed with another error: ", text));
    }
    return text;
  }

  void open() {
    ManagerOptions all;
    all.write.file_system = files_;
    all.write.owner_wait_seconds = 0;
    all.write.chunk_bytes = 4096;
    all.overwrite = true;
    all.async.queue = inline_queue();
    all.tier.directory = tier_directory;
    all.tier.file_system = files_;
    all.tier.node = cat("n", group_->rank());
    all.tier.set_nodes = ranks;
    all.tier.lost_nodes = which_.lost;
    all.tier.home_every = 3;
    if (which_.lost > 1) all.tier.protection = Protection::reed_solomon;
    if (which_.story == "flush") all.tier.flush_bytes_per_second = std::int64_t{1} << 50;
    manager_.emplace(group_, home_, all);
  }
  bool is_open() const { return manager_.has_value(); }
  void save(std::int64_t step) {
    stamp_ = step;
    std::fill(row_.begin(), row_.end(), value());
    manager_->save(step, state_);
  }
  // Restores; returns the step, after a check of its values.
  std::int64_t restore(Report& report) {
    stamp_ = -1;
    std::fill(row_.begin(), row_.end(), -1);
    const auto found = manager_->restore_latest(state_);
    if (!found) return 0;
    const bool right =
        found->step == stamp_ && std::count(row_.begin(), row_.end(), value()) == columns;
    std::int64_t wrong = !right;
    group_->all_reduce({&wrong, 1}, Group::Op::sum);
    if (wrong && group_->rank() == 0)
      report.wrong.push_back(cat("wrong values in step ", found->step));
    return found->step;
  }
  CheckpointManager& manager() { return *manager_; }

 private:
  double value() const { return static_cast<double>(10 * stamp_ + group_->rank()); }

  std::shared_ptr<Group> group_;
  Files files_;
  const Case& which_;
  std::string home_;
  std::vector<double> row_ = std::vector<double>(columns);
  std::int64_t stamp_ = 0;
  State state_;
  std::optional<CheckpointManager> manager_;
};

class Stage {
 public:
  Report play(const Case& which) {
    Report report;
    auto disk = copy_of(scene(which));
    auto script = std::make_shared<FaultScript>();
    const auto files = std::make_shared<FaultyFiles>(disk, script);
    std::vector<InjectedFault> faults;
    if (which.fault) faults.push_back(*which.fault);
    std::int64_t least = 3, most = 3;
    Disk then;
    const auto ends = [&] {
      script->end();
      report.operations = script->operations();
      report.happened = script->happened();
      then = copy_of(disk);
    };
    if (which.story == "gc_local" || which.story == "bring_home") {
      script->begin(faults);
      tool(which, files, report);
      ends();
      judge(which, then, 3, 3, "after the fault", report);
      if (const auto said = tool(which, disk, report); !said.empty())
        report.wrong.push_back(cat("again: ", said));
      judge(which, disk, 3, 3, "at the end", report);
      leftovers(which, disk, report);
      return report;
    }
    const bool rebuilds = which.story == "rebuild";
    if (rebuilds) {
      lose(*disk, "/nodes/n2");
      if (which.lost > 1) lose(*disk, "/nodes/n0");
    }
    std::int64_t last = 0;
    try {
      run_threads(ranks,
                  [&](std::shared_ptr<Group> group) {
                    const bool root = group->rank() == 0;
                    Rank rank(group, files, which);
                    std::int64_t mine = 3, perhaps = 3;
                    const auto save = [&] {
                      const auto said = rank.attempt(
                          "the save", [&] { rank.save(mine + 1); }, report);
                      if (said.empty()) {
                        perhaps = ++mine;
                      } else if (says_perhaps(said)) {
                        perhaps = mine + 1;
                      }
                      if (which.story == "flush")
                        rank.attempt(
                            "wait", [&] { rank.manager().wait(); }, report);
                    };
                    if (!rebuilds) {
                      rank.open();
                      rank.restore(report);
                    }
                    group->barrier();
                    if (root) script->begin(faults);
                    group->barrier();
                    if (rebuilds) {
                      if (rank.attempt(
                                  "opening", [&] { rank.open(); }, report)
                              .empty()) {
                        std::int64_t step = -1;
                        rank.attempt(
                            "restoring", [&] { step = rank.restore(report); }, report);
                        // A part that cannot be read counts as one more that is lost; the log tells
                        // of a step that is then left behind.
                        if (step >= 0 && step < 3) mine = step;
                      }
                    } else {
                      for (int i = 0; i < 4; ++i) save();
                    }
                    group->barrier();
                    if (root) least = mine, most = std::max(mine, perhaps), ends();
                    group->barrier();
                    if (!rank.is_open()) rank.open();
                    const auto step = rank.restore(report);
                    if (root && step < mine)
                      report.wrong.push_back(cat("the job restores ", step, " after ", mine));
                    try {
                      rank.save(20);
                    } catch (const Error& error) {  // it was opened without room: docs/state.md
                      if (!rebuilds || error.code() != Code::no_space) throw;
                      rank.open();
                      rank.save(20);
                    }
                    rank.manager().wait();
                    group->barrier();
                    if (root) last = 20;
                  },
                  {.seed = 1});
    } catch (const std::exception& error) {
      report.wrong.push_back(cat("the job ended by ", error.what()));
    }
    if (last == 0) return report;
    if (!report.happened.empty())
      judge(which, then, least, most, "after the fault", report, rebuilds);
    judge(which, disk, last, last, "at the end", report);
    return report;
  }

 private:
  // Makes steps 1 (at home), 2 and 3, and the files that a tool is to remove.
  const Disk& scene(const Case& which) {
    auto& place = scenes_[{which.story, which.lost}];
    if (place) return place;
    place = std::make_shared<io::MemoryFileSystem>();
    Report report;
    for (const std::string home : {"/run", "/other"}) {
      run_threads(ranks,
                  [&](std::shared_ptr<Group> group) {
                    Rank rank(group, place, which, home);
                    rank.open();
                    for (int step = 1; step <= 3; ++step) rank.save(step);
                  },
                  {.seed = 1});
    }
    if (which.story == "gc_local") {
      place->rename("/other", "/gone");
      for (const auto& run : place->list("/nodes/n1")) {
        const auto saves = io::Path("/nodes/n1") / run / "ckpt";
        place->create_directory(saves / "7-unfinished");
        io::write_file(*place, saves / "7-unfinished" / "part-1", "some bytes");
      }
    }
    return place;
  }

  static std::string tool(const Case& which, const Files& files, Report& report) {
    std::string said;
    for (int node = 0; node < ranks; ++node) {
      try {
        if (which.story == "bring_home") {
          flush_node({*files, "/run"}, tier_directory, cat("n", node));
        } else if (node == 1) {
          tidy_node({files, tier_directory}, "n1", false);
        }
      } catch (const Error& error) {
        said = cat("[", code_name(error.code()), "] ", error.what());
        report.heard.push_back(said);
        if (error.code() == Code::internal) report.wrong.push_back(said);
      }
    }
    return said;
  }

  // Checks what a job restores when no node, any one or any two are lost, as many as may be.
  void judge(const Case& which, const Disk& disk, std::int64_t least, std::int64_t most,
             const std::string& when, Report& report, bool as_it_is = false) {
    std::vector<std::vector<int>> losses{{}};
    for (int a = 0; a < ranks && !as_it_is; ++a) {
      losses.push_back({a});
      for (int b = a + 1; which.lost > 1 && b < ranks; ++b) losses.push_back({a, b});
    }
    for (const auto& nodes : losses) {
      const auto one = copy_of(disk);
      std::string told = when;
      for (const int node : nodes) {
        lose(*one, cat("/nodes/n", node));
        told += cat(", without node ", node);
      }
      const auto step = restored(which, one, told, report);
      if (step < least || step > most)
        report.wrong.push_back(cat(told, ": step ", step, " of ", least));
    }
  }

  static std::int64_t restored(const Case& which, const Disk& disk, const std::string& told,
                               Report& report) {
    std::int64_t step = -1;
    try {
      run_threads(ranks,
                  [&](std::shared_ptr<Group> group) {
                    Rank rank(group, disk, which);
                    rank.open();
                    const auto found = rank.restore(report);
                    if (group->rank() == 0) step = found;
                  },
                  {.seed = 1});
    } catch (const std::exception& error) {
      report.wrong.push_back(cat(told, ": the restart ended by ", error.what()));
    }
    return step;
  }

  static void leftovers(const Case& which, const Disk& disk, Report& report) {
    if (which.story == "bring_home") {  // the site takes its nodes
      const auto one = copy_of(disk);
      lose(*one, "/nodes");
      const auto step = restored(which, one, "without nodes", report);
      if (step != 3) report.wrong.push_back(cat("step ", step, " was brought home"));
      return;
    }
    auto runs = disk->list("/nodes/n1");  // an empty directory is harmless
    std::erase_if(runs,
                  [&](const auto& run) { return disk->list(io::Path("/nodes/n1") / run).empty(); });
    if (runs.size() != 1) report.wrong.push_back(cat("the node has ", runs.size(), " runs"));
    for (const auto& run : runs) {
      if (disk->status(io::Path("/nodes/n1") / run / "ckpt" / "7-unfinished"))
        report.wrong.push_back("debris stays");
    }
  }

  std::map<std::pair<std::string, int>, Disk> scenes_;
};

bool is_wanted(const std::string& list, const std::string& name) {
  return list.empty() || cat(",", list, ",").find(cat(",", name, ",")) != std::string::npos;
}

int run(int count, char** arguments) {
  std::string stories, kinds, one, lost;
  std::uint64_t stride = 1, from = 0;
  bool verbose = false;
  CommandLine line("nodes_main.cpp");
  line.text("--stories", stories);
  line.text("--kinds", kinds);
  line.text("--lost", lost);
  line.text("--case", one);
  line.range("--stride", '/', stride, from);
  line.flag("--verbose", verbose);
  line.read(count, arguments);
  if (stride < 1) line.refuse("--stride is at least 1");
  std::set<std::string> names;
  for (const auto kind : fault_kinds()) names.insert(name_of(kind));
  line.check(kinds, names);
  line.check(stories, {"save", "flush", "rebuild", "gc_local", "bring_home"});
  line.check(lost, {"1", "2"});
  set_log_sink({});
  if (verbose) {
    set_log_sink(
        [](LogLevel, std::string_view message) { std::cout << cat("  log: ", message, "\n"); });
  }
  Stage stage;
  std::uint64_t cases = 0, faults = 0, findings = 0, number = 0;
  const auto play = [&](const Case& which) {
    auto report = stage.play(which);
    ++cases;
    faults += report.happened.size();
    findings += !report.wrong.empty();
    if (report.wrong.empty() && !verbose) return report;
    std::string text = cat(text_of(which), ":");
    for (const auto& fault : report.happened) text += cat(" ", fault, ";");
    for (const auto& heard : report.heard) text += cat("\n  heard: ", heard);
    for (const auto& wrong : report.wrong) text += cat("\n  wrong: ", wrong);
    std::cout << cat(text, "\nagain: campaign_nodes --case ", text_of(which), "\n") << std::flush;
    return report;
  };
  if (!one.empty()) {
    const auto slash = one.rfind('/'), at = one.rfind('@'), first = one.find('/');
    if (at == one.npos || first == slash) line.refuse(cat("'", one, "' is no case"));
    Case which{one.substr(0, first), std::atoi(one.c_str() + first + 1)};
    const auto kind = one.substr(slash + 1, at - slash - 1);
    if (kind != "none")
      which.fault = {fault_kind(kind), std::strtoull(one.c_str() + at + 1, nullptr, 10)};
    const auto report = play(which);
    for (std::size_t i = 0; verbose && i < report.operations.size(); ++i) {
      std::cout << cat("  ", i, " ", report.operations[i].kind, " ", report.operations[i].path,
                       "\n");
    }
  }
  for (const std::string story : {"save", "flush", "rebuild", "gc_local", "bring_home"}) {
    for (int nodes = 1; nodes <= 2 && one.empty(); ++nodes) {
      if (!is_wanted(stories, story) || !is_wanted(lost, cat(nodes))) continue;
      const auto operations = play({story, nodes}).operations;
      for (std::size_t at = 0; at < operations.size(); ++at) {
        for (const auto kind : fault_kinds()) {
          if (kind == FaultKind::stuck || !is_wanted(kinds, name_of(kind)) ||
              !applies(kind, operations[at]))
            continue;
          if (number++ % stride == from % stride) play({story, nodes, InjectedFault{kind, at}});
        }
      }
    }
  }
  std::cout << cat("cases ", cases, " faults ", faults, " findings ", findings, "\n");
  return findings > 0;
}

}  // namespace
}  // namespace cairn::campaign

int main(int count, char** arguments) {
  try {
    return cairn::campaign::run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
