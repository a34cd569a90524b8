// The stages of a save before its bytes (save.cpp): advance, plan, prepare.
#include "session/save_stages.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/save/agree_on_save.hpp"
#include "session/save/join_descriptions.hpp"
#include "session/save/key_schedule.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

namespace {

// All bits as text, so that ranks can agree on NaN, too.
std::string metric_text(const std::optional<double>& metric) {
  if (!metric) return "none";
  return cat(*metric,
             std::isnan(*metric) ? "" : cat(", bits ", std::bit_cast<std::uint64_t>(*metric)));
}

// What rank 0 tells of a save that begins.
struct Begun {
  DraftId id;
  std::string parts;
};

}  // namespace

// With a limit, an operation that the storage still holds must touch no memory of the application.
Until stays_until(const Job& job, const SaveOptions& options) {
  return job.options.write.storage_limit_seconds > 0 ? Until::captured : options.until;
}

// Deals with a save whose bytes are still being written. Returns whether a new one may begin.
bool Planning::make_way() {
  completion_.advance(false);
  // The same on all ranks: advance() merges a save on all of them or on none.
  if (!pending_saves.is_writing()) return true;
  switch (job.options.async.when_busy) {
    case WhenBusy::wait:
      while (pending_saves.is_writing()) {
        pending_saves.wait_until_idle();
        completion_.advance(false);
      }
      return true;
    case WhenBusy::skip:
      return false;
    case WhenBusy::replace:
      break;
  }
  auto& pending = pending_saves.last();
  // The writing thread looks at this between entries, and leaves no record if it sees it. If it has
  // left one already, withdraw() below makes that one void.
  pending.cancelled = true;
  pending.handle->idle.wait(false);
  // A save that has failed need not be cancelled: it ends like other failed saves.
  // Ranks must take the same branch, since the two send different messages.
  if (any_of(*job.group, pending.failure != nullptr)) {
    completion_.advance(true);
    return true;
  }
  // The cancelled save must never be committed, whether or not it can be removed.
  save_log.held(pending.handle->window.held_seconds());
  const bool gone =
      completion_.withdraw(&pending.prepared.value().draft, false, false) == Store::Withdrawn::gone;
  if (gone) save_log.replaced();
  const auto step = pending.asked.step;
  const Error stays(
      Code::io, cat("step ", step, " was to give way to a later save, but could not be removed"),
      "", "Try again: until another save commits, a restart may still complete it.");
  if (!gone) {
    save_log.failed();
    pending.handle->fail(stays);
  }
  // The cancelled save may have been the full one from which the schedule counts.
  key_schedule.begin_anew();
  completion_.change(pending, gone ? SaveStage::replaced : SaveStage::failed);
  pending_saves.retire_last();
  if (!gone) throw Error(stays);
  return true;
}

// Asks all ranks whether they can use the plan of the last save. `quick`: also without reading the
// directory.
PlanSum Planning::ask_for_plan(const SaveRequest& request, const RefreshedState& state,
                               bool quick) {
  const auto kept = plans.kept();
  // An error on one rank counts as a miss. The full plan finds the same error and throws it on all
  // ranks.
  bool may = kept != nullptr && !request.options.policy;
  if (may && quick) try {
      may = is_quick(*kept, request.step);
    } catch (...) {
      current_error();
      may = false;
    }
  auto sum = plans.ask(request.step, state, request.options, may);
  if (quick && sum.fits()) {
    bool can = false;
    try {
      // reserve_again() cannot report a failure, so the pool must be large enough already.
      can = pending_saves.pool().bytes() >=
            kept->copy_bytes(state, stays_until(job, request.options));
      // Only rank 0 fills the slots of the draft, so that the sum over ranks is its id.
      if (can && job.root()) offer_draft(sum);
    } catch (...) {
      current_error();
      can = false;
    }
    // The miss tells all ranks to plan anew.
    if (!can) {
      sum = {};
      sum[PlanSum::misses] = 1;
    }
  }
  // The sum is also the entry check of this call, so it costs no message of its own.
  static_assert(PlanSum::slots <= CallGroup::room);
  calls().check_entry(sum.values);
  return sum;
}

// Uses the last plan if all ranks can, otherwise makes one. There are three ways: the last plan and
// rank 0's id, both from one sum (`quick`); the last plan, and a message in prepare(); a new plan.
PlannedSave Planning::plan(const SaveRequest& request, const RefreshedState& state) {
  const auto& [step, given, options, background, call] = request;
  const auto kept = plans.kept();
  const bool quick = background && kept && kept->again == SavePlan::Again::alone;
  auto sum = ask_for_plan(request, state, quick);
  PlannedSave planned;
  planned.again = sum.agreed();
  if (planned.again) planned.descriptions = plans.descriptions(state, options);
  if (planned.again) planned.resolved = plans.with_fills(state);
  if (planned.again && quick) {
    planned.plan = kept;
    planned.id = sum.offered();
    planned.id->step = step;
    store.use(*planned.id);
    return planned;
  }
  // If the sum agreed, it has compared step and options already.
  if (!planned.again) require_step(step, options);
  // Whether this save would replace a checkpoint is known only when the pending save of the same
  // step has ended.
  if (pending_saves.has(step)) {
    completion_.advance(true);
    pending_saves.throw_earlier_failure_instead_of(step);
    planned.again = planned.again && plans.kept();  // on all ranks: a failure has ended the plan
  }
  if (planned.again) {
    // Copied, since the offsets in an HDF5 file may differ from save to save.
    planned.plan = background ? std::make_shared<SavePlan>(*plans.kept()) : plans.kept();
    return planned;
  }
  auto made = plans.make_anew(state, options, agree_on_policy(options));
  // A policy that was given for one save must not serve the next.
  if (options.policy) plans.forget();
  planned.plan = std::move(made.plan);
  planned.resolved = std::move(made.resolved);
  planned.descriptions = std::move(made.descriptions);
  return planned;
}

