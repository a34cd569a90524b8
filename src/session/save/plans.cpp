// The kept plan, and the sum over ranks that decides whether it serves once more. Two visitors of a
// state, Keeps and Compares, make and compare its form with the same functions.
#include "session/save/plans.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/log.hpp"
#include "cairn/sparse.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/sparse.hpp"
#include "session/save/frozen.hpp"
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

// Only for dense tensors, since fills of other tensors are not written.
std::map<std::size_t, std::vector<LocalSlice>> fills_of(const RefreshedState& resolved,
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

// Gives `out` all that a plan depends on, as numbers and texts, except addresses of memory. Stops
// when `out` is no longer `going`.
template <class Out>
void tell(const LocalSlice& slice, Out& out) {
  out.word(std::ssize(slice.box.start));
  for (const auto one : slice.box.start) out.word(one);
  out.word(std::ssize(slice.box.extent));
  for (const auto one : slice.box.extent) out.word(one);
  out.word(std::ssize(slice.dash));
  for (const bool one : slice.dash) out.word(one);
  out.text(slice.device_type);
  out.word(slice.device_index.has_value());
  out.word(slice.device_index.value_or(0));
}

template <class Out>
void tell(const std::string& key, const LocalTensor& tensor, Out& out) {
  out.text(key);
  out.word(static_cast<std::int64_t>(tensor.dtype));
  out.word(std::ssize(tensor.shape));
  for (const auto extent : tensor.shape) out.word(extent);
  out.word(static_cast<std::int64_t>(tensor.storage));
  out.text(tensor.device_type);
  out.word(tensor.device_index.has_value());
  out.word(tensor.device_index.value_or(0));
  out.word(tensor.frozen);
  out.word(tensor.sparse ? static_cast<std::int64_t>(tensor.sparse->dtype) : -1);
  if (tensor.sparse) out.text(tensor.sparse->element);
  out.word(tensor.strings ? static_cast<std::int64_t>(bytes_of(tensor.strings->get())) : -1);
  out.word(std::ssize(tensor.slices));
  for (const auto& slice : tensor.slices) tell(slice, out);
}

template <class Out>
void tell(const RefreshedState& state, Out& out) {
  out.word(static_cast<std::int64_t>(state.storage()));
  const auto& names = state.objects().names;  // policies see these names
  out.word(std::ssize(names));
  for (const auto& [key, name] : names) out.text(key), out.text(name);
  out.word(static_cast<std::int64_t>(state.tensors().size()));
  for (const auto& [key, tensor] : state.tensors()) {
    if (!out.going) return;
    tell(key, tensor, out);
  }
}

// Gives a number as bytes of seven bits each, low ones first, since most numbers fit in one byte.
template <class Take>
void each_byte(std::int64_t value, const Take& take) {
  auto left = static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
  for (; left >= 0x80; left >>= 7) take(static_cast<char>(left | 0x80));
  take(static_cast<char>(left));
}

struct Keeps {
  static constexpr bool going = true;
  std::string& bytes;
  void word(std::int64_t value) {
    each_byte(value, [&](char byte) { bytes += byte; });
  }
  void text(std::string_view value) {
    word(std::ssize(value));
    bytes += value;
  }
};

struct Compares {
  std::string_view left;
  bool going = true;
  void word(std::int64_t value) {
    each_byte(value, [&](char byte) {
      going = going && !left.empty() && left.front() == byte;
      if (going) left.remove_prefix(1);
    });
  }
  void text(std::string_view value) {
    word(std::ssize(value));
    going = going && left.starts_with(value);
    if (going) left.remove_prefix(value.size());
  }
  bool is_over() const { return going && left.empty(); }
};

bool has_unresolved(const RefreshedState& state) {
  const auto tensors = state.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& one) { return one.second.unresolved != nullptr; });
}

}  // namespace

std::optional<StateForm> StateForm::of(const RefreshedState& state) {
  if (has_unresolved(state)) return std::nullopt;
  StateForm form;
  Keeps out{form.bytes_};
  tell(state, out);
  form.bytes_.shrink_to_fit();
  return form;
}

bool StateForm::fits(const RefreshedState& state) const {
  Compares out{bytes_};
  tell(state, out);
  return out.is_over() && !has_unresolved(state);
}

void Plans::begin(std::int64_t round) {
  const auto& options = job_.options;
  weight_ = rank_weight(job_.rank(), job_.group->size());
  policy_is_known_ = !options.store.device_of &&
                     (!job_.sharding.policy || job_.sharding.policy->parameters().has_value());
  comparisons_.count = round;
}

void Plans::go_on_from(const Comparisons& before) {
  comparisons_.count = std::max(comparisons_.count, before.count);
  comparisons_.suspect = before.suspect;
}

// The plan is kept only if a later save may use it: then its form, and what the sum over ranks will
// need, are kept with it.
std::shared_ptr<SavePlan> Plans::make(const RefreshedState& given, const RefreshedState& resolved,
                                      const Sharding& sharding,
                                      std::shared_ptr<const GapsByKey> gaps) {
  forget();
  const auto now = round();
  unchanged_.choose();
  tell_if_not_frozen(resolved);
  auto plan = std::make_shared<SavePlan>(
      plan_save(job_, resolved, now, sharding, std::move(gaps), unchanged_));
  comparisons_.count = plan->replicas.round;
  const auto& replicas = job_.options.store.replicas;
  // A plan made while replicas are suspect compares everything, and must not be used again.
  if (!policy_is_known_ || now.check != replicas.check) return plan;
  if (plan->again == SavePlan::Again::never) return plan;
  auto made = run_and_agree(*job_.group, [&]() -> std::optional<Kept> {
    auto form = StateForm::of(given);
    if (!form) return std::nullopt;
    return Kept{std::move(*form), given.descriptions(), plan,
                ReplicaWatch(resolved, plan->replicas.watches, replicas.sample_of),
                fills_of(resolved, plan->dense)};
  });
  kept_ = std::move(made);
  return plan;
}

