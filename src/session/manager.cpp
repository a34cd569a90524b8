// CheckpointManager, member by member: each agrees with the other ranks on which call this is, and
// leaves the work to the engine.
#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/objects.hpp"
#include "store/directory/pins.hpp"

namespace cairn {

struct CheckpointManager::Impl : Engine {
  using Engine::Engine;
};

CheckpointManager::CheckpointManager(std::shared_ptr<Group> group, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(std::make_unique<Impl>(make_job(std::move(group), directory, options.name, options))) {
  auto& self = *impl_;
  guarded(*self.job.group, "CheckpointManager::CheckpointManager", [&] {
    self.meet();
    self.open(true);
    together(*self.job.group, [&] {
      self.turns = std::make_unique<Turns>(self.job, self.directory.history().catalog(),
                                           [&self] { self.directory.check_owner(); });
    });
    self.calls().describe(cat(" of '", self.job.naming.name, "' in ", self.job.directory.string()));
  });
}

// In a forked child nothing ends: threads, ranks and directory are the parent's.
CheckpointManager::~CheckpointManager() {
  if (impl_ && impl_->calls().forked()) (void)impl_.release();
}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&& other) noexcept {
  const CheckpointManager before(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

// -- saving ---------------------------------------------------------------------------------------

std::string CheckpointManager::save(std::int64_t step, const State& state,
                                    const SaveOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded_alone(group, "CheckpointManager::save", [&] {
    self.meet_for_save();
    self.clear_way_for_last_save();
    self.call_before_save(step);
    auto prefix =
        self.job.options.store.object_graph
            ? self.save(step, with_object_graph(group, state, step, self.job.row_plans.get()),
                        options)
            : self.save(step, state, options);
    self.turns->saved(step, false);
    return prefix;
  });
}

SaveHandle CheckpointManager::save_async(std::int64_t step, const State& state,
                                         const SaveOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded_alone(group, "CheckpointManager::save_async", [&] {
    self.meet_for_save();
    self.clear_way_for_last_save();
    self.call_before_save(step);
    auto handle =
        self.job.options.store.object_graph
            ? self.save_async(step, with_object_graph(group, state, step, self.job.row_plans.get()),
                              options)
            : self.save_async(step, state, options);
    // Skipped on all ranks or on none.
    if (handle.stage() != SaveStage::skipped) {
      self.turns->saved(step, handle.blocked_because().empty());
    }
    return handle;
  });
}

bool CheckpointManager::poll() {
  auto& self = *impl_;
  return guarded_alone(*self.job.group, "CheckpointManager::poll", [&] {
    self.advance(false);
    self.advance_flush(false);
    self.throw_earlier_failure();
    return self.flights.empty();
  });
}

void CheckpointManager::wait(Reach reach) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  guarded_alone(group, "CheckpointManager::wait", [&] {
    self.settle();
    self.advance_flush(true);
    self.throw_earlier_failure();
    if (!self.nodes.is_on()) return;
    require_same(group, "the reach", words(reach)[static_cast<std::size_t>(reach)]);
    if (reach != Reach::home) return;
    self.require_writable("bring a checkpoint home");
    self.bring_newest_home();
  });
}

// -- when to save, when to stop -------------------------------------------------------------------

bool CheckpointManager::should_save(std::int64_t step) {
  auto& self = *impl_;
  return guarded(*self.job.group, turn_call, [&] {
    if (self.turns->turn_is_over_for_save()) self.take_turn(true);
    return self.turns->should_save(step);
  });
}

std::optional<StopReason> CheckpointManager::should_stop() {
  auto& self = *impl_;
  return guarded(*self.job.group, turn_call, [&] {
    if (self.turns->turn_is_over_for_stop()) self.take_turn(false);
    return self.turns->stop();
  });
}

void Engine::take_turn(bool of_save) {
  turns->begin_turn(of_save);
  if (turns->hear(!flights.empty())) advance(false);
  if (!turns->asks() && flights.empty()) return;
  const bool in_flight = !flights.empty();
  const bool busy = flights.is_busy();
  if (job.root() && turns->knows_of() != ledger.count()) {
    turns->learn(ledger.count(), ledger.statistics().last);
  }
  turns->ask(in_flight, busy);
}

// -- restoring ------------------------------------------------------------------------------------

std::optional<RestoreReport> CheckpointManager::restore_latest(State& state,
                                                               const RestoreOptions& options) {
  auto& self = *impl_;
  return guarded_alone(*self.job.group, "CheckpointManager::restore_latest", [&] {
    self.meet();
    self.settle();
    self.cancel_flush();
    return self.restore_latest(state, options);
  });
}

RestoreReport CheckpointManager::restore(std::int64_t step, State& state,
                                         const RestoreOptions& options) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded_alone(group, "CheckpointManager::restore", [&] {
    self.meet();
    self.settle();
    require_same(group, "the step", cat(step));
    self.cancel_flush();
    return self.restore(step, state, options);
  });
}

// -- what is there --------------------------------------------------------------------------------

const std::filesystem::path& CheckpointManager::directory() const { return impl_->job.directory; }

CheckpointContents CheckpointManager::open(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded(group, "CheckpointManager::open", [&] {
    self.meet();
    self.settle();
    require_same(group, "the step", cat(step));
    return tell_contents(self.job, self.job.prefix(step));
  });
}

std::vector<StepInfo> CheckpointManager::steps() {
  auto& self = *impl_;
  const Job& job = self.job;
  return guarded(*job.group, "CheckpointManager::steps", [&] {
    self.meet();
    self.settle();
    const auto message = from_root(*job.group, [&] {
      self.directory.look_again();
      auto& catalog = self.directory.history().catalog();
      refresh_pins(self.job, catalog);
      const auto live = restorable(catalog);
      Packed<StepInfo> infos;
      for (const auto& entry : catalog) {
        infos.add({entry.step, entry.save.sequence, !live.empty() && live.front() == &entry,
                   entry.superseded, entry.damage, entry.pin != Pin::none, entry.save.metric});
      }
      return infos.bytes;
    });
    auto infos = unpack_all<StepInfo>(message);
    self.add_steps_on_nodes(infos);
    return infos;
  });
}

// -- pins and retention ---------------------------------------------------------------------------

void CheckpointManager::pin(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  guarded(group, "CheckpointManager::pin", [&] {
    self.meet();
    self.settle();
    self.require_writable("pin");
    require_same(group, "the step", cat(step));
    self.bring_step_home(step);
    self.settle();  // whoever removes what is older holds the lock of the pins
    together(group, [&] {
      if (self.job.root()) self.directory.pin(step);
    });
  });
}

void CheckpointManager::unpin(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  guarded(group, "CheckpointManager::unpin", [&] {
    self.meet();
    self.settle();
    self.require_writable("unpin");
    require_same(group, "the step", cat(step));
    together(group, [&] {
      if (self.job.root()) self.directory.unpin(step);
    });
  });
}

std::vector<RetentionDecision> CheckpointManager::preview_retention(
    std::optional<std::int64_t> next_step, const SaveOptions& next) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded(group, "CheckpointManager::preview_retention", [&] {
    self.meet();
    self.settle();
    require_same(group, "the step", next_step ? cat(*next_step) : "none");
    const auto message = from_root(
        group, [&] { return pack(self.directory.preview_retention(next_step, next.metric)); });
    return unpack<std::vector<RetentionDecision>>(message);
  });
}

// -- figures --------------------------------------------------------------------------------------

Statistics CheckpointManager::statistics() const {
  auto all = impl_->ledger.statistics();
  all.pool_bytes = impl_->flights.pool().bytes();
  all.pool_most_bytes = impl_->flights.pool().most_bytes();
  return all;
}

void CheckpointManager::write_trace() const { impl_->write_trace(); }

}  // namespace cairn
