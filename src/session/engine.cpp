// Engine: makes the parts in the order in which they need each other, and passes calls on to them.
#include "session/engine.hpp"

#include <exception>
#include <utility>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "session/open.hpp"
#include "session/restore_steps.hpp"
#include "session/save/key_schedule.hpp"
#include "session/save_stages.hpp"
#include "session/schedule/question_rounds.hpp"

namespace cairn {

struct Engine::Impl {
  explicit Impl(Job given) : job(std::move(given)) {
    if (!job.options.trace.empty()) trace = std::make_unique<Trace>(job.rank());
  }

  Job job;
  std::unique_ptr<Store> store = make_store(job, job.options.write.file_system.get());
  Plans plans{job};
  KeySchedule key_schedule{job.options.keep.keys};
  Frozen frozen;
  std::unique_ptr<Trace> trace;
  SaveLog save_log;
  std::unique_ptr<QuestionRounds> rounds;
  Elsewhere* elsewhere = nullptr;
  // Only references, so it may name pending_saves, which is made later.
  EngineParts parts{job,   *store,   plans,  key_schedule, frozen,
                    trace, save_log, rounds, elsewhere,    pending_saves};
  Opening opening{parts, job};
  SaveStages stages{parts};
  Saves saves{parts, opening, stages};
  Restorer restorer{parts};
  PendingSaves pending_saves{job};  // destroyed first: its tasks use what is above
};

Engine::Engine(Job job) : impl_(std::make_unique<Impl>(std::move(job))) {}

Engine::~Engine() {
  const auto& job = impl_->job;
  auto& pending_saves = impl_->pending_saves;
  pending_saves.drain();
  for (const auto& pending : pending_saves.all()) {
    if (pending->asked.is_flush) continue;  // the code that copied it has reported it
    impl_->stages.completion.tell_unfinished(*pending, LogLevel::error, "the asynchronous save");
  }
  // The files of pending saves stay, so that the next owner can complete these.
  impl_->store->leave(!pending_saves.empty());
  if (!impl_->trace) return;
  try {
    write_trace();
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning,
          cat("the trace of rank ", job.rank(), " is not written: ", error.what()));
    } catch (...) {  // only a message is lost
    }
  }
}

const EngineParts& Engine::parts() const { return impl_->parts; }
SaveStages& Engine::stages() { return impl_->stages; }
void Engine::go_by(Elsewhere* elsewhere) { impl_->elsewhere = elsewhere; }

void Engine::check_entry() const {
  // With pending saves the call goes on to advance(), which begins with the entry check.
  if (impl_->pending_saves.empty()) impl_->parts.calls().check_entry();
}

void Engine::open(bool may_only_restore) { impl_->opening.open(may_only_restore); }
void Engine::require_writable(const char* what) const { impl_->opening.require_writable(what); }

void Engine::begin_turns() {
  auto& store = *impl_->store;
  impl_->rounds = std::make_unique<QuestionRounds>(impl_->job, store.history().catalog(),
                                                   [&store] { store.check_owner(); });
}

// Hears the answers of the last round, moves pending saves on if no rank is busy, and begins the
// next round. Called by should_save and should_stop, so that a program that calls only these
// completes its saves, too.
void Engine::take_round(bool of_save) {
  auto& rounds = *impl_->rounds;
  const auto& pending_saves = impl_->pending_saves;
  const auto& save_log = impl_->save_log;
  rounds.begin_round(of_save);
  if (rounds.hear(!pending_saves.empty())) advance(false);
  if (!rounds.asks() && pending_saves.empty()) return;
  const bool has_pending = !pending_saves.empty();
  const bool busy = pending_saves.is_busy();
  // statistics() copies all figures, so it is asked only after a new save.
  if (impl_->job.root() && rounds.knows_of() != save_log.count()) {
    rounds.learn(save_log.count(), save_log.statistics().last);
  }
  rounds.ask(has_pending, busy);
}

void Engine::call_before_save(std::int64_t step) const {
  const auto& callbacks = impl_->job.options.hooks.before_save;
  // Ranks agree after each callback, since the next one may be collective.
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    run_and_agree(*impl_->job.group, [&] {
      try {
        callbacks[i](step);
      } catch (...) {
        throw application_error(cat("before-save callback ", i + 1, " of ", callbacks.size()));
      }
    });
  }
}

std::optional<State> Engine::leave_out(const State& state) const {
  return impl_->key_schedule.leave_out(*impl_->job.group, state);
}

std::string Engine::save(std::int64_t step, const State& given, const SaveOptions& options) {
  SaveCall call;
  return impl_->saves.run({step, given, options, false, call}).prefix();
}

SaveHandle Engine::save_async(std::int64_t step, const State& given, const SaveOptions& options) {
  SaveCall call;
  return impl_->saves.run({step, given, options, true, call});
}

void Engine::advance(bool wait) { impl_->stages.completion.advance(wait); }
void Engine::throw_earlier_failure() { impl_->pending_saves.throw_earlier_failure(); }

std::optional<RestoreReport> Engine::restore_latest(State& state, const RestoreOptions& options) {
  return impl_->restorer.restore_latest(state, options);
}

RestoreReport Engine::restore(std::int64_t step, State& state, const RestoreOptions& options) {
  return impl_->restorer.restore(step, state, options);
}

void Engine::write_trace() const {
  const auto& job = impl_->job;
  if (!impl_->trace) {
    throw Error(Code::invalid_argument, "no trace was kept", "", "Set ManagerOptions::trace.");
  }
  const io::Path path = trace_file(job.options.trace, job.rank());
  io::replace_file(*job.files, path, impl_->trace->json(),
                   cat(path.string(), ".tmp-", commit::new_uuid()));
}

}  // namespace cairn
