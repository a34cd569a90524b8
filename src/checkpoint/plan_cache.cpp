#include "save/plan_cache.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/checksum.hpp"
#include "checkpoint/series.hpp"
#include "commit/names.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

std::size_t bytes_of(const std::vector<std::string>& values) {
  auto bytes = values.size();
  for (const auto& value : values) bytes += value.size();
  return bytes;
}

}  // namespace

std::optional<StateForm> StateForm::of(const State& state) {
  StateForm form;
  form.storage_ = state.storage();
  form.names_ = state.objects().names;
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved) return std::nullopt;
    auto& one = form.tensors_.emplace_back(Tensor{key, tensor, 0});
    for (auto& slice : one.like.slices) slice.memory = nullptr;
    one.like.strings = nullptr;
    one.like.source = nullptr;
    if (tensor.strings) one.string_bytes = bytes_of(tensor.strings->get());
  }
  return form;
}

bool StateForm::fits(const State& state) const {
  if (state.storage() != storage_ || state.tensors().size() != tensors_.size() ||
      state.objects().names != names_) {
    return false;
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [key, now] = state.tensors()[i];
    const auto& then = tensors_[i].like;
    if (key != tensors_[i].key || now.unresolved || now.dtype != then.dtype ||
        now.shape != then.shape || now.storage != then.storage ||
        now.device_type != then.device_type || now.device_index != then.device_index ||
        now.slices.size() != then.slices.size()) {
      return false;
    }
    for (std::size_t s = 0; s < then.slices.size(); ++s) {
      const auto &one = now.slices[s], &like = then.slices[s];
      if (one.box != like.box || one.dash != like.dash || one.device_type != like.device_type ||
          one.device_index != like.device_index) {
        return false;
      }
    }
    if (now.strings && bytes_of(now.strings->get()) != tensors_[i].string_bytes) return false;
  }
  return true;
}

std::shared_ptr<SavePlan> Series::new_plan(const State& given, const State& resolved) {
  cached.reset();
  const auto now = turn();
  const auto plan = std::make_shared<SavePlan>(plan_save(job, resolved, now));
  replica_turn = plan->replicas.turn;
  const auto& replicas = job.options.replicas;
  if (!policy_is_known || now.check != replicas.check) return plan;
  // Rank 0 has all ranks' strings for an HDF5 file, as they were.
  if (job.options.format == Format::hdf5 && any_of(*job.group, !plan->local.strings.empty())) {
    return plan;
  }
  auto made = together(*job.group, [&]() -> std::optional<CachedPlan> {
    auto form = StateForm::of(given);
    if (!form) return std::nullopt;
    return CachedPlan{std::move(*form), plan,
                      ReplicaWatch(resolved, plan->replicas.watches, replicas.sample_of)};
  });
  cached = std::move(made);
  return plan;
}

// Local. Whether this rank could save so; strings are encoded anew then.
bool Series::can_reuse(std::int64_t step, const State& state, bool async) {
  if (!cached || step < 0 || replicas_suspect || !cached->form.fits(state)) return false;
  auto& plan = *cached->plan;
  for (auto& [tensor, encoded] : plan.local.strings) {
    const auto& [key, now] = state.tensors()[tensor];
    auto again = bundle::encode_strings(string_values(key, now));
    if (again.bytes.size() != encoded.bytes.size()) return false;  // lengths take bytes, too
    encoded = std::move(again);
  }
  if (!async) return true;
  if (!job.options.savers.empty() || !plan.capture.made() ||
      pool.bytes() < plan.capture.layout().bytes) {
    return false;
  }
  const auto same_step = [&](const auto& flight) { return flight->step == step; };
  if (std::any_of(flights.begin(), flights.end(), same_step)) return false;
  // The quick way is only for a new step: nothing to replace, no failed save to withdraw. Rank 0
  // must leave a part record, or recovery could complete a save that rank 0 did not finish.
  return !job.root() ||
         (!find(step) && !unwithdrawn && job.atomic_rename && plan.layout.writer >= 0 &&
          has_next_sequence() && knows_all() && !within_reach.contains(step));
}

// One sum over ranks.
bool Series::reuse_plan(std::int64_t step, const Look& look, const SaveOptions& options, bool async,
                        PlanSum& sum) {
  const State& state = look.state;
  sum = {};
  std::uint64_t replicas = 0;
  bool may = false;
  try {
    may = !look.error() && can_reuse(step, state, async);
    if (may) replicas = cached->watch.look(state, replica_turn);
  } catch (...) {
    error_in_flight();  // whatever it is, the long way meets it again, and says so on all ranks
    may = false;
  }
  sum[PlanSum::misses] = !may;
  if (may) {
    const auto weighed = [&](std::uint64_t value) {
      return static_cast<std::int64_t>(weight * mixed_bits(value));
    };
    const auto& metric = options.metric;
    sum[PlanSum::steps] = weighed(static_cast<std::uint64_t>(step));
    sum[PlanSum::metrics] =
        weighed(metric ? std::bit_cast<std::uint64_t>(*metric) : 0x7ff8dead00000000u);
    sum[PlanSum::replicas] = static_cast<std::int64_t>(replicas);
  }
  if (job.root() && may && async) {
    const auto uuid = commit::random_uuid();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    sum[PlanSum::sequence] = last_sequence + 1;
    sum[PlanSum::parent] = flights.empty() ? head : flights.back()->sequence;
    sum[PlanSum::time] = std::bit_cast<std::int64_t>(std::chrono::duration<double>(now).count());
    sum[PlanSum::uuid_high] = static_cast<std::int64_t>(uuid.high);
    sum[PlanSum::uuid_low] = static_cast<std::int64_t>(uuid.low);
    const std::lock_guard guard(tidied_mutex);
    sum[PlanSum::recycled_bytes] = std::exchange(recycled_bytes, -1);
  }
  static_assert(PlanSum::slots <= CallGroup::room);
  calls().meet(sum.values);
  return sum.agreed();
}

}  // namespace cairn
