// The members of CheckpointManager. In each, all ranks agree on which call this is; the engine does
// the work.
#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/nodes/node_checkpoints.hpp"
#include "session/objects.hpp"
#include "session/schedule/question_rounds.hpp"
#include "store/directory/marks.hpp"

namespace cairn {

struct CheckpointManager::Impl {
  explicit Impl(Job job) : engine(std::move(job)) {
    if (this->job.options.tier.directory.empty()) return;
    nodes = std::make_unique<NodeCheckpoints>(engine);
    engine.go_by(nodes.get());
  }

  // Collective. What comes before any save.
  void begin_save(std::int64_t step) {
    const auto& options = job.options;
    // Callbacks may call collectives, so ranks must first know that they are all in the same call.
    if (!options.hooks.before_save.empty() || options.store.object_graph) engine.check_entry();
    if (parts.rounds->stop()) clear_way_for_last_save();
    engine.call_before_save(step);
  }

  // Collective. Returns what this save stores; nothing if it is the state as it is.
  std::optional<State> as_stored(std::int64_t step, const State& state) {
    auto stored = engine.leave_out(state);
    if (job.options.store.object_graph) {
      stored = with_object_graph(*job.group, stored ? *stored : state, step, job.row_plans.get());
    }
    return stored;
  }

  // An earlier failure must not prevent the last save before a stop. Its handle and the log have
  // reported it.
  void clear_way_for_last_save() {
    engine.complete_pending();  // otherwise the last save could be skipped
    if (parts.pending_saves.take_earlier_failure() && job.root()) {
      log(LogLevel::warning,
          "the failure of an earlier save is not thrown: the job stops, and saves");
    }
  }

  // The nodes' part refers to the engine, so it comes after it and ends first.
  Engine engine;
  const EngineParts& parts = engine.parts();
  const Job& job = parts.job;
  Store& store = parts.store;              // only rank 0's is used
  std::unique_ptr<NodeCheckpoints> nodes;  // null: no tier on the nodes
};

CheckpointManager::CheckpointManager(std::shared_ptr<Group> group, PathText directory,
                                     ManagerOptions options)
    : impl_(std::make_unique<Impl>(make_job(std::move(group), directory, options.name, options))) {
  auto& self = *impl_;
  collective_call(*self.job.group, "CheckpointManager::CheckpointManager", [&] {
    self.engine.check_entry();
    self.engine.open(true);
    if (self.nodes) self.nodes->open();
    run_and_agree(*self.job.group, [&] { self.engine.begin_turns(); });
    // From here on the same call on another manager counts as a different call.
    self.parts.calls().describe(
        cat(" of '", self.job.naming.name, "' in ", self.job.directory.string()));
  });
}

// In a forked child nothing is ended, since threads, ranks and directory belong to the parent.
CheckpointManager::~CheckpointManager() {
  if (impl_ && impl_->parts.calls().forked()) (void)impl_.release();
}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&& other) noexcept {
  // Ends the old manager by the destructor above, which does nothing in a forked child.
  const CheckpointManager before(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

// -- saving ---------------------------------------------------------------------------------------

std::string CheckpointManager::save(std::int64_t step, const State& state,
                                    const SaveOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return exclusive_call(group, "CheckpointManager::save", [&] {
    const HeldCaller held(self.parts.save_log);
    self.begin_save(step);
    const auto other = self.as_stored(step, state);
    auto prefix = self.engine.save(step, other ? *other : state, options);
    self.parts.rounds->saved(step, false);
    return prefix;
  });
}

SaveHandle CheckpointManager::save_async(std::int64_t step, const State& state,
                                         const SaveOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return exclusive_call(group, "CheckpointManager::save_async", [&] {
    const HeldCaller held(self.parts.save_log);
    self.begin_save(step);
    const auto other = self.as_stored(step, state);
    auto handle = self.engine.save_async(step, other ? *other : state, options);
    // Skipped on all ranks or on none.
    if (handle.stage() != SaveStage::skipped) {
      const bool blocked = !handle.blocked_because().empty();
      self.parts.rounds->saved(step, !blocked || self.parts.pending_saves.has(step));
    }
    return handle;
  });
}

bool CheckpointManager::poll() {
  auto& self = *impl_;
  return exclusive_call(*self.job.group, "CheckpointManager::poll", [&] {
    const HeldCaller held(self.parts.save_log);
    self.engine.advance(false);
    if (self.nodes) self.nodes->advance(false);
    self.engine.throw_earlier_failure();
    return self.parts.pending_saves.empty();
  });
}

void CheckpointManager::wait(Reach reach) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  exclusive_call(group, "CheckpointManager::wait", [&] {
    const HeldCaller held(self.parts.save_log);
    self.engine.complete_pending();
    if (self.nodes) self.nodes->advance(true);
    self.engine.throw_earlier_failure();
    if (!self.nodes) return;
    require_same(group, "the reach", words(reach)[static_cast<std::size_t>(reach)]);
    if (reach != Reach::home) return;
    self.engine.require_writable("bring a checkpoint home");
    self.nodes->bring_newest_home();
  });
}

// -- when to save, when to stop -------------------------------------------------------------------

bool CheckpointManager::should_save(std::int64_t step) {
  auto& self = *impl_;
  return collective_call(*self.job.group, round_call, [&] {
    const HeldCaller held(self.parts.save_log);
    if (self.parts.rounds->round_is_over_for_save()) self.engine.take_round(true);
    return self.parts.rounds->should_save(step);
  });
}

std::optional<StopReason> CheckpointManager::should_stop() {
  auto& self = *impl_;
  return collective_call(*self.job.group, round_call, [&] {
    const HeldCaller held(self.parts.save_log);
    if (self.parts.rounds->round_is_over_for_stop()) self.engine.take_round(false);
    return self.parts.rounds->stop();
  });
}

// -- restoring ------------------------------------------------------------------------------------

std::optional<RestoreReport> CheckpointManager::restore_latest(State& state,
                                                               const RestoreOptions& options) {
  auto& self = *impl_;
  return exclusive_call(*self.job.group, "CheckpointManager::restore_latest", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    // The run continues from another checkpoint than the one that is being copied home.
    if (self.nodes) self.nodes->make_way();
    return self.engine.restore_latest(state, options);
  });
}

