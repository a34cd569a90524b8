// Computes lost or damaged parts of a checkpoint on the nodes from what other nodes of the set
// have: whole pieces of lost nodes, whole parts, and blocks of parts. A node with a wrong byte does
// not count as lost: each row of blocks is computed by itself, so two wrong bytes on two nodes cost
// two blocks. A damaged part is repaired in a copy, which replaces it when all its checksums are
// right. Only damage in the record of a part, which describes the bytes, makes the whole part
// useless.
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

// Finds out what cannot be used of a part that should be there.
Unusable look_at_part(const Address& at, const std::string& uuid, int rank,
                      std::int64_t block_bytes, LogLevel level = LogLevel::warning) {
  try {
    const NodeFile part(at, uuid);
    if (part.rank() == rank) return {false, part.bad_blocks(block_bytes, level)};
  } catch (const Error& error) {
    log(level, error.what());
  }
  return {true, {}};
}

// Returns whether a part that was computed is right. If it is not, its node is not the cause, so
// this logs no warning.
bool is_whole(const Address& at, const std::string& uuid, int rank) {
  const auto found = look_at_part(at, uuid, rank, stripe_bytes, LogLevel::info);
  return !found.all && found.blocks.empty();
}

// Copies the blocks that can be used, and notes those that turn out to be unreadable.
void copy_part(const Address& at, io::File& to, std::int64_t block_bytes,
               const std::set<std::int64_t>& bad_blocks, Unusable& found) {
  std::unique_ptr<io::File> from;
  try {
    from = at.open_read();
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

}  // namespace

// Collective. Checks the parts from which others were computed. Returns whether it found damage
// that was not known.
bool Tier::look_for_damage(LocalSave& save) const {
  const Sets sets(save.map);
  UnusableByRank bad;
  run_and_agree(*home_.group, [&] {
    for (const int at : {node_, home_place()}) {
      for (const int rank : my_parts(save, at)) {
        const auto place = place_at(at, save.map);
        auto found = look_at_part(place / cat("part-", rank), save.map.uuid, rank,
                                  sets.block_bytes_of(save.map.node_of[nth(rank)]));
        if (found.all || !found.blocks.empty()) bad[rank] = std::move(found);
      }
    }
  });
  return learn(save, bad);
}

// Computes what is lost or damaged: if a node has the rest of a piece, on that node; pieces of lost
// nodes on the nodes that have the fewest pieces. Public members that are not const are collective.
class Tier::Computation {
 public:
  Computation(Tier& tier, LocalSave& save)
      : tier_(tier), save_(save), map_(save.map), group_(*tier.home_.group), sets_(save.map) {
    choose_targets();
  }

  void announce() const {
    if (!tier_.home_.root()) return;
    std::vector<int> lost, damaged;
    for (const auto& [node, change] : changes_) (change.is_lost ? lost : damaged).push_back(node);
    const auto of = [&](const std::vector<int>& nodes) {
      return cat(nodes.size(), " of ", map_.nodes(), " nodes (", names_of(map_, nodes), ")");
    };
    log(LogLevel::warning,
        cat("step ", map_.step, ": ", lost.empty() ? "" : "the parts of " + of(lost),
            lost.empty() || damaged.empty() ? "" : " and ",
            damaged.empty() ? "" : "what is lost or damaged of " + of(damaged),
            lost.empty() ? " is" : " are", " computed from the others'"));
  }

  // Returns false if a part that it needs cannot be used either. That damage is known from then on.
  bool begin_parts() {
    run_and_agree(group_, [&] {
      // Memory is allocated before any message too: a rank without it would leave others waiting
      // for its blocks.
      for (int number = 0; number < sets_.count(); ++number) {
        rooms_.push_back(protect::Room::to_compute(sets_.set(number)));
      }
      for (const auto& [node, change] : changes_) {
        if (!is_mine(change)) continue;
        io::create_directories(*tier_.files_, tier_.place_of(map_));
        for (const int rank : change.ranks) begin_part(rank, change.is_lost);
      }
    });
    return !tier_.learn(save_, bad_parts_);
  }

  // A rank may work for several sets. An error in one set is kept until the end, so that the other
  // ranks of the next set do not wait. Returns false if some blocks could not be read; they are
  // noted by rank.
  bool compute_sets() {
    DeferredError error;
    for (int number = 0; number < sets_.count(); ++number) compute_set(number, error);
    if (tier_.learn(save_, bad_parts_, bad_parities_)) return false;
    agree(group_, error.first());
    return true;
  }

  // Returns whether the computed parts have the checksums that were saved.
  // The ranks of a node share the checking of what was computed there.
  bool is_proved() {
    bool whole = true;
    run_and_agree(group_, [&] {
      const auto& ranks = tier_.ranks_at(tier_.node_);
      for (const auto& [node, change] : changes_) {
        if (change.target != tier_.node_) continue;
        std::size_t seen = 0;
        for (const int rank : change.ranks) {
          if (ranks[seen++ % ranks.size()] != tier_.home_.rank()) continue;
          whole = is_whole({tier_.files_, new_path(rank)}, map_.uuid, rank) && whole;
        }
      }
    });
    return all_of(group_, whole);
  }

  // Each part replaces an older one by a rename. A node that had nothing of this save counts when
  // its map is there, so that comes last.
  void put_in_place() {
    auto& files = *tier_.files_;
    const bool sync = tier_.home_.options.tier.sync;
    const auto folder = tier_.place_of(map_);
    run_and_agree(group_, [&] {
      for (const auto& [node, change] : changes_) {
        if (!is_mine(change)) continue;
        for (const int rank : change.ranks) {
          // A new part must be durable before it replaces the old one.
          if (sync) files.open_write(new_path(rank))->sync();
          files.rename(new_path(rank), folder / cat("part-", rank));
        }
        io::replace_file(files, folder / map_name, encode(map_));
        if (sync) {
          files.sync_directory(folder);
          files.sync_directory(tier_.directory_);
        }
      }
    });
    for (const auto& [node, change] : changes_) {
      for (const int rank : change.ranks) {
        if (change.is_lost) save_.parity_at[nth(rank)] = -1;
        save_.part_at[nth(rank)] = change.target;
        save_.bad_blocks.erase(rank);
      }
    }
  }

 private:
  // Opens files at their first read, and notes what cannot be read.
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

  struct Change {
    int target = 0;  // the node that computes it
    bool is_lost = false;
    std::vector<int> ranks = {};  // the ranks whose parts change
  };

  // A node that has a part of its piece computes the rest itself. A lost piece goes to the node
  // with the fewest pieces; what home has only a part of, too, since nothing is computed there.
  void choose_targets() {
    std::vector<int> load(nth(tier_.home_place()));
    for (int node = 0; node < map_.nodes(); ++node) {
      const int at = save_.piece_at(sets_, node);
      if (at >= 0 && at != tier_.home_place()) ++load[nth(at)];
    }
    for (int node = 0; node < map_.nodes(); ++node) {
      const int at = save_.piece_at(sets_, node);
      Change change{at, at < 0};
      for (const int rank : sets_.ranks_of(node)) {
        if (at < 0 || !save_.has_part(rank) || save_.bad_blocks.count(rank)) {
          change.ranks.push_back(rank);
        }
      }
      if (change.ranks.empty()) continue;
      if (at < 0 || at == tier_.home_place()) {
        const auto least = std::min_element(load.begin(), load.end());
        ++*least;
        change.target = static_cast<int>(least - load.begin());
      }
      changes_[node] = std::move(change);
    }
  }

  bool is_mine(const Change& change) const {
    return change.target == tier_.node_ && tier_.is_leader();
  }
  io::Path new_path(int rank) const { return tier_.place_of(map_) / cat("new-", rank); }

  // Makes a file as long as the part, with those of its blocks that can be used.
  void begin_part(int rank, bool is_lost) {
    io::remove_if_there(*tier_.files_, new_path(rank));
    const auto file = tier_.files_->create(new_path(rank));
    file->resize(map_.part_bytes[nth(rank)]);
    if (!is_lost && save_.has_part(rank)) {
      const auto place = tier_.place_at(save_.part_at[nth(rank)], map_);
      Unusable found;
      copy_part(place / cat("part-", rank), *file, sets_.block_bytes_of(map_.node_of[nth(rank)]),
                save_.bad_blocks.at(rank), found);
      if (found.all || !found.blocks.empty()) bad_parts_[rank] = std::move(found);
    }
    file->close();
  }

  // Ranks take part for the pieces that their node has or computes, and for those at home. A set in
  // which nothing changes is left out on all ranks.
  void compute_set(int number, DeferredError& error) {
    const auto& nodes = sets_.nodes_of(number);
    auto set = save_.as_it_is(sets_, number);
    std::vector<protect::Stock> stock(nodes.size());
    bool concerned = false, any = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto change = changes_.find(nodes[i]);
      const bool changes = change != changes_.end();
      const int at = changes ? change->second.target : save_.piece_at(sets_, nodes[i]);
      set.members[i].ranks = tier_.ranks_at(at);
      any = any || changes;
      if (at != tier_.node_ && at != tier_.home_place()) continue;
      concerned = true;
      stock[i] = stock_of(number, static_cast<int>(i));
    }
    if (!any || !concerned) return;
    error.guard([&] { protect::compute_lost(group_, set, stock, rooms_[nth(number)]); });
  }

  // What this rank reads and writes for one member of a set.
  // Files are opened when they are first used, and stay open for the whole set.
  protect::Stock stock_of(int number, int member) {
    const auto& old = sets_.set(number);
    const auto& ranks = sets_.ranks_of(sets_.nodes_of(number)[nth(member)]);
    protect::Stock stock;
    stock.read_part = [&old, &ranks, files = noted_files("part-", save_.part_at, bad_parts_)](
                          int part, std::int64_t offset, std::span<std::byte> to) {
      files->read(ranks[nth(part)], offset / old.block_bytes,
                  [&](io::File& file) { file.read_at(offset, to); });
    };
    stock.read_parity = [&old, member,
                         files = noted_files("parity-", save_.parity_at, bad_parities_)](
                            std::int64_t number, std::span<std::byte> to) {
      const auto at = find_parity(old, member, number);
      const auto blocks = parity_blocks(old, member, at.rank);
      files->read(at.rank, at.block,
                  [&](io::File& file) { read_parity(file, old, blocks, at.block, to); });
    };
    stock.write_part = [this, &ranks,
                        open = std::make_shared<std::map<int, std::unique_ptr<io::File>>>()](
                           int part, std::int64_t offset, std::span<const std::byte> bytes) {
      auto& file = (*open)[part];
      if (!file) file = tier_.files_->open_write(new_path(ranks[nth(part)]));
      file->write_at(offset, bytes);
    };
    return stock;
  }

  std::shared_ptr<NotedFiles> noted_files(const char* kind, const std::vector<int>& where,
                                          UnusableByRank& bad) const {
    return std::make_shared<NotedFiles>(bad, [this, &where, kind](int rank) {
      const auto place = tier_.place_at(where[nth(rank)], map_);
      return (place / cat(kind, rank)).open_read();
    });
  }

  Tier& tier_;
  LocalSave& save_;
  const SaveMap& map_;
  Group& group_;
  const Sets sets_;
  std::map<int, Change> changes_;            // by node
  std::vector<protect::Room> rooms_;         // by set
  UnusableByRank bad_parts_, bad_parities_;  // what could not be read
};

