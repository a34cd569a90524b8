// What verify and restarts find in damaged directories.
#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "lab/campaigns/programs/codecs.hpp"
#include "lab/campaigns/programs/flip_case.hpp"
#include "store/directory/named_checkpoint.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn::campaign {
namespace {

constexpr std::int64_t later_stamp = 9000;

// Counts the library's warnings while it lives.
class Warnings {
 public:
  explicit Warnings(bool with_info) : with_info_(with_info) {
    set_log_sink([this](LogLevel level, std::string_view message) {
      if (level == LogLevel::info && !with_info_) return;
      const std::lock_guard guard(mutex_);
      all_ += cat("\n    warning: ", message);
    });
  }
  ~Warnings() { set_log_sink({}); }
  std::string text() {
    const std::lock_guard guard(mutex_);
    return all_;
  }

 private:
  bool with_info_;
  std::mutex mutex_;
  std::string all_;
};

// Does what `cairn verify /run` does. Returns whether it names the damage; that of another
// checkpoint would not count.
bool is_named(io::FileSystem& disk, const Damage& damage, std::string& told) {
  bool named = false;
  const auto concerns = [&](const std::string& prefix) {
    for (const auto& file : {damage.file, damage.other}) {
      if (file.starts_with(prefix + ".") || file.starts_with(prefix + "_")) return true;
    }
    return false;
  };
  try {
    for (const auto& prefix : resolve_checkpoints({disk, "/run"})) {
      const auto checked = verify_checkpoint(prefix);
      for (const auto& finding : checked.findings) {
        told += cat("\n    verify ", prefix.string(), ": ", finding.what);
      }
      if (checked.verdict() != Verdict::whole && concerns(prefix.string())) named = true;
    }
  } catch (const Error& error) {
    told += cat("\n    verify: ", error.what());
    named = true;
  }
  return named;
}

struct Look {
  const Home& home;
  std::shared_ptr<io::MemoryFileSystem> disk;
  bool named;        // by verify
  bool uncommitted;  // a save in flight is damaged
  int ranks = 1;
  ManagerOptions options = {};
  bool saves_more = false;
  unsigned salt = 0;
  // Results on rank 0.
  std::set<std::int64_t> sound = {};  // steps that were restored rightly
  std::int64_t newest = -1;           // what restore_latest gave
  bool passed_over = false;           // it said so
  std::int64_t saved = -1;
  Outcome outcome = {};
};

class Rank {
 public:
  Rank(Look& look, std::shared_ptr<Group> group)
      : look_(look), group_(std::move(group)), mine_(group_, look.home.shape) {}

  void run() {
    std::optional<CheckpointManager> manager;
    if (!attempt("opening", [&] { manager.emplace(group_, "/run", look_.options); })) return;
    restore_newest(*manager);
    std::vector<StepInfo> steps;
    if (!attempt("steps", [&] { steps = manager->steps(); })) return;
    for (const auto& one : steps) {
      if (expected(one.step) == 0) wrong(cat("step ", one.step, " is listed and was never saved"));
      const bool pinned = look_.home.pinned.count(one.step) != 0;
      if (pinned && !one.pinned) wrong(cat("step ", one.step, " is pinned no more"));
    }
    for (const auto& [step, stamp] : look_.home.saved) restore(*manager, step);
    if (look_.saved >= 0) restore(*manager, look_.saved);
    if (look_.saves_more) save(*manager);
  }

 private:
  bool root() const { return group_->rank() == 0; }
  void wrong(const std::string& what) {
    if (root()) look_.outcome.wrong += cat("\n    ", what);
  }
  std::int64_t expected(std::int64_t step) const {
    if (step == look_.saved) return later_stamp;
    const auto at = look_.home.saved.find(step);
    return at == look_.home.saved.end() ? 0 : at->second;
  }
  bool may_be_missing(std::int64_t step) const {
    const bool pends = step == look_.home.pending;
    return look_.named || (pends && (look_.uncommitted || look_.options.read_only));
  }

