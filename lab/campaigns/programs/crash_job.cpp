#include "lab/campaigns/programs/crash_job.hpp"

#include <functional>
#include <optional>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "lab/campaigns/programs/crash_errand.hpp"
#include "testing/crash.hpp"
#include "testing/threads.hpp"

namespace cairn::campaign {
namespace {

using Kind = Action::Kind;

// One rank of a job.
class Rank {
 public:
  Rank(const Scene& scene, const Process& process, int number, bool contended,
       std::shared_ptr<test::ProcessFiles> files, std::shared_ptr<Group> group)
      : scene_(scene),
        process_(process),
        number_(number),
        contended_(contended),
        files_(std::move(files)),
        group_(std::move(group)),
        mine_(group_, scene.plan->shape) {}

  void run() {
    prepare(0, process_.at_opening);
    if (!attempt("opening", [&] {
          manager_.emplace(group_, "/run", options_of(*scene_.plan, process_, files_));
        })) {
      return;
    }
    if (process_.at_opening && root()) scene_.ledger->forgive();
    if (!process_.begins_anew) restore_newest();
    for (std::size_t i = 0; i < process_.actions.size(); ++i) {
      const auto& action = process_.actions[i];
      prepare(static_cast<int>(i) + 1, action.mishap);
      stamp_ = (number_ + 1) * 100 + static_cast<std::int64_t>(i) + 1;
      act(action);
      note_handles();
      count_saves();
    }
    prepare(-2, {});
    manager_.reset();
    note_handles();
  }

 private:
  bool root() const { return group_->rank() == 0; }
  std::size_t now() const { return scene_.disk->operation_count(); }

  // Sets the mishap that the process meets from here on.
  void prepare(int number, const std::optional<test::Mishap>& mishap) {
    group_->barrier();
    if (root()) {
      files_->disarm();
      quiet_ = files_->mishaps() == 0 && !contended_;
      if (mishap) files_->arm(*mishap);
      if (number == process_.stop_action) {
        if (contended_) {
          files_->pause_after(process_.stop);
        } else {
          files_->kill_after(process_.stop);
        }
      }
    }
    std::int64_t quiet = quiet_;
    group_->all_reduce({&quiet, 1}, Group::Op::min);
    quiet_ = quiet != 0;
  }

  // Makes a call; returns whether it did what it should. All ranks must get the same error.
  template <class F>
  bool attempt(const std::string& what, F&& call) {
    error_.reset();
    try {
      call();
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      error_ = error;
    }
    const auto hash = error_ ? std::int64_t{crc32c(error_->what())} + 1 : 0;
    std::int64_t ends[] = {hash, -hash};
    group_->all_reduce(ends, Group::Op::max);
    if (ends[0] != -ends[1] && root()) {
      scene_.findings->add(
          cat(what, " ended differently on ranks, on rank 0: ", error_ ? error_->what() : "well"));
    }
    if (error_ && root()) explain(what);
    return !error_;
  }

  // Checks that an error has a reason.
  void explain(const std::string& what) {
    const bool is_pinned = std::string_view(error_->what()).find("is pinned") != std::string::npos;
    const bool refused =
        error_->code() == Code::already_exists && (!process_.overwrite || is_pinned);
    if (refused || contended_ || files_->mishaps() > 0) return;
    scene_.findings->add(cat("process ", number_, ": ", what, " failed for no reason: [",
                             code_name(error_->code()), "] ", error_->what()));
  }

  void restore_newest() {
    std::optional<RestoreReport> report;
    mine_.spoil();
    if (!attempt("restoring the newest", [&] { report = manager_->restore_latest(mine_.state()); }))
      return;
    if (report) took(report->step);
  }

  // Checks that what was restored is whole; the program goes on from there.
  void took(std::int64_t step) {
    const auto wrong = mine_.problem();
    if (!wrong.empty() && root()) {
      scene_.findings->add(cat("process ", number_, " restored step ", step, ", which is ", wrong));
    }
    step_ = step;
    if (root()) scene_.ledger->restored(number_, mine_.stamp(), now());
  }

