// The steps of a redistribution: look, prove, match, plan, move.
#include "session/redistribute/redistributor.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/let_go.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/ragged.hpp"
#include "exchange/plan_together.hpp"
#include "group/collectives.hpp"
#include "model/keys.hpp"
#include "model/shared_memory.hpp"
#include "session/redistribute/apart.hpp"
#include "session/restore/indexed_wants.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore/sparse_wants.hpp"
#include "session/restore/ties.hpp"
#include "session/save/resolve_save.hpp"

namespace cairn {
namespace {

std::size_t place_of(int number) { return static_cast<std::size_t>(number); }

void require_options(Group& group, const RedistributeOptions& options) {
  require_same(group, "RedistributeOptions", {{"chunk_bytes", cat(options.chunk_bytes)}});
  if (options.chunk_bytes >= 4096 && options.chunk_bytes <= (std::int64_t{64} << 20)) return;
  throw Error(Code::invalid_argument,
              cat("RedistributeOptions::chunk_bytes is ", options.chunk_bytes),
              "it must lie between 4096 and 64 MiB");
}

// What the keys tell of a state that was made from a checkpoint: its keys differ from those that an
// application gives.
struct StoredKeys {
  int ranks = 0;  // how many ranks saved its rank-private items; 0 if as many as now, or none
  bool objects = false;  // it has values of objects
};

StoredKeys stored_keys(Group& group, const RefreshedState& plain) {
  static const std::string value = object_key("x").substr(1);
  std::int64_t most = 0, objects = 0;
  for (const auto& [key, tensor] : plain.tensors()) {
    if (key.ends_with(value)) objects = 1;
    const auto of = key.rfind("-of-");
    if (of == std::string::npos || key.rfind("/rank-", of) == std::string::npos) continue;
    int ranks = 0;
    std::from_chars(key.data() + of + 4, key.data() + key.size(), ranks);
    if (ranks != group.size()) most = std::max<std::int64_t>(most, ranks);
  }
  std::int64_t of_all[]{most, objects};
  group.all_reduce(of_all, Group::Op::max);
  return {static_cast<int>(of_all[0]), of_all[1] != 0};
}

// The key of this rank's item. If the items are of another number of ranks, they are dealt as
// resolve() does it. A rank that gets none asks for the item of rank 0, whose key tells how many
// ranks there were.
std::string asked_private_key(const Group& group, const std::string& name,
                              const PrivateOptions& options, int stored) {
  if (stored == 0) return private_key(name, group.rank(), group.size());
  const int rank = options.deal ? options.deal(group.rank(), group.size(), stored) : 0;
  return private_key(name, std::max(rank, 0), stored);
}

// What this rank asks of others: the keys from which its state is filled.
std::vector<std::string> asked_keys(const Group& group, const RefreshedState& to,
                                    const RestoreOptions& options, const StoredKeys& stored) {
  std::vector<std::string> keys;
  keys.reserve(to.tensors().size());
  for (const auto& [key, tensor] : to.tensors()) {
    const auto stored_name = [&](const std::string& asked) {
      const auto renamed = options.rename.find(asked);
      return renamed == options.rename.end() ? asked : renamed->second;
    };
    const auto name = stored_name(key);
    const auto* what = tensor.unresolved.get();
    const bool is_private = what && what->kind == Unresolved::Kind::rank_private;
    const bool looks_up = what && what->ids && !what->ids->options.ids_key.empty();
    if (looks_up) keys.push_back(stored_name(what->ids->options.ids_key));
    keys.push_back(is_private ? asked_private_key(group, name, what->options, stored.ranks) : name);
    if (!stored.objects) continue;
    try {
      keys.push_back(object_key(keys.back()));
    } catch (const Error&) {  // the key is not the path of an object
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// Collective. All ranks take part in finding rows by id, even those that want none. So all must
// know the same tensors under the same numbers.
void share_keys_for_rows(Group& group, const RefreshedState& to, std::vector<std::string>& keys) {
  const auto is_indexed = [](const auto& one) {
    const auto& what = one.second.unresolved;
    return what && what->kind == Unresolved::Kind::indexed;
  };
  const auto& tensors = to.tensors();
  if (!any_of(group, std::any_of(tensors.begin(), tensors.end(), is_indexed))) return;
  std::set<std::string> all;
  for (const auto& said : all_gather(group, pack_each(keys))) {
    for (auto& key : unpack_each<std::string>(said)) all.insert(std::move(key));
  }
  keys.assign(all.begin(), all.end());
}

// All slices in order. An index is the number of the source minus that of this rank's first one.
std::vector<PieceSource> sources_of(const RefreshedState& plain) {
  std::vector<PieceSource> all;
  std::size_t slices = 0;
  for (const auto& [key, tensor] : plain.tensors()) slices += tensor.slices.size();
  all.reserve(slices);
  for (const auto& [key, tensor] : plain.tensors()) {
    for (const auto& slice : tensor.slices) {
      const SliceMemory& memory = *slice.memory;
      all.push_back({&slice.box, tensor.dtype, memory.contiguous(), &memory});
    }
  }
  return all;
}

// The targets, by id. Rows have no memory before make_room().
std::vector<PieceTarget> targets_of(const WantedState& wanted) {
  std::vector<PieceTarget> all;
  std::size_t slices = 0;
  for (const auto& one : wanted.tensors) slices += one.tensor().slices.size();
  all.reserve(slices);
  for (const auto& one : wanted.tensors) {
    for (const auto& slice : one.tensor().slices) {
      auto* memory = slice.memory.get();
      all.push_back({&slice.box, one.tensor().dtype,
                     memory ? memory->contiguous_writable() : nullptr, memory});
    }
  }
  return all;
}

}  // namespace

void Redistributor::plan() {
  BothStates now(from_, to_);
  refresh(now);
}

RedistributeReport Redistributor::run() {
  BothStates now(from_, to_);
  refresh(now);
  const auto strings = pass_strings(*group_, routes_, now.plain());
  if (now.wanted.any_ties) prove_ties(now, strings);
  // From here on the application's memory changes.
  run_and_agree(*group_, [&] { make_room(now, strings); });
  move(now);
  return report_;
}

// Looks at both states, and makes a new proof or a new plan if anything has changed on any rank.
// Each question is put to all ranks, since they must make the same exchanges.
void Redistributor::refresh(BothStates& now) {
  require_options(*group_, options_);
  GapsByKey gaps;
  now.resolved = resolve(*group_, now.from, &held_rows_, &gaps);
  agree(*group_, now.to.error());
  auto structure = keeps_ ? structure_of(now.plain()) : std::string();
  const auto stored = stored_keys(*group_, now.plain());
  auto keys =
      run_and_agree(*group_, [&] { return asked_keys(*group_, now.to, options_.restore, stored); });
  share_keys_for_rows(*group_, now.to, keys);
  const bool is_new = any_of(*group_, !matching_ || structure != from_structure_ || keys != keys_);
  if (is_new) {
    held_ = HeldSlices(*group_, now.plain());
    matching_.reset();  // if planning fails, the next call starts again
    Matching proved(*group_, now.plain(), held_, keys);
    proved.note_gaps(gaps);
    unused_keys_ = proved.find_unused(*group_);
    matching_ = std::move(proved);
    from_structure_ = std::move(structure);
    if (keeps_) keys_ = std::move(keys);
  }
  let_go(keys);
  const auto& contents = matching_->contents();
  require_all_used(options_.restore, "what is redistributed", unused_keys_);
  now.wanted =
      resolve(*group_, contents, TensorFinder(contents), now.to, options_.restore, &wanted_rows_);
  auto wanted = keeps_ ? structure_of(contents, now.wanted) : std::string();
  if (any_of(*group_, is_new || !planned_ || wanted != to_structure_)) {
    planned_ = false;
    laid_.clear();
    if (!keeps_) run_and_agree(*group_, [&] { require_apart(now); });  // while there is no plan yet
    plan_for(now);
    to_structure_ = std::move(wanted);
    planned_ = true;
    ++plans_;
  }
  // A later call may bring the same structure in other memory.
  if (keeps_) run_and_agree(*group_, [&] { require_apart(now); });
}

void Redistributor::plan_for(const BothStates& now) {
  auto matched = matching_->match(*group_, held_, now.wanted);
  // prove_ties() matches once more.
  if (!keeps_ && !now.wanted.any_ties) matching_->forget_slices();
  routes_ = route_strings(*group_, std::move(matched.strings_from));
  plan_ = plan_moves(now.plain(), now.wanted, matched);
  room_ = room_to_pass_all(plan_, options_.chunk_bytes);
  count(now);
}

// Sources are slices in memory, which ranks hold already, so each rank orders pieces directly from
// the holder (Spread::order).
plan::RankPlan Redistributor::plan_moves(const RefreshedState& plain, const WantedState& wanted,
                                         const Matched& matched) {
  const auto sources = sources_of(plain);
  const auto targets = targets_of(wanted);
  std::map<int, std::int64_t> element_bytes;  // element sizes of the slices that other ranks hold
  for (const auto& [source, id] : matched.parts) {
    if (held_.is_mine(source)) continue;
    element_bytes[source] = static_cast<std::int64_t>(dtype_size(targets[place_of(id)].dtype));
  }
  const auto source_box = [&](int source) -> plan::Spread::SourceBox {
    if (!held_.is_mine(source)) return {&matched.boxes.at(source), element_bytes.at(source)};
    const auto& one = sources[place_of(source - held_.first())];
    return {one.box, static_cast<std::int64_t>(dtype_size(one.dtype))};
  };
  const std::vector<int> served_by;
  plan::Spread spread({.rank = group_->rank(),
                       .ranks = group_->size(),
                       .chunk_bytes = options_.chunk_bytes,
                       .served_by = served_by,
                       .source = source_box,
                       .before = [](int a, int b) { return a < b; },
                       // Parts of slices that no rank wants stay where they are.
                       .only_wanted = true,
                       .holder = [&](int source) { return held_.holder_of(source); }});
  run_and_agree(*group_, [&] {
    spread.expect(matched.parts.size());
    for (const auto& [source, id] : matched.parts) {
      spread.want(source, id, *targets[place_of(id)].box);
    }
  });
  return order_together(*group_, spread);
}

// Collective. Sums over all ranks what the plan will do.
void Redistributor::count(const BothStates& now) {
  report_ = {};
  report_.unused_keys = unused_keys_;
  std::int64_t sums[]{0, 0};
  auto& [kept, sent] = sums;
  for (const auto& round : plan_.rounds) {
    for (const auto& piece : round.local) kept += piece.bytes;
    for (const auto& step : round.steps) {
      for (const auto& piece : step.receives) sent += piece.bytes;
    }
  }
  group_->all_reduce(sums, Group::Op::sum);
  report_.bytes = kept + sent;
  report_.bytes_sent = sent;
  report_.buffer_bytes = all_reduce(*group_, room_.bytes(), Group::Op::max);
  if (!any_of(*group_, !now.wanted.kept.empty())) return;
  for (const auto& text : all_gather(*group_, pack_each(now.wanted.kept))) {
    for (auto& key : unpack_each<std::string>(text)) {
      report_.kept_keys.insert(std::move(key));
    }
  }
}

// Calls `visit` for all memory that is read, then for all memory that is written.
template <class Visit>
void Redistributor::each_laid(const BothStates& now, const Visit& visit) const {
  for (const auto& [key, tensor] : now.plain().tensors()) {
    for (const auto& slice : tensor.slices) {
      visit(false, key, tensor.dtype, slice.box, slice.memory->footprint(), true);
    }
  }
  for (const auto& one : now.wanted.tensors) {
    const auto& key = matching_->contents().tensors[place_of(one.stored)].key;
    for (const auto& slice : one.tensor().slices) {
      if (!slice.memory) continue;
      visit(true, key, one.tensor().dtype, slice.box, slice.memory->footprint(), !one.converts);
    }
  }
  // Adds the memory that rows have now, before it is resized. Rows by id that are read are already
  // copies.
  for (const auto& [key, tensor] : now.to.tensors()) {
    const bool by_id = tensor.unresolved && tensor.unresolved->kind == Unresolved::Kind::indexed;
    for (std::size_t i = 0; by_id && i < tensor.slices.size(); ++i) {
      const auto& slice = tensor.slices[i];
      visit(true, key, tensor.dtype, slice.box, slice.memory->footprint(), false);
    }
    const bool are_rows = tensor.unresolved && tensor.unresolved->rows;
    if (tensor.strings || (!are_rows && !tensor.resizes)) continue;
    const auto& rows = are_rows ? *tensor.unresolved->rows : *tensor.resizes;
    auto shape = tensor.shape;
    shape[0] = rows.count();
    visit(true, key, tensor.dtype, Box::whole(shape), rows.memory()->footprint(), false);
  }
}

// The proof sorts all slices. If all lie where they were at the last proof, this finds out with one
// comparison for each slice, and the proof is not repeated.
bool Redistributor::are_where_they_were(const BothStates& now) const {
  bool same = !laid_.empty();
  std::size_t next = 0;
  each_laid(now, [&](bool, const auto&, DType dtype, const Box& box, const Footprint& where,
                     bool may_stay) {
    if (!same) return;
    const auto* was = next < laid_.size() ? &laid_[next++] : nullptr;
    same = was && was->where.first == where.first && was->where.strides == where.strides &&
           was->where.element_bytes == where.element_bytes && was->extent == box.extent &&
           was->dtype == dtype && was->may_stay == may_stay;
  });
  return same && next == laid_.size();
}

// Compares only where each slice begins and ends. If it returns false, the slower proof decides.
bool Redistributor::are_quickly_apart(const BothStates& now) const {
  struct Range : ByteRange {
    bool is_written;
  };
  std::vector<Range> ranges;
  std::size_t count = 0;
  each_laid(now, [&](bool, const auto&...) { ++count; });
  ranges.reserve(count);
  each_laid(now,
            [&](bool is_written, const auto&, DType, const Box& box, const Footprint& where, bool) {
              const bool is_one = where.strides.empty();
              if (auto range = byte_range(where, is_one ? Dims{} : box.extent)) {
                ranges.push_back({*range, is_written});
              }
            });
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::optional<std::int64_t> ends[2];  // the end, so far, of what is read and of what is written
  for (const auto& range : ranges) {
    // Ranges ascend by their beginnings. One that begins before the other kind has ended overlaps
    // it.
    const auto& other = ends[range.is_written ? 0 : 1];
    if (other && range.begin < *other) return false;
    auto& own = ends[range.is_written ? 1 : 0];
    own = own ? std::max(*own, range.end) : range.end;
  }
  return true;
}

void Redistributor::require_apart(const BothStates& now) {
  if (are_where_they_were(now)) return;
  let_go(laid_);
  // There may be very many slices, so the lists are made at their final size, one after the other.
  std::size_t counts[2] = {};
  each_laid(now, [&](bool is_written, const auto&...) { ++counts[is_written ? 1 : 0]; });
  if (!are_quickly_apart(now)) {
    std::vector<LaidSlice> read, written;
    read.reserve(counts[0]);
    written.reserve(counts[1]);
    each_laid(now, [&](bool is_written, const std::string& key, DType dtype, const Box& box,
                       const Footprint& where, bool may_stay) {
      (is_written ? written : read).push_back({&key, dtype, box, where, may_stay});
    });
    cairn::require_apart(read, written);
  }
  if (!keeps_) return;
  // Remembered for the next call, when the proof has succeeded.
  std::vector<Laid> laid;
  laid.reserve(counts[0] + counts[1]);
  each_laid(now, [&](bool, const auto&, DType dtype, const Box& box, const Footprint& where,
                     bool may_stay) {
    laid.push_back({where, box.extent, dtype, may_stay});
  });
  laid_ = std::move(laid);
}

void Redistributor::make_room(BothStates& now,
                              const std::map<std::string, std::vector<std::string>>& strings) {
  for (auto& one : now.wanted.tensors) {
    if (one.make_room) one.make_room(one.change());
  }
  for (const auto& one : now.wanted.tensors) {
    if (!one.tensor().strings) continue;
    one.tensor().strings->set(strings.at(matching_->contents().tensors[place_of(one.stored)].key));
  }
  if (has_room_ >= room_.bytes()) return;
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room_.bytes()));
  has_room_ = room_.bytes();
}

void Redistributor::move(const BothStates& now) {
  move(now.plain(), now.wanted, plan_, room_, buffer_.get());
  if (now.wanted.indexed) now.wanted.indexed->deliver(*group_);
  run_and_agree(*group_, [&] {
    write_fills(now.wanted);
    tell_filled(now.to, now.wanted);
  });
}

void Redistributor::move(const RefreshedState& plain, const WantedState& wanted,
                         const plan::RankPlan& plan, const PassingRoom& room, std::byte* buffer) {
  std::vector<PieceSource> sources;
  std::vector<PieceTarget> targets;
  run_and_agree(*group_, [&] {
    sources = sources_of(plain);
    targets = targets_of(wanted);
  });
  // Sources and targets of this call: the plan has only numbers, since memory may move between
  // calls.
  PiecePasser passer(
      *group_,
      [&](const plan::Passed& piece) { return sources[place_of(piece.source - held_.first())]; },
      [&](const plan::Passed& piece) { return targets[place_of(piece.id)]; });
  passer.use_room(room, buffer);
  passer.pass_all(plan);
  agree(*group_, passer.read_error());
  agree(*group_, passer.write_error());
}

// Two stored parts that fill the same memory must be equal. So tied parts are moved once more, to a
// buffer, and compared there.
void Redistributor::prove_ties(const BothStates& now,
                               const std::map<std::string, std::vector<std::string>>& strings) {
  const auto& contents = matching_->contents();
  const auto probe = run_and_agree(*group_, [&] { return TieProbe(contents, now.wanted.ties); });
  const auto& tied = probe.wanted();
  const auto plan = plan_moves(now.plain(), tied, matching_->match(*group_, held_, tied));
  const auto room = room_to_pass_all(plan, options_.chunk_bytes);
  const auto buffer = run_and_agree(*group_, [&] {
    return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room.bytes()));
  });
  move(now.plain(), tied, plan, room, buffer.get());
  run_and_agree(*group_, [&] {
    const auto said = [&](int number) {
      return strings.at(contents.tensors[place_of(number)].key);
    };
    probe.require_equal([&](int a, int b) { return said(a) == said(b); });
  });
}

}  // namespace cairn