// Whether this rank could save with this plan and without reading the directory. This is only for a
// new step, with nothing to replace and no failed save to withdraw. Rank 0 must leave a part
// record; otherwise a recovery could complete a save that rank 0 did not finish.
bool Planning::is_quick(const SavePlan& plan, std::int64_t step) const {
  if (!job.options.hooks.savers.empty() || !plan.capture.made() || pending_saves.has(step)) {
    return false;
  }
  return !job.root() || (plan.layout.writer >= 0 && store.is_simple(step, plan.layout.data_files));
}

// Rank 0. Adds the save's number and name to the sum, which tells them to all ranks.
void Planning::offer_draft(PlanSum& sum) {
  auto id = store.offer(plans.kept()->layout.data_files);
  id.step = 0;  // the same for all, so not in the sum
  id.parent = parent_at_home();
  id.time = now_seconds();
  sum.offer(id);
}

// Collective. Returns the policy of this save, or that of the manager.
Sharding Planning::agree_on_policy(const SaveOptions& options) {
  if (!options.policy) return job.sharding;
  Sharding sharding{options.policy};
  const auto parameters = run_and_agree(*job.group, [&] {
    sharding.description = options.policy->description();
    return options.policy->parameters().value_or("none that it states");
  });
  require_same(*job.group, "the sharding policy", sharding.description);
  require_same(*job.group, "the parameters of the sharding policy", parameters);
  if (job.root()) warn_of_policy(job, sharding);
  return sharding;
}

void Planning::require_step(std::int64_t step, const SaveOptions& options) const {
  require_same(*job.group, "the step", cat(step));
  require_same(*job.group, "SaveOptions",
               {{"metric", metric_text(options.metric)},
                {"policy", options.policy ? "given" : "none"},
                {"overwrite", options.overwrite ? "true" : "false"},
                {"until", words(options.until)[static_cast<std::size_t>(options.until)]}});
  if (commit::may_be_saved(step)) return;
  throw Error(Code::invalid_argument,
              cat("step ", step, step < 0 ? " is negative" : " is too high"), "",
              cat("Steps go from 0 to ", commit::staging_step - 1, "."));
}

// Rank 0. parent(): the sequence of the checkpoint that a new save descends from. parent_at_home():
// that of its last ancestor in the directory.
std::int64_t Planning::parent() const {
  // A save on the nodes may be later than the pending one.
  return pending_saves.empty() ? store.history().head()
                               : std::max(store.history().head(), pending_saves.last().sequence);
}

std::int64_t Planning::parent_at_home() const {
  return pending_saves.empty()
             ? store.history().parent_here()
             : std::max(store.history().parent_here(), pending_saves.last().sequence);
}

// Collective. Rank 0 begins the save in the store and sends its id; the other ranks make the same
// draft from the id, without looking at the directory.
Prepared Planning::prepare(const PendingSave& pending, bool records, bool may_overwrite,
                           const CheckpointMeta* origin) {
  std::optional<Draft> mine;  // rank 0
  const auto message = from_root(*job.group, [&] {
    pending_saves.drain();  // a tidying may still be reporting
    mine = store.begin_save({.step = pending.asked.step,
                             .data_files = pending.layout.data_files,
                             .bytes = pending.layout.total_bytes,
                             .records = records,
                             .alone = pending_saves.empty(),
                             .background = pending.asked.background,
                             .sequence = origin ? origin->sequence : -1,
                             .may_overwrite = may_overwrite,
                             .slot = pending.slot,
                             .shares = pending.layout.frozen_files > 0
                                           ? std::optional(frozen.sequence())
                                           : std::nullopt});
    mine->descends_from(
        origin ? store.history().parent_here(origin->sequence, origin->parent) : parent_at_home(),
        now_seconds());
    const auto in_parts = pending.plan->dense.files_in_parts(pending.layout.dense_file);
    if (!in_parts.empty()) mine->begin_parts(in_parts);
    return pack(Begun{mine->id(), mine->tell()});
  });
  const auto [id, told] = unpack<Begun>(message);
  auto draft = mine ? *std::move(mine) : store.join(id);
  if (!job.root()) draft.hear(told);
  return {std::move(draft), meta_of_save(job, id, pending.plan->sharding)};
}

}  // namespace cairn