// Computes into new files, proves them, then puts them in place. If a part that was used turns out
// to be damaged, returns false: the caller begins again with that knowledge.
bool Tier::compute_parts(LocalSave& save) {
  Computation work(*this, save);
  work.announce();
  if (!work.begin_parts() || !work.compute_sets()) return false;
  // No existing file is replaced before the computed ones have been checked.
  if (!work.is_proved()) {
    if (look_for_damage(save)) {
      if (home_.root()) {
        log(LogLevel::warning, cat("step ", save.map.step,
                                   ": parts were computed from bytes that are "
                                   "damaged, and are computed again without these: ",
                                   lacks(save)));
      }
      return false;
    }
    throw Error(
        Code::data_loss, cat("step ", save.map.step, " cannot be had from the nodes"),
        cat("parity of it is damaged, from which lost parts were to be computed: ", lacks(save)),
        "Bring the nodes back, or restore an older checkpoint.")
        .at(everywhere());
  }
  work.put_in_place();
  return true;
}

bool Tier::compute(LocalSave& save) {
  try {
    return compute_parts(save);
  } catch (const Error&) {
    // Unfinished parts would take room that saves need.
    const auto folder = place_of(save.map);
    if (is_leader()) try {
        for (const auto& name : files_->list(folder)) {
          if (number_behind(name, "new-") >= 0) io::try_remove(*files_, folder / name);
        }
      } catch (const Error& error) {  // the folder may be missing
        log(LogLevel::info, error.what());
      }
    throw;
  }
}

}  // namespace cairn::tier
