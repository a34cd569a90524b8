// A restore, from the checkpoint's index to the filled state. Until all checks without data are
// done, and all that must be read beforehand was read, no memory of the application changes.
#include "session/restore/restore.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "model/key_pattern.hpp"
#include "model/keys.hpp"
#include "session/restore/adapt.hpp"
#include "session/restore/find_tensor.hpp"
#include "session/restore/indexed_wants.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore/matcher.hpp"
#include "session/restore/resolve_restore.hpp"
#include "session/restore/restore_tensors.hpp"
#include "session/restore/sparse_wants.hpp"
#include "session/restore/ties.hpp"
#include "store/contents/whose.hpp"

namespace cairn {
namespace {

// What ranks must know of each other. It is joined on the way to rank 0, so its size depends on the
// number of tensors, not of ranks.
struct WantedByAny {
  bool any_strings = false;
  std::string tensors;         // one bit for each
  std::set<std::string> kept;  // keys
};

// What all ranks want of the checkpoint, and what this one wants.
struct Wanted : WantedByAny {
  Wants slices;           // of this rank
  std::set<int> strings;  // of this rank: indices into the tensors

  bool has(std::size_t tensor) const {
    return (static_cast<unsigned char>(tensors[tensor / 8]) >> tensor % 8 & 1) != 0;
  }
  void add(std::size_t tensor) {
    tensors[tensor / 8] = static_cast<char>(tensors[tensor / 8] | 1 << tensor % 8);
  }
};

void add_common(WantedByAny& wanted, const std::string& message) {
  auto more = unpack<WantedByAny>(message);
  wanted.tensors.resize(more.tensors.size());
  for (std::size_t i = 0; i < more.tensors.size(); ++i) {
    wanted.tensors[i] = static_cast<char>(wanted.tensors[i] | more.tensors[i]);
  }
  wanted.any_strings |= more.any_strings;
  wanted.kept.merge(more.kept);
}

// Collective. `mine` must outlive the result.
// Finds the stored slices that this rank wants, batch by batch, and tells all ranks which tensors
// any of them wants. Ranks take part in each batch, even if they want nothing of it.
Wanted gather_wants(const Job& job, const SharedIndex& index, const WantedState& mine) {
  const auto& tensors = index.contents().tensors;
  Wanted wanted;
  wanted.tensors.resize((tensors.size() + 7) / 8);
  std::vector<const WantedTensor*> order;  // ascending by stored tensor
  run_and_agree(*job.group, [&] {
    wanted.kept.insert(mine.kept.begin(), mine.kept.end());
    std::size_t slices = 0;
    order.reserve(mine.tensors.size());
    for (const auto& one : mine.tensors) {
      order.push_back(&one);
      slices += one.tensor().slices.size();
      wanted.add(static_cast<std::size_t>(one.stored));
      if (one.tensor().strings) wanted.strings.insert(one.stored);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->stored < b->stored; });
    wanted.slices.slices.reserve(slices);
  });
  wanted.any_strings = !wanted.strings.empty();
  auto all = reduce_to_root(*job.group, pack<WantedByAny>(wanted), [](auto low, auto high) {
    WantedByAny both;
    add_common(both, low);
    add_common(both, high);
    return pack(both);
  });
  job.group->broadcast(all, 0);
  add_common(wanted, all);
  for (const auto& batch : batches_of(index, job.group->size())) {
    bool any = false;  // the same on all ranks
    for (auto t = batch.first; t < batch.end && !any; ++t) {
      any = wanted.has(static_cast<std::size_t>(t));
    }
    if (!any) continue;
    const auto of_batch = in_batch(order, batch, [](const auto* one) { return one->stored; });
    // Only for tensors whose slices are dealt; the others are in this rank's contents.
    std::vector<SharedIndex::Wish> wishes;
    for (const auto* one : of_batch) {
      if (!index.is_dealt(one->stored)) continue;
      wishes.push_back({one->stored, boxes_of(one->tensor().slices)});
    }
    auto found = index.find(*job.group, wishes);
    run_and_agree(*job.group, [&] {
      auto& [parts, slices_found] = wanted.slices.batches.emplace_back();
      std::size_t next = 0, count = 0;
      for (const auto& one : found) count += one.size();
      slices_found.reserve(count);
      parts.reserve(of_batch.size());
      for (const auto* one : of_batch) {
        const auto& stored = tensors[static_cast<std::size_t>(one->stored)];
        const auto& slices = one->tensor().slices;
        if (index.is_dealt(one->stored)) {
          wanted.slices.add(one->stored, stored, slices, std::move(found[next++]));
        } else {
          wanted.slices.add(one->stored, stored, slices);
        }
      }
    });
  }
  return wanted;
}

// Without this check the restore would leave the data of the savers as they are and say nothing.
void require_savers_known(const Job& job, const CheckpointContents& contents) {
  const auto& savers = job.options.hooks.savers;
  if (savers.empty() || !lacks_metadata(contents)) return;
  throw Error(Code::unsupported,
              cat("saver '", savers.front().name, "' cannot restore from ", contents.prefix),
              "the metadata, which say what it has saved, cannot be read",
              "Restore an older checkpoint, or this one without savers.")
      .at(contents.prefix);
}

// Collective. Reads the tied parts once more, and compares them. Returns the bytes read.
// Both parts go through a fingerprint instead of memory, so this takes no memory for them.
std::int64_t prove_ties(const Job& job, const SharedIndex& index, const WantedState& mine,
                        const std::map<int, std::string>& strings, DirectIo direct_io) {
  const auto probe =
      run_and_agree(*job.group, [&] { return TieProbe(index.contents(), mine.ties); });
  const auto tied = gather_wants(job, index, probe.wanted());
  const auto bytes = restore_tensors(job, index, tied.slices, true, direct_io);
  run_and_agree(*job.group, [&] {
    probe.require_equal([&](int a, int b) { return strings.at(a) == strings.at(b); });
  });
  return bytes;
}

// Fills strings, and makes the memory that has to be resized.
void fill_what_grows(WantedState& mine, const std::map<int, std::string>& strings,
                     const CheckpointContents& contents) {
  for (auto& one : mine.tensors) {
    if (one.make_room) one.make_room(one.change());
  }
  for (const auto& one : mine.tensors) {
    if (!one.tensor().strings) continue;
    try {
      one.tensor().strings->set(unpack<std::vector<std::string>>(strings.at(one.stored)));
    } catch (Error& error) {
      if (error.tensor().empty())
        error.of_tensor(contents.tensors[static_cast<std::size_t>(one.stored)].key);
      throw;
    }
  }
}

void end_with_savers(const Job& job, const CheckpointContents& contents, Touched* touched) {
  restore_savers(job, contents, touched);
  if (!job.root() || !lacks_metadata(contents)) return;
  log(LogLevel::warning, cat("the metadata of ", contents.prefix,
                             " cannot be read: only its name says which step it is"));
}

WantedState resolve_adapted(const Job& job, const CheckpointContents& contents,
                            const TensorFinder& finder, const RefreshedState& state,
                            const Adapted& adapted) try {
  return resolve(*job.group, contents, finder, state, adapted.options(), job.row_plans.get());
} catch (const Error& error) {
  throw Error(adapted.with_versions(error));
}

// If all keys may be missing, that allows only keys that the program had not saved before. A key
// that a retention rule has removed from this step must be named.
void require_not_let_go(const CheckpointContents& contents, const std::set<std::string>& kept,
                        const RestoreOptions& options) {
  if (!contents.meta || !options.all_may_be_missing) return;
  for (const auto& key : kept) {
    const auto* rule = find_thinned(contents.meta->thinned, key);
    if (!rule || is_named_as_missing(options, key)) continue;
    throw Error(Code::not_found, cat("'", key, "' is not in ", contents.prefix),
                cat("it was let go by '", rule->keys, "'"),
                "Name it in RestoreOptions::may_be_missing.")
        .at(contents.prefix)
        .of_tensor(key);
  }
}

// The beginnings, up to the number of the rank, of wanted keys that contain one, such as
// "loader/rank-".
std::set<std::string_view> begins_by_rank(const CheckpointContents& contents,
                                          const Wanted& wanted) {
  std::set<std::string_view> begins;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    if (!wanted.has(t)) continue;
    if (const auto of = rank_in(contents.tensors[t].key)) begins.insert(of->begin);
  }
  return begins;
}

