#include "session/save/plans.hpp"

#include <algorithm>
#include <bit>

#include "base/checksum.hpp"
#include "cairn/sparse.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/sparse.hpp"
#include "session/save/join_descriptions.hpp"
#include "session/save/resolve_save.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

std::size_t bytes_of(const std::vector<std::string>& values) {
  auto bytes = values.size();
  for (const auto& value : values) bytes += value.size();
  return bytes;
}

bool are_alike(const SparseFill* a, const SparseFill* b) {
  if (!a || !b) return a == b;
  return a->dtype == b->dtype && a->element == b->element;
}

// Of tensors that are dense: of others no byte of a fill is written.
std::map<std::size_t, std::vector<LocalSlice>> fills_of(const SeenState& resolved,
                                                        const DensePlan& dense) {
  std::map<std::size_t, std::vector<LocalSlice>> fills;
  for (std::size_t i = 0; i < resolved.tensors().size(); ++i) {
    const auto& [key, tensor] = resolved.tensors()[i];
    if (tensor.slices.empty() || !is_fill(tensor.slices.back())) continue;
    const bool is_dense = std::any_of(dense.tensors.begin(), dense.tensors.end(),
                                      [&, &key = key](const auto& one) { return one.key == key; });
    if (!is_dense) continue;
    for (const auto& slice : tensor.slices) {
      if (is_fill(slice)) fills[i].push_back(slice);
    }
  }
  return fills;
}

// But for memory, strings and savers' sources.
bool is_alike(const LocalTensor& now, const LocalTensor& then) {
  return now.dtype == then.dtype && now.shape == then.shape && now.storage == then.storage &&
         are_alike(now.sparse.get(), then.sparse.get()) && now.device_type == then.device_type &&
         now.device_index == then.device_index &&
         std::equal(now.slices.begin(), now.slices.end(), then.slices.begin(), then.slices.end(),
                    [](const LocalSlice& a, const LocalSlice& b) {
                      return a.box == b.box && a.dash == b.dash && a.device_type == b.device_type &&
                             a.device_index == b.device_index;
                    });
}

}  // namespace

std::optional<StateForm> StateForm::of(const SeenState& state) {
  StateForm form;
  form.storage_ = state.storage();
  form.names_ = state.objects().names;
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved) return std::nullopt;
    auto& one = form.tensors_.emplace_back(Tensor{key, tensor, 0});
    for (auto& slice : one.like.slices) slice.memory = nullptr;
    one.like.strings = nullptr;
    if (tensor.strings) one.string_bytes = bytes_of(tensor.strings->get());
  }
  return form;
}

bool StateForm::fits(const SeenState& state) const {
  if (state.storage() != storage_ || state.tensors().size() != tensors_.size() ||
      state.objects().names != names_) {
    return false;
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [key, now] = state.tensors()[i];
    const auto& then = tensors_[i];
    if (key != then.key || now.unresolved || !is_alike(now, then.like)) return false;
    if (now.strings && bytes_of(now.strings->get()) != then.string_bytes) return false;
  }
  return true;
}

void Plans::begin(std::int64_t turn) {
  const auto& options = job_.options;
  weight_ = rank_weight(job_.rank(), job_.group->size());
  policy_is_known_ = !options.store.device_of &&
                     (!job_.sharding.policy || job_.sharding.policy->parameters().has_value());
  comparisons_.count = turn;
}

void Plans::go_on_from(const Comparisons& before) {
  comparisons_.count = std::max(comparisons_.count, before.count);
  comparisons_.suspect = before.suspect;
}

std::shared_ptr<SavePlan> Plans::make(const SeenState& given, const SeenState& resolved,
                                      const Sharding& sharding) {
  forget();
  const auto now = turn();
  const auto plan = std::make_shared<SavePlan>(plan_save(job_, resolved, now, sharding));
  comparisons_.count = plan->replicas.turn;
  const auto& replicas = job_.options.store.replicas;
  if (!policy_is_known_ || now.check != replicas.check) return plan;
  if (plan->again == SavePlan::Again::never) return plan;
  auto made = together(*job_.group, [&]() -> std::optional<Kept> {
    auto form = StateForm::of(given);
    if (!form) return std::nullopt;
    return Kept{std::move(*form), given.descriptions(), plan,
                ReplicaWatch(resolved, plan->replicas.watches, replicas.sample_of),
                fills_of(resolved, plan->dense)};
  });
  kept_ = std::move(made);
  return plan;
}