  // Checks that an error was named, and tells what it is about.
  template <class F>
  bool attempt(const std::string& what, F&& call, bool may_fail = false) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      if (root()) ++look_.outcome.refused;
      const bool clear = error.code() != Code::internal && error.code() != Code::invalid_argument;
      if (clear && (look_.named || may_fail)) return false;
      wrong(cat(what, " fails with [", code_name(error.code()), "] ", error.what()));
      return false;
    }
  }

  // Collective. Whether memory has the values of that step and nothing else.
  bool is_right(std::int64_t step) {
    const auto problem = mine_.problem();
    if (problem.empty() && mine_.stamp() == expected(step)) {
      if (root()) ++look_.outcome.restores;
      return true;
    }
    wrong(cat("WRONG VALUES: step ", step, " restores as stamp ", mine_.stamp(), " ", problem));
    return false;
  }

  void restore_newest(CheckpointManager& manager) {
    mine_.spoil();
    std::optional<RestoreReport> report;
    if (!attempt("restoring the newest", [&] { report = manager.restore_latest(mine_.state()); })) {
      return;
    }
    if (!report) return wrong("the restart finds nothing and begins anew");
    is_right(report->step);
    if (!root()) return;
    look_.newest = report->step;
    look_.passed_over = !report->skipped.empty();
  }

  void restore(CheckpointManager& manager, std::int64_t step) {
    mine_.spoil();
    const auto what = cat("restoring step ", step);
    if (!attempt(
            what, [&] { manager.restore(step, mine_.state()); }, may_be_missing(step)))
      return;
    if (is_right(step) && root()) look_.sound.insert(step);
  }

  void save(CheckpointManager& manager) {
    const auto step = std::max(look_.home.saved.rbegin()->first, look_.home.newest) + 1;
    mine_.fill(later_stamp);
    const bool done = attempt("one more save", [&] { manager.save(step, mine_.state()); });
    if (done && root()) look_.saved = step;
  }

  Look& look_;
  std::shared_ptr<Group> group_;
  StampedState mine_;
};

void run(Look& look) {
  ThreadOptions threads;
  threads.seed = static_cast<unsigned>(look.home.seed) * 13 + look.salt;
  try {
    run_threads(
        look.ranks, [&](std::shared_ptr<Group> group) { Rank(look, std::move(group)).run(); },
        threads);
  } catch (const std::exception& error) {
    look.outcome.wrong += cat("\n    the restart ended by ", error.what());
  }
}

void choose(Look& look, Random& random, bool hdf5) {
  look.ranks = random.between(1, 3);
  auto& options = look.options;
  options.write.file_system = look.disk;
  options.keep.last = 0;
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  options.write.atomic_rename = !look.home.direct;
  options.restore.verify_first = random.one_in(4);
  if (hdf5 && !look.home.direct && random.one_in(3)) {
    options.store.format = Format::hdf5;
    options.store.codec = choose_codec(random);
  }
}

}  // namespace

Outcome look_at_damage(const Home& home, std::shared_ptr<io::MemoryFileSystem> disk,
                       const Damage& damage, Random& random, bool hdf5, bool blind) {
  Outcome outcome;
  std::string told;
  outcome.named = is_named(*disk, damage, told) && !blind;
  const auto is_of = [&](const char* part) {
    return damage.file.find(part) != damage.file.npos ||
           damage.other.find(part) != damage.other.npos;
  };
  const bool uncommitted = home.pending >= 0 && (is_of("_temp_") || is_of(".part_") ||
                                                 is_of(cat("/ckpt-", home.pending, ".").c_str()));
  // A part record with a wrong checksum looks like one of a job that died while it wrote it.
  const bool by_record = is_of("/record-") || is_of("/index");
  std::string warnings;
  const auto look_once = [&](Look& look) {
    choose(look, random, hdf5);
    look.salt = static_cast<unsigned>(random.below(1000));
    Warnings heard(uncommitted && by_record);
    run(look);
    const auto text = heard.text();
    warnings += text;
    const auto best = look.saved >= 0 && !look.saves_more            ? look.saved
                      : home.pending >= 0 && !look.options.read_only ? home.pending
                                                                     : home.newest;
    if (look.newest >= 0 && look.newest != best) {
      const bool aloud = look.passed_over || !text.empty();
      const bool allowed = look.named || (uncommitted && best == home.pending);
      if (!aloud || !allowed) {
        look.outcome.wrong += cat("\n    step ", look.newest, " is the newest, and not ", best,
                                  aloud ? "" : ", without a word");
      }
    }
    outcome.restores += look.outcome.restores;
    outcome.refused += look.outcome.refused;
    outcome.wrong += look.outcome.wrong;
  };
  Look first{home, disk, outcome.named, uncommitted};
  first.options.read_only = random.one_in(4);
  first.saves_more = !first.options.read_only && random.one_in(2);
  look_once(first);
  if (first.saved >= 0) {
    Look second{home, disk->crash(disk->operation_count(), {.keep = false}), outcome.named,
                uncommitted};
    second.saved = first.saved;
    look_once(second);
    for (const auto step : first.sound) {
      if (!second.sound.count(step)) {
        outcome.wrong += cat("\n    step ", step, " is gone after one more save");
      }
    }
  }
  if (!outcome.wrong.empty()) outcome.wrong += told + warnings;
  return outcome;
}

}  // namespace cairn::campaign
