// Decides for each save whether it goes to the nodes, and for each restart which checkpoint there
// can be restored.
#include "session/nodes/node_checkpoints.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "base/process_memory.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/indexed.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "cairn/redistribute.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "session/engine.hpp"
#include "session/restore/adapt.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore_steps.hpp"
#include "session/schedule/question_rounds.hpp"
#include "store/nodes/home_id.hpp"

namespace cairn {
namespace {

constexpr int most_tries = 4;  // for one checkpoint, whose parts turn out to be damaged

// Collective. Describes the tensors that all ranks have gathered as an index would, without slices.
CheckpointContents contents_of(Group& group, const tier::Gathered& gathered) {
  using ByKey = std::map<std::string, StoredTensor>;
  ByKey mine;
  for (const auto& [key, tensor] : gathered.state().tensors()) {
    auto& one = mine[key];
    one.key = key;
    one.dtype = tensor.dtype;
    one.shape = tensor.shape;
  }
  auto message = reduce_to_root(group, pack(mine), [&](const std::string& low, std::string high) {
    auto both = unpack<ByKey>(low);
    both.merge(unpack<ByKey>(high));
    return pack(both);
  });
  group.broadcast(message, 0);
  CheckpointContents contents;
  contents.prefix = gathered.path().string();
  for (auto& [key, one] : unpack<ByKey>(message)) contents.tensors.push_back(std::move(one));
  contents.meta = gathered.meta();
  return contents;
}

// Collective. Makes the state's tensors, as restore_state() does with an index.
void make_from(Group& group, const tier::Gathered& gathered, State& state,
               const RestoreOptions& options) {
  const auto contents = contents_of(group, gathered);
  const TensorFinder finder(contents);
  run_and_agree(group, [&] { state.make(contents); });
  std::set<std::string_view> wanted;
  const auto want = [&](const std::string& key) {
    const auto renamed = options.rename.find(key);
    const auto* stored = finder.find(renamed == options.rename.end() ? key : renamed->second);
    if (stored) wanted.insert(stored->key);
  };
  for (const auto& [key, tensor] : state.tensors()) {
    want(key);
    const auto* ids = tensor.unresolved ? tensor.unresolved->ids.get() : nullptr;
    if (ids && !ids->options.ids_key.empty()) want(ids->options.ids_key);
  }
  if (options.unused == Unused::automatic) {
    refuse_left_over(group, contents, finder, state.maker().get(), wanted);
  }
}

}  // namespace

NodeCheckpoints::NodeCheckpoints(Engine& engine)
    : EngineParts(engine.parts()),
      engine_(engine),
      nodes_(job),
      flusher_(engine.parts(), engine.stages(), nodes_, since_home_) {}

void NodeCheckpoints::open() {
  struct Home {
    std::string id;
    bool has_checkpoints = false;
  };
  const auto text = from_root(*job.group, [&] {
    return pack(Home{tier::home_id({job.files, job.directory}, !job.options.read_only),
                     !store.history().catalog().empty()});
  });
  const auto [id, has_checkpoints] = unpack<Home>(text);
  has_home_ = has_checkpoints;
  nodes_.open(id.empty() ? "none" : id);
}

// All ranks agree here on what this save asks for, since saves to the directory and to the nodes
// exchange different messages.
bool NodeCheckpoints::takes(const SaveOptions& options) {
  const auto weight = rank_weight(job.rank(), job.group->size());
  // 0 if all ranks ask for the same reach. It travels with the entry check of the call.
  std::int64_t sum[]{static_cast<std::int64_t>(
      weight * mixed_bits(static_cast<std::uint64_t>(options.reach) + 1))};
  calls().check_entry(sum);
  if (sum[0] != 0) {
    require_same(*job.group, "SaveOptions::reach",
                 words(options.reach)[static_cast<std::size_t>(options.reach)]);
  }
  const auto every = job.options.tier.home_every;
  // As long as the directory has no checkpoint, the loss of the nodes would lose everything. The
  // last save before a stop goes home, since the next job may get other nodes.
  if (options.reach == Reach::home || !has_home_ || (rounds && rounds->stop())) return false;
  // While a save to the directory is pending, no further one is due.
  return every == 0 || job.options.tier.flush_bytes_per_second > 0 || since_home_ + 1 < every ||
         !pending_saves.empty();
}

// Rank 0 only.
tier::Numbers NodeCheckpoints::numbers_for(const SaveRequest& request) {
  // The owner of the directory alone numbers saves on the nodes.
  store.check_owner();
  const auto taken = [&](const std::string& where) {
    throw Error(Code::already_exists, cat("step ", request.step, " is there already"), where,
                "Save another step, or set SaveOptions::overwrite.");
  };
  if (!request.options.overwrite && !job.options.overwrite) {
    if (store.history().is_taken(request.step)) taken("in the directory");
    for (const auto& one : nodes_.saves()) {
      // This save supersedes a checkpoint that is newer than the state's ancestor.
      const bool is_live = one.map.step == request.step && !one.superseded &&
                           one.map.sequence <= store.history().head() && one.can_be_had();
      if (is_live) taken("on the nodes");
    }
  }
  tier::Numbers made;
  made.sequence = store.number_elsewhere(request.step);
  made.parent = engine_.stages().planning.parent();
  made.time = now_seconds();
  made.uuid = commit::new_uuid();
  return made;
}

// Such a save is committed when this returns, also for save_async: only the way home is in the
// background.
std::optional<SaveHandle> NodeCheckpoints::save(const SaveRequest& request) {
  if (!takes(request.options)) return std::nullopt;
  engine_.advance(false);
  flusher_.advance(false);
  engine_.parts().pending_saves.throw_earlier_failure_instead_of(request.step);
  Attempt attempt(save_log);
  std::string why;
  SaveStatistics figures;
  figures.step = request.step;
  figures.on_nodes = true;
  const auto path = nodes_.save(
      {request.step, request.given, request.options, since_home_ + 1, figures, trace.get()},
      [&] { return numbers_for(request); }, why);
  attempt.done();
  if (!path) {
    // The warning about full nodes is given once, until other nodes are full.
    const bool again = !nodes_.full_nodes().empty() && nodes_.full_nodes() == told_full_;
    told_full_ = nodes_.full_nodes();
    if (job.root()) {
      log(again ? LogLevel::info : LogLevel::warning,
          cat("step ", request.step, " goes to ", job.directory.string(),
              " instead of the nodes: ", why));
    }
    return std::nullopt;
  }
  told_full_.clear();
  ++since_home_;
  line_ = nodes_.numbers().sequence;
  store.history().went_on_from(line_);
  figures.total_seconds = figures.blocked_seconds = seconds_since(request.call.at);
  figures.peak_resident_bytes = peak_resident_bytes();
  save_log.committed(line_, figures, request.call.at);
  if (rounds) rounds->committed();
  if (job.root()) log(LogLevel::info, line_of(figures));
  if (flusher_.is_due()) flusher_.begin();
  auto handle = done_handle(request.step, path->parent_path().string(), SaveStage::committed);
  engine_.stages().completion.tell(handle);
  return handle;
}

void NodeCheckpoints::committed(const CheckpointMeta& meta, bool is_from_here) {
  has_home_ = true;
  if (is_from_here) return;
  since_home_ = 0;
  // The parent in the metadata is the last ancestor at home; the state may descend from a later
  // save on the nodes.
  nodes_.committed(std::max(meta.parent, line_), meta.sequence);
  line_ = std::max(line_, meta.sequence);
}

void NodeCheckpoints::went_back_to(std::int64_t sequence) {
  line_ = sequence;
  since_home_ = 0;
}

// A checkpoint that has lost its protection is saved to the directory before the run continues:
// another node may fail before the next save. That takes the time of one save, after a failure that
// makes a restart expensive in any case. If the save fails, the log says so. Returns whether it
// succeeded.
bool NodeCheckpoints::bring_home(const tier::Gathered& gathered) {
  const auto& meta = gathered.meta();
  try {
    SaveOptions options;
    options.metric = meta.metric;
    options.overwrite = true;
    options.reach = Reach::home;
    engine_.save(meta.step, gathered.state(), options);
    nodes_.forget_pieces(meta.sequence);
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    if (job.root()) {
      log(LogLevel::warning,
          cat("step ", meta.step, ", restored from the nodes, is not protected: ", error.what()));
    }
    return false;
  }
}

// Reads every byte before the state is changed, and computes damaged parts again.
void NodeCheckpoints::prove(tier::LocalSave& save, std::unique_ptr<tier::Gathered>& gathered) {
  for (int tries = 0; nodes_.learn_damage(save, *gathered); ++tries) {
    if (tries == most_tries) {
      throw Error(Code::data_loss, cat("step ", save.map.step, " on the nodes is damaged"),
                  "what is computed again is damaged, too");
    }
    gathered = nodes_.gather(save);
  }
}

// Collective. The sequences of the newest saves, the same on all ranks.
NodeCheckpoints::Newest NodeCheckpoints::newest_saves(std::optional<std::int64_t> step,
                                                      const PassedOver& passed) const {
  Newest newest;
  if (job.root()) {
    for (const auto* entry : restorable(store.history().catalog())) {
      newest.of_all_at_home = std::max(newest.of_all_at_home, entry->save.sequence);
      // What a restore has passed over or does not want must not hide a save on the nodes.
      if (passed.steps.count(entry->step) || (step && entry->step != *step)) continue;
      newest.wanted = std::max(newest.wanted, entry->save.sequence);
    }
  }
  newest = broadcast_value(*job.group, newest);
  newest.of_all = newest.of_all_at_home;
  for (const auto& save : nodes_.saves()) {
    if (!save.superseded) newest.of_all = std::max(newest.of_all, save.map.sequence);
  }
  return newest;
}

// Returns whether earlier runs have restored this save and got no further.
bool NodeCheckpoints::is_in_vain(const tier::LocalSave& save, PassedOver& passed) const {
  const auto at = passed.sequences.find(save.map.sequence);
  if (at == passed.sequences.end()) return false;
  if (at->second.empty()) return true;
  const auto line = cat("step ", save.map.step, ": ", std::exchange(at->second, ""));
  if (!job.options.restore.fall_back) throw tried_in_vain(job, line);
  if (job.root()) log(LogLevel::warning, cat("passed over on the nodes: ", line));
  passed.why.push_back(line);
  return true;
}

std::optional<RestoreReport> NodeCheckpoints::restore(State& state, const RestoreOptions& options,
                                                      std::optional<std::int64_t> step,
                                                      Touched& failed, PassedOver& passed) {
  const auto newest = newest_saves(step, passed);
  const bool proves = any_of(*job.group, options.verify_first || job.options.restore.verify_first);
  const Asked asked{state, options, step, failed, passed, newest, proves};
  for (auto save : nodes_.saves()) {
    if (step ? save.map.step != *step : save.superseded) continue;
    // A save of the same sequence in the directory takes longer to restore, so it is used only if
    // this one fails.
    if (save.map.sequence < newest.wanted || passed.saves.contains(save.map.uuid)) continue;
    if (!step && is_in_vain(save, passed)) continue;
    passed.saves.insert(save.map.uuid);
    if (auto report = restore(save, asked)) return report;
  }
  return std::nullopt;
}

// Restores one save. Returns nothing if it cannot be restored and is passed over.
std::optional<RestoreReport> NodeCheckpoints::restore(tier::LocalSave& save, const Asked& asked) {
  Group& group = *job.group;
  bool is_touched = false;  // whether the state was changed
  for (int tries = 0; tries < most_tries; ++tries) {
    std::unique_ptr<tier::Gathered> gathered;
    bool restored = false;
    try {
      gathered = nodes_.gather(save);
      if (asked.proves) prove(save, gathered);
      Adapted adapted(job, gathered->path().string(), &gathered->meta(), asked.state,
                      asked.options);
      auto& state = adapted.state();
      if (any_of(group, state.maker() != nullptr)) {
        make_from(group, *gathered, state, adapted.options());
      }
      is_touched = true;
      const auto moved =
          redistribute(job.group, gathered->state(), state, {.restore = adapted.options()});
      // The state is filled and proved. A later error has nothing to do with this save's bytes, so
      // it is thrown.
      restored = true;
      adapted.finish(group);
      return go_on_from(save, *gathered, moved, asked);
    } catch (const Error& error) {
      // Without free space, lost parts cannot be computed, so the save cannot be restored either.
      const bool can_be_had = !is_damage(error) && error.code() != Code::no_space;
      if (restored || can_be_had) throw;
      // If the bytes were at fault, all ranks learn which, and the next try computes them anew.
      if (gathered && nodes_.learn_damage(save, *gathered) && tries + 1 < most_tries) continue;
      if (is_touched) asked.failed.keys.merge(touched_keys(asked.state, {}));
      if (job.root()) {
        log(LogLevel::warning,
            cat("step ", save.map.step, " on the nodes is passed over: ", error.what()));
      }
      if (job.options.tier.when_lost == WhenLost::fail || !job.options.restore.fall_back) throw;
      asked.passed.why.push_back(cat("step ", save.map.step, ": ", error.what()));
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Notes that the run continues from this save, and makes the report.
RestoreReport NodeCheckpoints::go_on_from(const tier::LocalSave& save,
                                          const tier::Gathered& gathered,
                                          const RedistributeReport& moved, const Asked& asked) {
  const auto& newest = asked.newest;
  const Touched touched{touched_keys(asked.state, moved.kept_keys), {}};
  RestoreReport report;
  report.step = save.map.step;
  report.prefix = gathered.path().string();
  report.unused_keys = moved.unused_keys;
  report.kept_keys.assign(moved.kept_keys.begin(), moved.kept_keys.end());
  report.bytes_read = moved.bytes;
  report.skipped = asked.passed.why;
  require_overwritten(job, asked.failed, touched, report);
  store.history().went_back_elsewhere(save.map.step, save.map.sequence);
  line_ = save.map.sequence;
  // The counter of saves that are not at home is that of the save, unless home has a newer one.
  since_home_ = save.map.sequence > newest.of_all_at_home ? save.map.since_home : 0;
  if (rounds) rounds->restored(save.map.step);
  // If the application asked for an older step, the newer saves stay until the next save supersedes
  // them.
  const bool may_bring = !job.options.read_only && save.map.sequence > newest.wanted &&
                         (!asked.step || save.map.sequence >= newest.of_all);
  if (may_bring && !save.is_protected() && bring_home(gathered)) {
    report.prefix = job.prefix(save.map.step).string();
  }
  if (job.root()) tell_differences(report, asked.options);
  return report;
}

void NodeCheckpoints::bring_newest_home() {
  flusher_.advance(true);
  if (since_home_ == 0) return;
  for (const auto& save : nodes_.saves()) {
    if (save.map.sequence != line_) continue;
    return flusher_.flush_now(save, since_home_, false);
  }
  throw Error(Code::not_found, "the newest checkpoint is neither at home nor on the nodes", "",
              "Save again, with SaveOptions::reach = Reach::home.");
}

void NodeCheckpoints::bring_step_home(std::int64_t step) {
  flusher_.advance(true);
  const auto* there = job.root() ? store.history().find(step) : nullptr;
  const auto at_home = broadcast_value(
      *job.group, there && there->damage.empty() ? there->save.sequence : std::int64_t{-1});
  for (const auto& save : nodes_.saves()) {
    if (save.map.step != step || save.superseded || save.map.sequence <= at_home) continue;
    return flusher_.flush_now(save, save.map.sequence == line_ ? since_home_ : 0, true);
  }
}

// The list is in commit order. A save follows those of the directory that were committed before it.
void NodeCheckpoints::add_steps(std::vector<StepInfo>& infos) const {
  for (const auto& save : nodes_.saves()) {
    StepInfo info;
    info.step = save.map.step;
    info.sequence = save.map.sequence;
    info.superseded = save.superseded;
    info.on_nodes = true;
    info.at_home = false;
    info.margin = save.margin();
    if (info.margin < 0) continue;
    const auto same = std::find_if(infos.begin(), infos.end(), [&](const auto& one) {
      return one.sequence == info.sequence && one.step == info.step;
    });
    if (same != infos.end()) {  // the save has been copied to the directory
      same->on_nodes = true;
      same->margin = info.margin;
      continue;
    }
    const auto behind = std::find_if(infos.rbegin(), infos.rend(), [&](const auto& one) {
      return one.sequence <= info.sequence;
    });
    infos.insert(behind.base(), info);
  }
  const auto newest = std::find_if(infos.rbegin(), infos.rend(), [](const auto& one) {
    return !one.superseded && one.damage.empty();
  });
  for (auto& one : infos) one.newest = newest != infos.rend() && &one == &*newest;
}

}  // namespace cairn
