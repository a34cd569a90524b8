// What of a checkpoint on the nodes is lost or damaged is computed of what other nodes of the set
// have: whole pieces of lost nodes, parts, and blocks of parts.
#include <algorithm>
#include <functional>
#include <map>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/nodes/tier.hpp"
#include "store/nodes/place.hpp"

namespace cairn::tier {
namespace {

// What cannot be used of a part that should be there.
Unusable look_at_part(io::FileSystem& files, const io::Path& path, const std::string& uuid,
                      int rank, std::int64_t block_bytes) {
  try {
    const Part part(files, path, uuid);
    if (part.rank() == rank) return {false, part.bad_blocks(block_bytes)};
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
  }
  return {true, {}};
}

bool is_whole(io::FileSystem& files, const io::Path& path, const std::string& uuid, int rank) {
  const auto found = look_at_part(files, path, uuid, rank, stripe_bytes);
  return !found.all && found.blocks.empty();
}

// A copy of what can be used; what cannot, though nobody knew, is noted.
void copy_part(io::FileSystem& files, const io::Path& path, io::File& to, std::int64_t block_bytes,
               const std::set<std::int64_t>& bad_blocks, Unusable& found) {
  std::unique_ptr<io::File> from;
  try {
    from = files.open_read(path);
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
    found.all = true;
    return;
  }
  std::vector<std::byte> buffer;
  const auto bytes = to.size();
  for (std::int64_t block = 0; block * block_bytes < bytes; ++block) {
    if (bad_blocks.count(block)) continue;
    const auto at = block * block_bytes;
    buffer.resize(nth(std::min(block_bytes, bytes - at)));
    try {
      from->read_at(at, buffer);
    } catch (const Error& error) {
      log(LogLevel::warning, error.what());
      found.blocks.insert(block);
      continue;
    }
    to.write_at(at, buffer);
  }
}

// Files that are opened when they are first read; what of them cannot be read is noted.
class NotedFiles {
 public:
  using Open = std::function<std::unique_ptr<io::File>(int rank)>;
  NotedFiles(UnusableByRank& bad, Open open) : bad_(bad), open_(std::move(open)) {}

  template <class Read>
  void read(int rank, std::int64_t block, Read&& read) {
    auto& file = files_[rank];
    try {
      if (!file) file = open_(rank);
      read(*file);
    } catch (...) {
      auto& bad = bad_[rank];
      if (file) bad.blocks.insert(block);
      bad.all = bad.all || !file;
      throw;
    }
  }