// The stored keys that no rank wanted. It leaves out what belongs to savers and to the bookkeeping,
// and what belonged to ranks that this job does not have.
std::vector<std::string> unused_keys(const Job& job, const CheckpointContents& contents,
                                     const TensorFinder& finder, const Wanted& wanted) {
  std::set<std::string> of_savers;
  for (const auto& saver : job.options.hooks.savers) {
    if (!contents.meta || !contents.meta->savers.count(saver.name)) continue;
    const auto& keys = contents.meta->savers.at(saver.name);
    of_savers.insert(keys.begin(), keys.end());
  }
  std::vector<std::string> unused;
  std::optional<std::set<std::string_view>> by_rank;  // made for the first key that needs it
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    const auto& tensor = contents.tensors[t];
    if (of_savers.count(tensor.key) || wanted.has(t) || finder.is_bookkeeping(tensor)) continue;
    const auto of = rank_in(tensor.key);
    if (of && of->rank >= job.group->size()) {
      if (!by_rank) by_rank = begins_by_rank(contents, wanted);
      if (by_rank->contains(of->begin)) continue;
    }
    unused.push_back(tensor.key);
  }
  return unused;
}

}  // namespace

// What can fail without data fails first; then what can be read without changing memory; then
// memory is filled; rows by id, fills and savers come last.
RestoreReport restore_state(const Job& job, const SharedIndex& index, State& given,
                            const RestoreOptions& given_options, const RestoreExtras& extras) {
  const auto& contents = index.contents();
  Adapted adapted(job, contents, given, given_options);
  auto& state = adapted.state();
  const auto& options = adapted.options();
  if (extras.savers) require_savers_known(job, contents);
  const TensorFinder finder(contents);
  const RefreshedState seen(state, contents);
  auto mine = resolve_adapted(job, contents, finder, seen, adapted);
  const auto wanted = gather_wants(job, index, mine);
  if (extras.may_be_older) require_not_let_go(contents, wanted.kept, options);
  RestoreReport report;
  report.prefix = contents.prefix;
  if (contents.meta) report.step = contents.meta->step;
  report.unused_keys = unused_keys(job, contents, finder, wanted);
  require_all_used(options, report.prefix, report.unused_keys);
  std::int64_t bytes = 0;
  if (job.options.restore.verify_first || options.verify_first) {
    // The same as below, but bytes are only checked. So damage is found before memory changes, at
    // the price of reading twice.
    bytes += restore_tensors(job, index, wanted.slices, false, options.direct_io);
  }
  std::map<int, std::string> strings;
  // Strings are read, checked and decoded before anything changes.
  if (wanted.any_strings) strings = restore_strings(job, index, wanted.strings, bytes);
  if (mine.any_ties) bytes += prove_ties(job, index, mine, strings, options.direct_io);
  // From here on the application's memory changes. The keys are noted only after the state is
  // filled: until then there may be no memory to spare for them.
  const auto touch = [&] {
    if (extras.touched) extras.touched->keys.merge(touched_keys(state, wanted.kept));
  };
  try {
    run_and_agree(*job.group, [&] { fill_what_grows(mine, strings, contents); });
    bytes += restore_tensors(job, index, wanted.slices, true, options.direct_io);
  } catch (...) {
    touch();
    throw;
  }
  touch();
  if (mine.indexed) mine.indexed->deliver(*job.group);
  // If no rank has gaps to fill or rows to tell, one agreement is saved.
  std::array<std::int64_t, 3> sums{bytes, mine.gap_elements, !mine.fills.empty() || has_rows(seen)};
  job.group->all_reduce(sums, Group::Op::sum);
  report.bytes_read = sums[0];
  report.gap_elements = sums[1];
  if (sums[2] > 0) {
    run_and_agree(*job.group, [&] {
      write_fills(mine);
      tell_filled(seen, mine);
    });
  }
  if (extras.savers) end_with_savers(job, contents, extras.touched);
  report.kept_keys.assign(wanted.kept.begin(), wanted.kept.end());
  adapted.finish(*job.group);
  return report;
}

}  // namespace cairn