  void save(std::int64_t step, bool async, Until until = Until::captured) {
    mine_.fill(stamp_);
    if (root()) ++*scene_.saves;
    scene_.ledger->begin(number_, stamp_, step, process_.max_to_keep, now());
    std::optional<SaveHandle> handle;
    const bool done = attempt("save", [&] {
      if (async) {
        handle = manager_->save_async(step, mine_.state(), {.until = until});
        handle->release();
      } else {
        manager_->save(step, mine_.state());
      }
    });
    if (done && !async) scene_.ledger->committed(stamp_, now());
    if (!done) scene_.ledger->failed(stamp_, &*error_, now());
    if (done) step_ = step;
    if (handle) handles_.emplace_back(stamp_, *handle);
    note_handles();
    mine_.spoil();  // the captured values stay
  }

  void note_handles() {
    for (const auto& [stamp, handle] : handles_) {
      switch (handle.stage()) {
        case SaveStage::captured:
          break;
        case SaveStage::written:
          scene_.ledger->written(stamp, group_->rank(), group_->size(), now());
          break;
        case SaveStage::committed:
          scene_.ledger->committed(stamp, now());
          break;
        case SaveStage::skipped:
        case SaveStage::replaced:
          scene_.ledger->replaced(stamp, now());
          break;
        case SaveStage::failed: {
          const auto error = handle.error();
          scene_.ledger->failed(stamp, error ? &*error : nullptr, now());
          break;
        }
      }
    }
  }

  // Jobs are too short for any of their saves to be forgotten.
  void count_saves() {
    if (!root()) return;
    const auto saves = manager_->statistics().last;
    for (; counted_ < saves.size(); ++counted_) {
      *scene_.unchanged += saves[counted_].unchanged_bytes;
      if (process_.codec != StoreCodec::none) ++*scene_.encoded;
    }
  }

  void go_back(int choice) {
    std::vector<StepInfo> steps;
    if (!attempt("steps", [&] { steps = manager_->steps(); }) || steps.empty()) return;
    const auto step = steps[static_cast<std::size_t>(choice) % steps.size()].step;
    mine_.spoil();
    if (attempt("restore", [&] { manager_->restore(step, mine_.state()); })) took(step);
  }

  // Two owners may each believe that they know which steps exist.
  void pin(int choice) {
    std::vector<StepInfo> steps;
    if (contended_ || !attempt("steps", [&] { steps = manager_->steps(); }) || steps.empty())
      return;
    const auto step = steps[static_cast<std::size_t>(choice) % steps.size()].step;
    if (!attempt("pin", [&] { manager_->pin(step); }) || !root()) return;
    scene_.ledger->pinned(stamp_of(*scene_.plan, scene_.disk, step), now());
  }

  void unpin(int choice) {
    std::vector<StepInfo> steps;
    if (contended_ || !attempt("steps", [&] { steps = manager_->steps(); }) || steps.empty())
      return;
    const auto step = steps[static_cast<std::size_t>(choice) % steps.size()].step;
    if (root()) scene_.ledger->unpins(step, now());
    attempt("unpin", [&] { manager_->unpin(step); });
  }

  void act(const Action& action) {
    const auto next = step_ + 1 + action.choice % 5;
    switch (action.kind) {
      case Kind::save:
        return save(next, false);
      case Kind::save_again:
        return save(step_, false);
      case Kind::save_async:
        return save(next, true, action.choice % 2 == 0 ? Until::captured : Until::released);
      case Kind::save_async_again:
        return save(step_, true);
      case Kind::poll:
        attempt("poll", [&] { manager_->poll(); });
        return;
      case Kind::wait:
        attempt("wait", [&] { manager_->wait(); });
        return;
      case Kind::go_back:
        return go_back(action.choice);
      case Kind::look:
        return look_around();
      case Kind::pin:
        return pin(action.choice);
      case Kind::unpin:
        return unpin(action.choice);
    }
  }

  void look_around() {
    if (!quiet_) return restore_newest();
    std::string wrong;
    Found found;
    if (!attempt("a look", [&] { found = look(*manager_, mine_, *group_, wrong); })) return;
    note_handles();
    if (!found.steps.empty()) step_ = found.steps.back().step;
    if (!root() || files_->mishaps() > 0) return;
    wrong += scene_.ledger->judge(found, now());
    if (!wrong.empty()) scene_.findings->add(cat("process ", number_, " sees:", wrong));
    scene_.ledger->looked(found, now(), true);
    scene_.ledger->restored(number_, found.newest, now());
  }