RestoreReport CheckpointManager::restore(std::int64_t step, State& state,
                                         const RestoreOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return exclusive_call(group, "CheckpointManager::restore", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    require_same(group, "the step", cat(step));
    if (self.nodes) self.nodes->make_way();
    return self.engine.restore(step, state, options);
  });
}

// -- what is there --------------------------------------------------------------------------------

PathText CheckpointManager::directory() const { return impl_->job.directory; }

CheckpointContents CheckpointManager::open(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return collective_call(group, "CheckpointManager::open", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    require_same(group, "the step", cat(step));
    try {
      return tell_contents(self.job, self.job.prefix(step));
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
      from_root(group, [&]() -> std::string {  // throws if the whole directory is gone
        self.store.look_again();
        return "";
      });
      throw;
    }
  });
}

// Rank 0 lists what the directory has; each rank adds what the nodes have, which all ranks know.
std::vector<StepInfo> CheckpointManager::steps() {
  auto& self = *impl_;
  const Job& job = self.job;
  return collective_call(*job.group, "CheckpointManager::steps", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    const auto message = from_root(*job.group, [&] {
      self.store.look_again();
      auto& catalog = self.store.history().catalog();
      self.store.refresh_pins(catalog);
      const auto live = restorable(catalog);
      Packed<StepInfo> infos;
      for (const auto& entry : catalog) {
        infos.add({entry.step, entry.save.sequence, !live.empty() && live.front() == &entry,
                   entry.superseded, entry.damage, entry.pin != Pin::none, why_passed_over(entry),
                   entry.save.metric});
      }
      return std::move(infos.bytes);
    });
    auto infos = unpack_all<StepInfo>(message);
    if (self.nodes) self.nodes->add_steps(infos);
    return infos;
  });
}

// -- pins and retention ---------------------------------------------------------------------------

void CheckpointManager::pin(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  collective_call(group, "CheckpointManager::pin", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    self.engine.require_writable("pin");
    require_same(group, "the step", cat(step));
    if (self.nodes) self.nodes->bring_step_home(step);
    self.engine.complete_pending();  // a tidying task may hold the lock of the pins
    run_and_agree(group, [&] {
      if (self.job.root()) self.store.pin(step);
    });
  });
}

void CheckpointManager::unpin(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  collective_call(group, "CheckpointManager::unpin", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    self.engine.require_writable("unpin");
    require_same(group, "the step", cat(step));
    run_and_agree(group, [&] {
      if (self.job.root()) self.store.unpin(step);
    });
  });
}

void CheckpointManager::mark(std::int64_t step, StepMark mark) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  collective_call(group, "CheckpointManager::mark", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    self.engine.require_writable("mark");
    require_same(group, "the step and its mark",
                 cat(step, " ", words(mark)[static_cast<std::size_t>(mark)]));
    if (self.nodes) self.nodes->bring_step_home(step);
    self.engine.complete_pending();
    run_and_agree(group, [&] {
      if (self.job.root()) self.store.mark(step, mark);
    });
  });
}

std::vector<RetentionDecision> CheckpointManager::preview_retention(
    std::optional<std::int64_t> next_step, const SaveOptions& next) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return collective_call(group, "CheckpointManager::preview_retention", [&] {
    self.engine.check_entry();
    self.engine.complete_pending();
    require_same(group, "the step", next_step ? cat(*next_step) : "none");
    const auto message = from_root(
        group, [&] { return pack(self.store.preview_retention(next_step, next.metric)); });
    return unpack<std::vector<RetentionDecision>>(message);
  });
}

// -- figures --------------------------------------------------------------------------------------

Statistics CheckpointManager::statistics() const {
  auto all = impl_->parts.save_log.statistics();
  const auto& pending = impl_->parts.pending_saves;
  all.pool_bytes = pending.pool().bytes() + pending.rest_bytes();
  all.pool_most_bytes = pending.pool().most_bytes() + pending.rest_bytes();
  return all;
}

void CheckpointManager::write_trace() const { impl_->engine.write_trace(); }

}  // namespace cairn
