// What a restart gets of a checkpoint on the nodes. Lost parts are computed before anything is
// read: computing needs messages, and reading is local work. If a read finds a wrong byte, all
// ranks check all their parts, and the restart begins again with what they found. So only this rare
// case costs a second pass.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "cairn/sparse.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/refreshed_state.hpp"
#include "session/nodes/tier.hpp"
#include "store/nodes/place.hpp"

namespace cairn::tier {
namespace {

// Collective. Gives all ranks what each of them has found unusable.
UnusableByRank on_all(Group& group, const UnusableByRank& mine) {
  UnusableByRank all;
  for (const auto& text : all_gather(group, pack(mine))) {
    for (auto& [rank, more] : unpack<UnusableByRank>(text)) {
      auto& what = all[rank];
      what.all |= more.all;
      what.blocks.merge(more.blocks);
    }
  }
  return all;
}

}  // namespace

// Adds a rank's slices to the state, in the way an application gives them to a save.
void Gathered::add_part(std::shared_ptr<NodeFile> part) {
  for (const auto& entry : part->record().tensors) {
    const auto& slice = entry.slices.at(0);
    if (entry.dtype == DType::string) {
      std::string bytes(nth(slice.stored_bytes), '\0');
      part->read(slice.offset, std::as_writable_bytes(std::span(bytes)));
      strings_[entry.key] = {
          entry.shape, bundle::decode_strings(bytes, element_count(entry.shape), slice.crc32c)};
      continue;
    }
    const auto at = tensors_.try_emplace(entry.key, nothing(entry.dtype, entry.shape)).first;
    if (at->second.dtype != entry.dtype || at->second.shape != entry.shape) {
      throw Error(Code::data_loss, "parts of a checkpoint on the nodes disagree",
                  cat("about dtype or shape of '", entry.key, "'"));
    }
    const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
    at->second.slices.push_back(
        {slice.box, part_memory(part, slice.offset, slice.box.extent, item)});
  }
  parts_.push_back(std::move(part));
}

// Collective. What rank 0 of the job that saved recorded of the checkpoint: a record without
// tensors.
std::string Gathered::said_by_first(Group& group) const {
  const auto first = std::find_if(parts_.begin(), parts_.end(),
                                  [](const auto& part) { return part->rank() == 0; });
  const bool mine = first != parts_.end();
  const auto who =
      static_cast<int>(all_reduce(group, mine ? group.rank() : std::int64_t{-1}, Group::Op::max));
  if (!mine) return broadcast_text(group, "", who);
  auto record = (*first)->record();
  record.tensors.clear();
  return broadcast_text(group, bundle::encode_part_record(record), who);
}

// Makes the state from the parts and from that record.
void Gathered::make_state() {
  for (auto& [key, tensor] : tensors_) {
    const auto gaps = meta_.gaps.find(key);
    if (gaps != meta_.gaps.end()) {
      if (gaps->second->fill.size() != dtype_size(tensor.dtype)) {
        throw Error(Code::data_loss, "a part of a checkpoint on the nodes is damaged",
                    cat("the fill value of '", key, "' is of another dtype"));
      }
      // The parts do not cover such a tensor; as a sparse one it may have gaps.
      tensor = sparse(tensor, tensor.dtype, gaps->second->fill.data(), Gaps::keep);
    }
    state_.add(key, std::move(tensor));
  }
  tensors_.clear();
  RefreshedState::describe(state_, meta_.descriptions);
  for (auto& [key, one] : strings_) {
    auto tensor = strings(one.values);
    tensor.shape = one.shape;  // a scalar is stored with its own shape, not as a list of one
    state_.add(key, std::move(tensor));
  }
}

// The ranks that read the parts of a node. If no io rank is there, its first rank reads them.
std::vector<int> Tier::readers_at(int node, Readers readers) const {
  const auto& ranks = ranks_at(node);
  if (readers == Readers::all) return ranks;
  std::vector<int> some;
  for (const int rank : ranks) {
    if (home_.io_rank_of(rank) == rank) some.push_back(rank);
  }
  if (some.empty()) some.push_back(ranks.front());
  return some;
}

int Tier::count(Readers readers) const {
  int all = 0;
  for (int node = 0; node < home_place(); ++node) {
    all += static_cast<int>(readers_at(node, readers).size());
  }
  return all;
}

// The readers of a node take its parts in turn: the i-th reader reads the i-th part. So each rank
// reads the part that it wrote, if all ranks read and the nodes and ranks are the same as before.
std::vector<int> Tier::my_parts(const LocalSave& save, int node, Readers readers) const {
  const auto ranks = readers_at(node, readers);
  std::vector<int> mine;
  std::size_t seen = 0;
  for (int part = 0; part < save.map.ranks(); ++part) {
    if (save.part_at[nth(part)] != node) continue;
    if (ranks[seen++ % ranks.size()] == home_.rank()) mine.push_back(part);
  }
  return mine;
}

bool Tier::learn(LocalSave& save, const UnusableByRank& parts,
                 const UnusableByRank& parities) const {
  Group& group = *home_.group;
  const auto all_parts = on_all(group, parts);
  return save.learn(all_parts, on_all(group, parities));
}

// Reads the parts of this rank. Returns what cannot be used.
// A part that cannot be used is no error here: gather() lets all ranks learn of it, and computes
// it.
UnusableByRank Tier::read_own_parts(const LocalSave& save, Readers readers,
                                    Gathered& gathered) const {
  UnusableByRank bad;
  auto mine = my_parts(save, node_, readers);
  const auto at_home = my_parts(save, home_place(), readers);
  mine.insert(mine.end(), at_home.begin(), at_home.end());
  for (const int rank : mine) {
    try {
      const auto place = place_at(save.part_at[nth(rank)], save.map);
      auto part = std::make_shared<NodeFile>(place / cat("part-", rank), save.map.uuid);
      if (part->rank() != rank) throw Error(Code::data_loss, "a part of another rank");
      gathered.add_part(std::move(part));
    } catch (const Error& error) {
      if (error.code() != Code::data_loss && error.code() != Code::io &&
          error.code() != Code::not_found) {
        throw;
      }
      log(LogLevel::warning, error.what());
      bad[rank].all = true;
    }
  }
  return bad;
}

// Says what is missing. Lost nodes have the names that they had in the job that saved; damaged
// parts are listed by the nodes where they are now.
std::string Tier::lacks(const LocalSave& save) const {
  const Sets sets(save.map);
  std::vector<int> gone, partly;
  std::set<std::string> damaged;
  for (int node = 0; node < save.map.nodes(); ++node) {
    const auto& ranks = sets.ranks_of(node);
    const auto there =
        std::count_if(ranks.begin(), ranks.end(), [&](int rank) { return save.has_part(rank); });
    if (there < std::ssize(ranks)) (there == 0 ? gone : partly).push_back(node);
    for (const int rank : ranks) {
      if (save.bad_blocks.contains(rank) && save.has_part(rank))
        damaged.insert(name_of(save.part_at[nth(rank)]));
      if (save.bad_parities.contains(rank) && save.parity_at[nth(rank)] >= 0)
        damaged.insert(name_of(save.parity_at[nth(rank)]));
    }
  }
  std::string text;
  const auto add = [&](const char* what, const std::string& names) {
    if (!names.empty()) text += cat(text.empty() ? "" : "; ", what, names);
  };
  add("not there, or nothing of it can be used: ", names_of(save.map, gone));
  add("some parts are gone of ", names_of(save.map, partly));
  add("damaged bytes on ", some_of({damaged.begin(), damaged.end()}));
  return text;
}

// Computes what is missing, reads what is there, and begins again whenever a rank has found
// something that cannot be used.
std::unique_ptr<Gathered> Tier::gather(LocalSave& save, Readers readers) {
  Group& group = *home_.group;
  // The loop ends, since each further try has found something more that cannot be used.
  while (save.can_be_had()) {
    // A reader computes nothing, since it would have to write: the job that owns the checkpoints
    // may be using these folders.
    if (!save.is_complete() && home_.options.read_only) break;
    if (!save.is_complete() && !compute(save)) continue;
    auto gathered = std::make_unique<Gathered>();
    gathered->path_ = broadcast_text(group, place_of(save.map).string());
    const auto bad = run_and_agree(group, [&] { return read_own_parts(save, readers, *gathered); });
    // All ranks get the same result, so all of them begin again or none does.
    if (learn(save, bad)) continue;
    const auto said = gathered->said_by_first(group);
    run_and_agree(group, [&] {
      gathered->meta_ = bundle::decode_part_record(said).meta;
      gathered->make_state();
    });
    // Later restores must know where the parts are now.
    for (auto& known : saves_) {
      if (known.map.uuid == save.map.uuid && &known != &save) known = save;
    }
    return gathered;
  }
  throw Error(Code::data_loss, cat("step ", save.map.step, " cannot be had from the nodes"),
              home_.options.read_only
                  ? cat("parts of it are missing, which a read-only manager does not compute: ",
                        lacks(save))
                  : cat("of ", save.map.nodes(),
                        " nodes too many are missing, or have lost their bytes: ", lacks(save)),
              "Bring the nodes back, or restore an older checkpoint.")
      .at(everywhere());
}

bool Tier::learn_damage(LocalSave& save, const Gathered& gathered) {
  const Sets sets(save.map);
  UnusableByRank bad;
  run_and_agree(*home_.group, [&] {
    for (const auto& part : gathered.parts_) {
      const bool was_damaged = part->is_damaged();
      // All damage is found at once: nothing may be computed from other damaged bytes.
      auto blocks = part->bad_blocks(sets.block_bytes_of(save.map.node_of[nth(part->rank())]));
      if (!was_damaged && blocks.empty()) continue;
      // A part that was wrong once is not trusted even if it is now read without an error.
      bad[part->rank()] = {blocks.empty(), std::move(blocks)};
    }
  });
  return learn(save, bad);
}

}  // namespace cairn::tier
