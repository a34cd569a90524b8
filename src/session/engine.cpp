#include "session/engine.hpp"

#include <exception>
#include <utility>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "session/open.hpp"
#include "session/restore_steps.hpp"
#include "session/save/key_turns.hpp"
#include "session/save_stages.hpp"
#include "session/schedule/turns.hpp"

namespace cairn {

struct Engine::Impl {
  explicit Impl(Job given) : job(std::move(given)) {
    if (!job.options.trace.empty()) trace = std::make_unique<Trace>(job.rank());
  }

  Job job;
  std::unique_ptr<Store> store = make_store(job, job.options.write.file_system.get());
  Plans plans{job};
  KeyTurns key_turns{job.options.keep.keys};
  Frozen frozen;
  std::unique_ptr<Trace> trace;
  Ledger ledger;
  std::unique_ptr<Turns> turns;
  Elsewhere* elsewhere = nullptr;
  EngineParts parts{job,   *store, plans, key_turns, frozen,
                    trace, ledger, turns, elsewhere, flights};
  Opening opening{parts, job};
  SaveStages stages{parts};
  Saves saves{parts, opening, stages};
  Restorer restorer{parts};
  Flights flights{job};  // ends first: its tasks use what is above
};

Engine::Engine(Job job) : impl_(std::make_unique<Impl>(std::move(job))) {}

Engine::~Engine() {
  const auto& job = impl_->job;
  auto& flights = impl_->flights;
  flights.drain();
  for (const auto& flight : flights.all()) {
    if (flight->asked.is_flush) continue;  // who brought it has told of it
    impl_->stages.landing.tell_unfinished(*flight, LogLevel::error, "the asynchronous save");
  }
  impl_->store->leave(!flights.empty());
  if (!impl_->trace) return;
  try {
    write_trace();
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning,
          cat("the trace of rank ", job.rank(), " is not written: ", error.what()));
    } catch (...) {  // no more than a message is lost
    }
  }
}

const EngineParts& Engine::parts() const { return impl_->parts; }
SaveStages& Engine::stages() { return impl_->stages; }
void Engine::go_by(Elsewhere* elsewhere) { impl_->elsewhere = elsewhere; }

void Engine::meet() const {
  if (impl_->flights.empty()) impl_->parts.calls().meet();
}

void Engine::open(bool may_only_restore) { impl_->opening.open(may_only_restore); }
void Engine::require_writable(const char* what) const { impl_->opening.require_writable(what); }

void Engine::begin_turns() {
  auto& store = *impl_->store;
  impl_->turns = std::make_unique<Turns>(impl_->job, store.history().catalog(),
                                         [&store] { store.check_owner(); });
}

void Engine::take_turn(bool of_save) {
  auto& turns = *impl_->turns;
  const auto& flights = impl_->flights;
  const auto& ledger = impl_->ledger;
  turns.begin_turn(of_save);
  if (turns.hear(!flights.empty())) advance(false);
  if (!turns.asks() && flights.empty()) return;
  const bool in_flight = !flights.empty();
  const bool busy = flights.is_busy();
  if (impl_->job.root() && turns.knows_of() != ledger.count()) {
    turns.learn(ledger.count(), ledger.statistics().last);
  }
  turns.ask(in_flight, busy);
}

void Engine::call_before_save(std::int64_t step) const {
  const auto& callbacks = impl_->job.options.hooks.before_save;
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    together(*impl_->job.group, [&] {
      try {
        callbacks[i](step);
      } catch (...) {
        throw application_error(cat("before-save callback ", i + 1, " of ", callbacks.size()));
      }
    });
  }
}

std::optional<State> Engine::leave_out(const State& state) const {
  return impl_->key_turns.leave_out(*impl_->job.group, state);
}

std::string Engine::save(std::int64_t step, const State& given, const SaveOptions& options) {
  SaveCall call;
  return impl_->saves.run({step, given, options, false, call}).prefix();
}

SaveHandle Engine::save_async(std::int64_t step, const State& given, const SaveOptions& options) {
  SaveCall call;
  return impl_->saves.run({step, given, options, true, call});
}

void Engine::advance(bool wait) { impl_->stages.landing.advance(wait); }
void Engine::throw_earlier_failure() { impl_->flights.throw_earlier_failure(); }

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