Plans::Made Plans::make_anew(const SeenState& state, const SaveOptions& options,
                             const Sharding& sharding) {
  Made made;
  GapsByKey gaps;
  made.resolved = resolve(*job_.group, state, job_.row_plans.get(), &gaps);
  const auto said = agree_on_descriptions(*job_.group, state, options.attributes);
  made.descriptions = with_attributes(said, options.attributes);
  made.plan = make(state, made.resolved ? *made.resolved : state, sharding);
  made.plan->descriptions = said;
  made.plan->gaps = std::make_shared<const GapsByKey>(std::move(gaps));
  return made;
}

// Whether this rank could save so; strings are encoded anew then.
bool Plans::fits(std::int64_t step, const SeenState& state) {
  if (!kept_ || !commit::may_be_saved(step) || comparisons_.suspect || !kept_->form.fits(state)) {
    return false;
  }
  for (auto& [tensor, encoded] : kept_->plan->local.strings) {
    const auto& [key, now] = state.tensors()[tensor];
    auto again = bundle::encode_strings(string_values(key, now));
    if (again.bytes.size() != encoded.bytes.size()) return false;  // lengths take bytes, too
    encoded = std::move(again);
  }
  return true;
}

// What is new in it, on this rank; 0: nothing. Throws where the long way is to look at it.
std::uint64_t Plans::change_of_descriptions(const SeenState& state) const {
  const auto& now = state.descriptions();
  if (now == kept_->descriptions) return 0;
  if (check_descriptions(state)) return fingerprint(now) | 1;
  throw Error(Code::internal, "tensors of other ranks are described anew");
}

std::shared_ptr<const Descriptions> Plans::descriptions(const SeenState& state,
                                                        const SaveOptions& options) {
  auto& plan = *kept_->plan;
  if (state.descriptions() != kept_->descriptions) {
    kept_->descriptions = state.descriptions();
    plan.descriptions = std::make_shared<const Descriptions>(state.descriptions());
  }
  return with_attributes(plan.descriptions, options.attributes);
}

std::optional<SeenState> Plans::with_fills(const SeenState& state) const {
  if (kept_->fills.empty()) return std::nullopt;
  State filled;
  filled.store(state.storage());
  for (std::size_t i = 0; i < state.tensors().size(); ++i) {
    const auto& [key, given] = state.tensors()[i];
    auto tensor = given;
    const auto fills = kept_->fills.find(i);
    if (fills != kept_->fills.end()) {
      tensor.sparse = nullptr;
      tensor.slices.insert(tensor.slices.end(), fills->second.begin(), fills->second.end());
    }
    filled.add(key, std::move(tensor));
  }
  return SeenState(std::move(filled));
}

PlanSum Plans::ask(std::int64_t step, const SeenState& state, const SaveOptions& options,
                   bool may) {
  PlanSum mine;
  std::uint64_t replicas = 0, said = 0;
  try {
    may = may && !state.error() && fits(step, state);
    if (may) said = fingerprint(options.attributes) ^ mixed_bits(change_of_descriptions(state));
    if (may) replicas = kept_->watch.look(state, comparisons_.count);
  } catch (...) {
    error_in_flight();  // whatever it is, the long way meets it again, and says so on all ranks
    may = false;
  }
  mine[PlanSum::misses] = !may;
  if (!may) return mine;
  const auto weighed = [&](std::uint64_t value) {
    return static_cast<std::int64_t>(weight_ * mixed_bits(value));
  };
  const auto& metric = options.metric;
  mine[PlanSum::steps] = weighed(static_cast<std::uint64_t>(step));
  mine[PlanSum::options] =
      weighed(mixed_bits(said) ^ (options.overwrite ? 0x6f76657277726974u : 0u) ^
              (metric ? std::bit_cast<std::uint64_t>(*metric) : 0x7ff8dead00000000u));
  mine[PlanSum::replicas] = static_cast<std::int64_t>(replicas);
  return mine;
}

ReplicaTurn Plans::turn() const {
  const auto& replicas = job_.options.store.replicas;
  const auto check = comparisons_.suspect && replicas.check == ReplicaCheck::sample
                         ? ReplicaCheck::all
                         : replicas.check;
  return {check, replicas.sample_of, comparisons_.count};
}

void Plans::compare(const SeenState& state, const ReplicaPlan& plan,
                    const std::vector<std::uint32_t>& checksums, const std::string& prefix) {
  comparisons_.suspect = job_.options.store.replicas.divergence_is_error;
  compare_replicas(job_, state, plan, checksums, prefix);
  comparisons_.suspect = false;
}

}  // namespace cairn
