// What a restart gets of a checkpoint on the nodes: parts that are there, and parts that are
// computed of what other nodes of the set have.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "cairn/sparse.hpp"
#include "format/bundle/strings.hpp"
#include "group/collectives.hpp"
#include "tier/place.hpp"
#include "tier/tier.hpp"

namespace cairn::tier {
namespace {

// The i-th of a node's parts is read by the i-th of its ranks, in turn: on the same nodes and ranks
// as before by the rank that wrote it.
std::vector<int> parts_of(const LocalSave& save, int node, const std::vector<int>& ranks,
                          int rank) {
  std::vector<int> mine;
  std::size_t seen = 0;
  for (int part = 0; part < save.map.ranks(); ++part) {
    if (save.part_at[nth(part)] != node) continue;
    if (ranks[seen++ % ranks.size()] == rank) mine.push_back(part);
  }
  return mine;
}

std::vector<int> on_all(Group& group, const std::vector<int>& mine) {
  std::vector<int> all;
  for (const auto& text : all_gather(group, WireWriter().put(mine).take())) {
    WireReader reader(text);
    const auto some = reader.get_all<int>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// What any rank could not use counts as lost; whether there is any.
bool forget(Group& group, const std::vector<int>& mine, std::vector<int>& at) {
  const auto all = on_all(group, mine);
  for (const int rank : all) at[nth(rank)] = -1;
  return !all.empty();
}

// As a save would be given it.
void add_part(const std::shared_ptr<Part>& part, std::map<std::string, LocalTensor>& tensors,
              std::map<std::string, Gathered::Strings>& strings) {
  for (const auto& entry : part->record().tensors) {
    const auto& slice = entry.slices.at(0);
    if (entry.dtype == DType::string) {
      std::string bytes(nth(slice.size), '\0');
      part->read(slice.offset, std::as_writable_bytes(std::span(bytes)));
      strings[entry.key] = {
          entry.shape, bundle::decode_strings(bytes, element_count(entry.shape), slice.crc32c)};
      continue;
    }
    const auto at = tensors.try_emplace(entry.key, nothing(entry.dtype, entry.shape)).first;
    const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
    at->second.slices.push_back(
        {slice.box, part_memory(part, slice.offset, slice.box.extent, item)});
  }
}

bool is_whole(const Part& part) {
  try {
    part.verify();
    return true;
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
    return false;
  }
}

bool is_whole(io::FileSystem& files, const io::Path& path, const std::string& uuid, int rank) {
  try {
    const Part part(files, path, uuid);
    return part.rank() == rank && is_whole(part);
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
    return false;
  }
}

}  // namespace

std::unique_ptr<Gathered> Tier::gather(LocalSave& save) {
  Group& group = *home_.group;
  // Each try but the last has found a part or parity that cannot be used.
  for (int tries = 0; tries <= 2 * save.map.ranks(); ++tries) {
    const auto lost = save.lost_nodes();
    // A reader writes nothing: the job that owns the checkpoints may be using the same folders.
    if (!lost || (!lost->empty() && home_.options.read_only)) break;
    if (!lost->empty() && !compute(save, *lost)) continue;
    auto gathered = std::make_unique<Gathered>();
    gathered->path_ = broadcast_text(group, place_of(save.map).string());
    std::vector<int> bad;
    std::map<std::string, LocalTensor> tensors;
    together(group, [&] {
      auto mine = parts_of(save, node_, ranks_at(node_), home_.rank());
      const auto at_home = parts_of(save, home_place(), ranks_at(home_place()), home_.rank());
      mine.insert(mine.end(), at_home.begin(), at_home.end());
      for (const int rank : mine) {
        try {
          const auto place = place_at(save.part_at[nth(rank)], save.map);
          const auto part =
              std::make_shared<Part>(place.files, place.path / cat("part-", rank), save.map.uuid);
          if (part->rank() != rank) throw Error(Code::data_loss, "a part of another rank");
          add_part(part, tensors, gathered->strings_);
          gathered->parts_.push_back(part);
        } catch (const Error& error) {
          if (error.code() != Code::data_loss && error.code() != Code::io &&
              error.code() != Code::not_found) {
            throw;
          }
          log(LogLevel::warning, error.what());
          bad.push_back(rank);
        }
      }
    });
    if (forget(group, bad, save.part_at)) continue;
    // What rank 0 of that job said of the checkpoint.
    const auto has_first = std::find_if(gathered->parts_.begin(), gathered->parts_.end(),
                                        [](const auto& part) { return part->rank() == 0; });
    const bool mine = has_first != gathered->parts_.end();
    const auto who =
        static_cast<int>(all_reduce(group, mine ? home_.rank() : std::int64_t{-1}, Group::Op::max));
    const auto meta = broadcast_text(group, mine ? [&] {
      auto record = (*has_first)->record();
      record.tensors.clear();
      return bundle::encode_part_record(record);
    }() : std::string(), who);
    together(group, [&] {
      gathered->meta_ = bundle::decode_part_record(meta).meta;
      for (auto& [key, tensor] : tensors) {
        const auto gaps = gathered->meta_.gaps.find(key);
        if (gaps != gathered->meta_.gaps.end()) {
          tensor = sparse(tensor, tensor.dtype, gaps->second->fill.data(), Gaps::keep);
        }
        gathered->state_.add(key, std::move(tensor));
      }
      for (const auto& [key, said] : gathered->meta_.descriptions.by_key) {
        gathered->state_.describe(key, said);
      }
      gathered->state_.describe(gathered->meta_.descriptions.attributes);
      for (auto& [key, one] : gathered->strings_) {
        auto tensor = strings(one.values);
        tensor.shape = one.shape;  // a scalar is no list of one
        gathered->state_.add(key, std::move(tensor));
      }
    });
    return gathered;
  }
  throw Error(
      Code::data_loss, cat("step ", save.map.step, " cannot be had from the nodes"),
      home_.options.read_only
          ? cat("parts of it are missing, which a read-only manager does not compute")
          : cat("of ", save.map.nodes(), " nodes too many are missing, or have lost their parts"),
      "Bring the nodes back, or restore an older checkpoint.")
      .at(everywhere());
}

bool Tier::learn_damage(LocalSave& save, const Gathered& gathered) {
  std::vector<int> bad;
  for (const auto& part : gathered.parts_) {
    // All damage at once: lost parts must not be computed from others that are damaged, too.
    if (part->is_damaged() || !is_whole(*part)) bad.push_back(part->rank());
  }
  return forget(*home_.group, bad, save.part_at);
}

// Whether all parts that are there are whole, as far as lost ones were computed from them.
bool Tier::look_for_damage(LocalSave& save) const {
  std::vector<int> bad;
  for (const int at : {node_, home_place()}) {
    for (const int rank : parts_of(save, at, ranks_at(at), home_.rank())) {
      const auto place = place_at(at, save.map);
      if (!is_whole(place.files, place.path / cat("part-", rank), save.map.uuid, rank)) {
        bad.push_back(rank);
      }
    }
  }
  return forget(*home_.group, bad, save.part_at);
}

// Pieces of lost nodes, on nodes that are there and have the least. False: something that they
// would be computed from cannot be used, and counts as lost from now on.
bool Tier::compute(LocalSave& save, const std::vector<int>& lost) {
  Group& group = *home_.group;
  const auto& map = save.map;
  const Sets sets(map);
  std::vector<int> load(nth(home_place()));
  for (int node = 0; node < map.nodes(); ++node) {
    const int at = save.piece_at(sets, node);
    if (at >= 0 && at != home_place()) ++load[nth(at)];
  }
  std::map<int, int> targets;  // by lost node
  for (const int node : lost) {
    const auto least = std::min_element(load.begin(), load.end());
    ++*least;
    targets[node] = static_cast<int>(least - load.begin());
  }
  if (home_.root()) {
    log(LogLevel::warning, cat("step ", map.step, ": the parts of ", lost.size(), " of ",
                               map.nodes(), " nodes are computed from the others'"));
  }
  const auto new_path = [&](int rank) { return place_of(map) / cat("new-", rank); };
  // Memory first, too: a rank that had none would leave others waiting for its blocks.
  std::vector<protect::Room> rooms(nth(sets.count()));
  together(group, [&] {
    for (int number = 0; number < sets.count(); ++number) {
      rooms[nth(number)] = protect::Room::to_compute(sets.set(number));
    }
    for (const auto& [node, target] : targets) {
      if (target != node_ || !is_leader()) continue;
      io::create_directories(*files_, place_of(map));
      for (const int rank : sets.ranks_of(node)) {
        io::remove_if_there(*files_, new_path(rank));
        const auto file = files_->create(new_path(rank));
        file->resize(map.part_bytes[nth(rank)]);
        file->close();
      }
    }
  });
  // Ranks work for several sets, and an error in one of them must not keep others waiting in the
  // next. What could not be read is known by rank.
  KeptError error;
  std::set<int> bad_parts, bad_parities;
  const auto reading = [](std::set<int>& bad, int rank, auto&& read) {
    try {
      read();
    } catch (...) {
      bad.insert(rank);
      throw;
    }
  };
  using Files = std::map<int, std::unique_ptr<io::File>>;
  for (int number = 0; number < sets.count(); ++number) {
    const auto& nodes = sets.nodes_of(number);
    const auto& old = sets.set(number);
    auto set = old;
    std::vector<protect::Stock> stock(nodes.size());
    bool concerned = false, any = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const int node = nodes[i];
      auto& member = set.members[i];
      const auto target = targets.find(node);
      member.is_lost = target != targets.end();
      const int at = member.is_lost ? target->second : save.piece_at(sets, node);
      member.has_parity = !member.is_lost && save.has_parity(sets, node);
      member.ranks = ranks_at(at);
      any = any || member.is_lost;
      if (at != node_ && at != home_place()) continue;
      concerned = true;
      const auto& ranks = sets.ranks_of(node);
      const auto place = place_at(at, map);
      stock[i].read_part = [&, read = reader_at(place, ranks)](int part, std::int64_t offset,
                                                               std::span<std::byte> to) {
        reading(bad_parts, ranks[nth(part)], [&] { read(part, offset, to); });
      };
      stock[i].read_parity = [&, i, place, open = std::make_shared<Files>()](
                                 std::int64_t block, std::span<std::byte> to) {
        const auto found = find_parity(old, static_cast<int>(i), block);
        reading(bad_parities, found.rank, [&] {
          auto& file = (*open)[found.rank];
          if (!file) file = place.files.open_read(place.path / cat("parity-", found.rank));
          const auto blocks = parity_blocks(old, static_cast<int>(i), found.rank);
          read_parity(*file, old, blocks, found.block, to);
        });
      };
      stock[i].write_part = [&, open = std::make_shared<Files>()](
                                int part, std::int64_t offset, std::span<const std::byte> bytes) {
        auto& file = (*open)[part];
        if (!file) file = files_->open_write(new_path(ranks[nth(part)]));
        file->write_at(offset, bytes);
      };
    }
    if (any && concerned)
      error.guard([&] { protect::compute_lost(group, set, stock, rooms[nth(number)]); });
  }
  const auto as_list = [](const std::set<int>& all) {
    return std::vector<int>(all.begin(), all.end());
  };
  const bool lacks_parts = forget(group, as_list(bad_parts), save.part_at);
  const bool lacks_parity = forget(group, as_list(bad_parities), save.parity_at);
  if (lacks_parts || lacks_parity) return false;
  agree(group, error.first());
  // Nothing that is there is replaced before what was computed has been proved.
  bool whole = true;
  for (const auto& [node, target] : targets) {
    if (target != node_) continue;
    std::size_t seen = 0;
    for (const int rank : sets.ranks_of(node)) {
      const auto& ranks = ranks_at(node_);
      if (ranks[seen++ % ranks.size()] != home_.rank()) continue;
      whole = is_whole(*files_, new_path(rank), map.uuid, rank) && whole;
    }
  }
  if (!all_of(group, whole)) {
    if (look_for_damage(save)) return false;
    throw Error(Code::data_loss, cat("step ", map.step, " cannot be had from the nodes"),
                "parity of it is damaged, from which lost parts were to be computed",
                "Bring the nodes back, or restore an older checkpoint.")
        .at(everywhere());
  }
  together(group, [&] {
    for (const auto& [node, target] : targets) {
      if (target != node_ || !is_leader()) continue;
      for (const int rank : sets.ranks_of(node)) {
        files_->rename(new_path(rank), place_of(map) / cat("part-", rank));
      }
      io::replace_file(*files_, place_of(map) / map_name, encode(map));
    }
  });
  for (const auto& [node, target] : targets) {
    for (const int rank : sets.ranks_of(node)) {
      save.part_at[nth(rank)] = target;
      save.parity_at[nth(rank)] = -1;
    }
  }
  return true;
}

}  // namespace cairn::tier