 private:
  UnusableByRank& bad_;
  Open open_;
  std::map<int, std::unique_ptr<io::File>> files_;
};

}  // namespace

// Whether more is damaged than was known, of the parts that others were computed from.
bool Tier::look_for_damage(LocalSave& save) const {
  const Sets sets(save.map);
  UnusableByRank bad;
  together(*home_.group, [&] {
    for (const int at : {node_, home_place()}) {
      for (const int rank : my_parts(save, at)) {
        const auto place = place_at(at, save.map);
        auto found = look_at_part(place.files, place.path / cat("part-", rank), save.map.uuid, rank,
                                  sets.block_bytes_of(save.map.node_of[nth(rank)]));
        if (found.all || !found.blocks.empty()) bad[rank] = std::move(found);
      }
    }
  });
  return learn(save, bad);
}

// What is lost and damaged, where the rest of a piece is, and of lost nodes on those that have the
// least. False: something that it would be computed from cannot be used either, which is known from
// now on.
bool Tier::compute_parts(LocalSave& save) {
  Group& group = *home_.group;
  const auto& map = save.map;
  const Sets sets(map);
  std::vector<int> load(nth(home_place()));
  for (int node = 0; node < map.nodes(); ++node) {
    const int at = save.piece_at(sets, node);
    if (at >= 0 && at != home_place()) ++load[nth(at)];
  }
  std::map<int, int> targets;                // by node
  std::map<int, std::vector<int>> computed;  // ranks whose parts change, by node
  int lost = 0;
  for (int node = 0; node < map.nodes(); ++node) {
    const int at = save.piece_at(sets, node);
    for (const int rank : sets.ranks_of(node)) {
      if (at < 0 || !save.has_part(rank) || save.bad_blocks.count(rank)) {
        computed[node].push_back(rank);
      }
    }
    if (!computed.count(node)) continue;
    targets[node] = at;
    lost += at < 0;
    if (at >= 0 && at != home_place()) continue;
    const auto least = std::min_element(load.begin(), load.end());
    ++*least;
    targets[node] = static_cast<int>(least - load.begin());
  }
  if (home_.root()) {
    const auto damaged = static_cast<int>(std::ssize(targets)) - lost;
    const auto of_lost = cat("the parts of ", lost, " of ", map.nodes(), " nodes");
    const auto of_damaged = cat("what is damaged on ", damaged, " of ", map.nodes(), " nodes");
    log(LogLevel::warning,
        cat("step ", map.step, ": ", lost > 0 ? of_lost : "",
            lost > 0 && damaged > 0 ? " and " : "", damaged > 0 ? of_damaged : "",
            lost > 0 ? " are" : " is", " computed from the others'"));
  }
  const auto new_path = [&](int rank) { return place_of(map) / cat("new-", rank); };
  const auto part_place = [&](int rank) { return place_at(save.part_at[nth(rank)], map); };
  // Memory first, too: a rank that had none would leave others waiting for its blocks.
  std::vector<protect::Room> rooms(nth(sets.count()));
  // Ranks work for several sets, and an error in one of them must not keep others waiting in the
  // next. What could not be read is known by rank.
  UnusableByRank bad_parts, bad_parities;
  together(group, [&] {
    for (int number = 0; number < sets.count(); ++number) {
      rooms[nth(number)] = protect::Room::to_compute(sets.set(number));
    }
    for (const auto& [node, target] : targets) {
      if (target != node_ || !is_leader()) continue;
      io::create_directories(*files_, place_of(map));
      const bool is_lost = save.piece_at(sets, node) < 0;
      for (const int rank : computed[node]) {
        io::remove_if_there(*files_, new_path(rank));
        const auto file = files_->create(new_path(rank));
        file->resize(map.part_bytes[nth(rank)]);
        if (!is_lost && save.has_part(rank)) {
          const auto place = part_place(rank);
          Unusable found;
          copy_part(place.files, place.path / cat("part-", rank), *file, sets.block_bytes_of(node),
                    save.bad_blocks.at(rank), found);
          if (found.all || !found.blocks.empty()) bad_parts[rank] = std::move(found);
        }
        file->close();
      }
    }
  });
  if (learn(save, bad_parts)) return false;
  KeptError error;
  for (int number = 0; number < sets.count(); ++number) {
    const auto& nodes = sets.nodes_of(number);
    const auto& old = sets.set(number);
    auto set = save.as_it_is(sets, number);
    std::vector<protect::Stock> stock(nodes.size());
    bool concerned = false, any = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const int node = nodes[i];
      auto& member = set.members[i];
      const auto target = targets.find(node);
      const bool changes = target != targets.end();
      const int at = changes ? target->second : save.piece_at(sets, node);
      member.ranks = ranks_at(at);
      any = any || changes;
      if (at != node_ && at != home_place()) continue;
      concerned = true;
      const auto& ranks = sets.ranks_of(node);
      const auto files_of = [&](const char* kind, const std::vector<int>& where,
                                UnusableByRank& bad) {
        return std::make_shared<NotedFiles>(bad, [this, &map, &where, kind](int rank) {
          const auto place = place_at(where[nth(rank)], map);
          return place.files.open_read(place.path / cat(kind, rank));
        });
      };
      stock[i].read_part = [&, files = files_of("part-", save.part_at, bad_parts)](
                               int part, std::int64_t offset, std::span<std::byte> to) {
        files->read(ranks[nth(part)], offset / old.block_bytes,
                    [&](io::File& file) { file.read_at(offset, to); });
      };
      stock[i].read_parity = [&, i, files = files_of("parity-", save.parity_at, bad_parities)](
                                 std::int64_t number, std::span<std::byte> to) {
        const auto at = find_parity(old, static_cast<int>(i), number);
        const auto blocks = parity_blocks(old, static_cast<int>(i), at.rank);
        files->read(at.rank, at.block,
                    [&](io::File& file) { read_parity(file, old, blocks, at.block, to); });
      };
      stock[i].write_part = [&,
                             open = std::make_shared<std::map<int, std::unique_ptr<io::File>>>()](
                                int part, std::int64_t offset, std::span<const std::byte> bytes) {
        auto& file = (*open)[part];
        if (!file) file = files_->open_write(new_path(ranks[nth(part)]));
        file->write_at(offset, bytes);
      };
    }
    if (any && concerned)
      error.guard([&] { protect::compute_lost(group, set, stock, rooms[nth(number)]); });
  }
  if (learn(save, bad_parts, bad_parities)) return false;
  agree(group, error.first());
  // Nothing that is there is replaced before what was computed has been proved.
  bool whole = true;
  together(group, [&] {
    for (const auto& [node, target] : targets) {
      if (target != node_) continue;
      std::size_t seen = 0;
      for (const int rank : computed[node]) {
        const auto& ranks = ranks_at(node_);
        if (ranks[seen++ % ranks.size()] != home_.rank()) continue;
        whole = is_whole(*files_, new_path(rank), map.uuid, rank) && whole;
      }
    }
  });
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
      const bool sync = home_.options.tier.sync;
      for (const int rank : computed[node]) {
        // Before it takes the place of what is durable.
        if (sync) files_->open_write(new_path(rank))->sync();
        files_->rename(new_path(rank), place_of(map) / cat("part-", rank));
      }
      io::replace_file(*files_, place_of(map) / map_name, encode(map));
      if (sync) {
        files_->sync_directory(place_of(map));
        files_->sync_directory(directory_);
      }
    }
  });
  for (const auto& [node, target] : targets) {
    const bool is_lost = save.piece_at(sets, node) < 0;
    for (const int rank : sets.ranks_of(node)) {
      if (is_lost) save.parity_at[nth(rank)] = -1;
    }
    for (const int rank : computed[node]) {
      save.part_at[nth(rank)] = target;
      save.bad_blocks.erase(rank);
    }
  }
  return true;
}

bool Tier::compute(LocalSave& save) {
  try {
    return compute_parts(save);
  } catch (const Error&) {
    // Half-made parts would take room that saves need.
    const auto folder = place_of(save.map);
    if (is_leader()) try {
        for (const auto& name : files_->list(folder)) {
          if (number_behind(name, "new-") >= 0) io::try_remove(*files_, folder / name);
        }
      } catch (const Error& error) {  // or there is no folder
        log(LogLevel::info, error.what());
      }
    throw;
  }
}

}  // namespace cairn::tier