Plans::Made Plans::make_anew(const RefreshedState& state, const SaveOptions& options,
                             const Sharding& sharding) {
  Made made;
  GapsByKey gaps;
  made.resolved = resolve(*job_.group, state, job_.row_plans.get(), &gaps);
  const auto said = agree_on_descriptions(*job_.group, state, options.attributes);
  made.descriptions = with_attributes(said, options.attributes);
  made.plan = make(state, made.resolved ? *made.resolved : state, sharding,
                   std::make_shared<const GapsByKey>(std::move(gaps)));
  // Without the attributes of this save, which the next one may not have.
  made.plan->descriptions = said;
  return made;
}

UnchangedTensors::Sums Plans::sums_of(const EntryList& entries, const SavePlan& plan) const {
  const bool automatic = job_.options.frozen.automatic;
  if (!freezes(job_) || (!automatic && plan.marked.empty())) return {};
  auto sums = UnchangedTensors::sums_of(entries, [&](const std::string& key) {
    return automatic ? !plan.never_frozen.contains(key) : plan.marked.contains(key);
  });
  for (auto& [key, sum] : sums) sum.is_marked = plan.marked.contains(key);
  return sums;
}

// Marks come with the state, so they cannot be looked at when the manager is made.
void Plans::tell_if_not_frozen(const RefreshedState& state) {
  if (!job_.root() || told_not_frozen_ || freezes(job_)) return;
  const auto tensors = state.tensors();
  if (std::none_of(tensors.begin(), tensors.end(),
                   [](const auto& one) { return one.second.frozen; })) {
    return;
  }
  told_not_frozen_ = true;
  log(LogLevel::warning, cat("frozen tensors are written in full: ", why_not_frozen(job_)));
}

// Whether this rank could use the kept plan for this save. Encodes the plan's strings anew.
bool Plans::fits(std::int64_t step, const RefreshedState& state) {
  if (!kept_ || !commit::may_be_saved(step) || comparisons_.suspect ||
      unchanged_.want_another_plan() || !kept_->form.fits(state)) {
    return false;
  }
  for (auto& [tensor, encoded] : kept_->plan->local.strings) {
    const auto& [key, now] = state.tensors()[tensor];
    auto again = bundle::encode_strings(string_values(key, now));
    if (again.bytes.size() != encoded.bytes.size()) return false;  // lengths are encoded too
    encoded = std::move(again);
  }
  return true;
}

// A number for what is described differently from the last save, on this rank; 0: nothing. Throws
// if the full plan has to check it.
std::uint64_t Plans::change_of_descriptions(const RefreshedState& state) const {
  const auto& now = state.descriptions();
  if (now == kept_->descriptions) return 0;
  // Never 0, which would mean that nothing has changed.
  if (check_descriptions(state)) return fingerprint(now) | 1;
  throw Error(Code::internal, "tensors of other ranks are described anew");
}

std::shared_ptr<const Descriptions> Plans::descriptions(const RefreshedState& state,
                                                        const SaveOptions& options) {
  auto& plan = *kept_->plan;
  if (state.descriptions() != kept_->descriptions) {
    kept_->descriptions = state.descriptions();
    plan.descriptions = std::make_shared<const Descriptions>(state.descriptions());
  }
  return with_attributes(plan.descriptions, options.attributes);
}

std::optional<RefreshedState> Plans::with_fills(const RefreshedState& state) const {
  // The form of the state is the same, so its gaps are those that were found for the plan.
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
  return RefreshedState(std::move(filled));
}

// No part of it may throw: a rank that threw would miss the sum. So every problem becomes a miss.
PlanSum Plans::ask(std::int64_t step, const RefreshedState& state, const SaveOptions& options,
                   bool may) {
  PlanSum mine;
  std::uint64_t replicas = 0, said = 0;
  try {
    may = may && !state.error() && fits(step, state);
    if (may) said = fingerprint(options.attributes) ^ mixed_bits(change_of_descriptions(state));
    if (may) replicas = kept_->watch.choose(state, comparisons_.count);
  } catch (...) {
    current_error();  // the full plan finds the same error, and reports it on all ranks
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
              (options.until == Until::released ? 0x72656c6561736564u : 0u) ^
              // The constants stand for "overwrite", "released" and for no metric: bits of a NaN
              // that hardly any program computes.
              (metric ? std::bit_cast<std::uint64_t>(*metric) : 0x7ff8dead00000000u));
  mine[PlanSum::replicas] = static_cast<std::int64_t>(replicas);
  return mine;
}

ReplicaRound Plans::round() const {
  const auto& replicas = job_.options.store.replicas;
  const auto check = comparisons_.suspect && replicas.check == ReplicaCheck::sample
                         ? ReplicaCheck::all
                         : replicas.check;
  return {check, replicas.sample_of, comparisons_.count};
}

void Plans::compare(const RefreshedState& state, const ReplicaPlan& plan,
                    const std::vector<std::uint32_t>& checksums, const std::string& prefix) {
  // If the comparison throws, this stays set: the next save then compares everything.
  comparisons_.suspect = job_.options.store.replicas.divergence_is_error;
  compare_replicas(job_, state, plan, checksums, prefix);
  comparisons_.suspect = false;
}

}  // namespace cairn