  const Scene& scene_;
  const Process& process_;
  int number_;
  bool contended_;
  std::shared_ptr<test::ProcessFiles> files_;
  std::shared_ptr<Group> group_;
  StampedState mine_;
  std::optional<CheckpointManager> manager_;
  std::optional<Error> error_;
  std::vector<std::pair<std::int64_t, SaveHandle>> handles_;
  std::int64_t stamp_ = 0, step_ = 0;
  std::size_t counted_ = 0;  // saves
  bool quiet_ = true;        // nothing has happened that a look must allow for
};

}  // namespace

void Findings::add(std::string text) {
  const std::lock_guard guard(mutex_);
  all_.push_back(std::move(text));
}
std::vector<std::string> Findings::take() {
  const std::lock_guard guard(mutex_);
  return std::exchange(all_, {});
}
bool Findings::empty() const {
  const std::lock_guard guard(mutex_);
  return all_.empty();
}

ManagerOptions options_of(const Plan& plan, const Process& process,
                          std::shared_ptr<io::FileSystem> files) {
  ManagerOptions options;
  options.write.file_system = std::move(files);
  options.keep.last = process.max_to_keep;
  options.store.format = process.format;
  options.store.codec = process.codec;
  options.restore.tries = 1000;  // so often jobs end without a newer step, which is no step's fault
  options.overwrite = process.overwrite;
  options.write.recycle = process.recycle;
  options.write.skip_unchanged = SkipUnchanged::on;
  options.write.part_records = process.records;
  options.write.owner_wait_seconds = 0;
  options.write.chunk_bytes = 4096;
  if (process.io_ranks > 0) {
    options.write.io_ranks = IoRanks::count(process.io_ranks);
    options.write.io_ranks.joined = (process.io_ranks + process.ranks) % 2 == 1;
  }
  options.write.atomic_rename = !plan.direct;
  options.async.when_busy = process.when_busy;
  options.async.queue = plan.threads ? thread_queue() : inline_queue();
  return options;
}

void run_ranks(const Plan& plan, int ranks, unsigned salt,
               const std::function<void(std::shared_ptr<Group>)>& body) {
  if (ranks == 1) return body(serial_group());
  ThreadOptions threads;
  if (!plan.threads) threads.seed = static_cast<unsigned>(plan.seed) * 31 + salt;
  run_threads(ranks, body, threads);
}

void run_process(const Scene& scene, const Process& process, int number, bool contended,
                 const std::shared_ptr<test::ProcessFiles>& files) {
  try {
    run_ranks(*scene.plan, process.ranks, static_cast<unsigned>(number),
              [&](std::shared_ptr<Group> group) {
                Rank(scene, process, number, contended, files, std::move(group)).run();
              });
  } catch (const Crashed&) {
  } catch (const std::exception& error) {
    scene.findings->add(cat("process ", number, " ended by ", error.what()));
  }
  if (files->mishaps() > 0) scene.ledger->forgive(number);
  files->end();
}

Found look(CheckpointManager& manager, StampedState& mine, Group& group, std::string& wrong) {
  Found found;
  const auto newest = [&] {
    mine.spoil();
    const auto report = manager.restore_latest(mine.state());
    if (!report) return std::int64_t{0};
    if (const auto problem = mine.problem(); !problem.empty()) wrong += cat(" ", problem, ";");
    for (const auto& one : report->skipped) wrong += cat(" passed over: ", one, ";");
    return mine.stamp();
  };
  found.newest = newest();
  const auto steps = manager.steps();
  for (const auto& info : steps) {
    if (!info.damage.empty()) wrong += cat(" step ", info.step, " is damaged: ", info.damage, ";");
    mine.spoil();
    try {
      manager.restore(info.step, mine.state());
      if (const auto problem = mine.problem(); !problem.empty()) {
        wrong += cat(" step ", info.step, " is ", problem, ";");
      }
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      wrong += cat(" step ", info.step, " is listed and cannot be restored: ", error.what(), ";");
    }
    found.steps.push_back({info.step, mine.stamp()});
  }
  newest();
  group.barrier();
  return found;
}

}  // namespace cairn::campaign
