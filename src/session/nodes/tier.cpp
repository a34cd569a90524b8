// Finds out which rank is on which node and what is on the nodes, and removes older checkpoints.
#include "session/nodes/tier.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/host_name.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "store/commit/names.hpp"
#include "store/nodes/place.hpp"

namespace cairn::tier {
namespace {

// The job for saves on the nodes: each rank writes its slices to its node by itself, whatever
// format and writer are used for the manager's directory.
Job job_of_nodes(Job job) {
  job.options.store.format = Format::bundle;
  job.sharding.policy = nullptr;
  job.options.store.device_of = nullptr;
  job.options.write.writer = Writer::posix;
  job.options.write.io_ranks = {.choice = IoRanks::Choice::everyone};
  job.places.served_by.clear();
  job.places.file_of.clear();
  return job;
}

}  // namespace

Tier::Tier(const Job& home) : home_(home), job_(home), plans_(job_) {}

void Tier::require_options() const {
  const auto& tier = home_.options.tier;
  const bool loses = tier.protection != Protection::reed_solomon ||
                     (tier.lost_nodes >= 1 && tier.lost_nodes < tier.set_nodes);
  if (tier.set_nodes < 2 || tier.set_nodes > protect::most_nodes || !loses || tier.keep < 1 ||
      tier.home_every < 0 || tier.flush_bytes_per_second < 0) {
    throw Error(Code::invalid_argument, "a number of TierOptions cannot be used",
                cat("set_nodes ", tier.set_nodes, ", lost_nodes ", tier.lost_nodes, ", keep ",
                    tier.keep, ", home_every ", tier.home_every, ", flush_bytes_per_second ",
                    tier.flush_bytes_per_second),
                "set_nodes is 2 to 128, lost_nodes at least 1 and less than set_nodes, keep at "
                "least 1, the others at least 0.");
  }
  if (home_.options.hooks.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers write to the manager's directory alone",
              "their files are no part of a checkpoint on the nodes",
              "Leave the savers or TierOptions::directory out.");
}

// Numbers nodes in the order of their first ranks. The number is the same on all ranks, since all
// see the same list.
void Tier::find_nodes() {
  Group& group = *home_.group;
  auto name = home_.options.tier.node;
  if (name.empty()) {
    if (const char* given = std::getenv("CAIRN_NODE")) name = given;
  }
  // Without a name of its own, a node is known by its number in the group.
  const auto mine = name.empty() ? cat("#", home_.places.node_of[nth(home_.rank())]) : name;
  std::vector<std::string> names;  // of the nodes
  node_of_.clear();
  ranks_at_.clear();
  names_.clear();
  const auto shown = name.empty() ? host_name() : name;
  for (const auto& text : all_gather(group, pack(std::pair(mine, shown)))) {
    auto [one, for_people] = unpack<std::pair<std::string, std::string>>(text);
    auto at = std::find(names.begin(), names.end(), one);
    if (at == names.end()) {
      const auto number = names.size();
      // Names for people may be equal, for instance those of nodes that a test simulates; then a
      // number follows.
      const bool is_told =
          !for_people.empty() && std::count(names_.begin(), names_.end(), for_people) == 0;
      names_.push_back(is_told ? for_people : cat(for_people, '#', number));
      names.push_back(std::move(one));
      at = names.end() - 1;
      ranks_at_.emplace_back();
    }
    const auto node = static_cast<int>(at - names.begin());
    ranks_at_[nth(node)].push_back(static_cast<int>(node_of_.size()));
    node_of_.push_back(node);
  }
  node_ = node_of_[nth(home_.rank())];
  names_.push_back(home_.directory.string());
  // All ranks can read the pieces that were copied to the directory.
  auto& all = ranks_at_.emplace_back();
  for (int rank = 0; rank < group.size(); ++rank) all.push_back(rank);
  const auto text = home_.options.tier.directory.string();
  directory_ = run_and_agree(group, [&] { return node_directory(text, name); });
}

// Collective. Finds nodes that share one directory: they are lost together, and cannot protect each
// other. Returns their names, or an empty text.
std::string Tier::sharers() {
  Group& group = *home_.group;
  // Each node's leader writes a token of this opening; then each rank lists its directory. If it
  // sees the tokens of several nodes, they share the directory; if it sees none, ranks of one node
  // do not.
  const auto opening = from_root(group, [] { return commit::new_uuid(); });
  const auto prefix = cat("token-", opening, "-");
  const auto token = directory_ / cat(prefix, node_);
  run_and_agree(group, [&] {
    if (is_leader()) io::write_file(*files_, token, "");
  });
  const auto shared = run_and_agree(group, [&] {
    std::vector<std::string> seen;
    if (io::exists(*files_, directory_)) {
      for (const auto& name : files_->list(directory_)) {
        const int node = number_behind(name, prefix);
        if (node >= 0 && node < home_place()) seen.push_back(name_of(node));
      }
    }
    if (seen.size() == 1) return std::string();
    if (seen.size() > 1) return cat(some_of(seen), ", all in ", directory_.string());
    throw Error(Code::invalid_argument, "ranks of one node do not share the directory of the tier",
                cat("this rank does not see what rank ", ranks_at(node_).front(), " has in ",
                    directory_.string()),
                "Let nodes that have a disk or memory of their own have names of their own "
                "(TierOptions::node, CAIRN_NODE).")
        .at(directory_.string());
  });
  const auto told = all_gather(group, shared);
  const auto some =
      std::find_if(told.begin(), told.end(), [](const auto& one) { return !one.empty(); });
  const bool any = some != told.end();
  run_and_agree(group, [&] {
    if (!is_leader()) return;
    for (const auto& name : files_->list(directory_)) {
      // This also removes tokens of openings that were killed.
      if (name.rfind("token-", 0) == 0 && (name == token.filename() || !any)) {
        io::try_remove(*files_, directory_ / name);
      }
    }
  });
  return any ? *some : "";
}

// Makes the tier's directory on this node, in it one for the home, and in that one for this
// manager.
// Each level is made by all nodes, and checked to be this user's own, before the next one.
void Tier::make_directories() {
  Group& group = *home_.group;
  const bool reads = home_.options.read_only, is_posix = !home_.options.tier.file_system;
  run_and_agree(group, [&] {
    if (home_.root() && !reads) require_no_links(*home_.files, home_.directory);
  });
  const auto make_own = [&] {
    if (!is_leader()) return;
    if (!reads) io::create_directories(*files_, directory_);
    if (is_posix) require_own(directory_);
  };
  run_and_agree(group, [&] {
    if (is_leader() && is_posix) require_way(directory_);
  });
  run_and_agree(group, make_own);
  directory_ /= home_id_;
  run_and_agree(group, make_own);
  directory_ /= home_.naming.name;
  run_and_agree(group, make_own);
  const auto shared = reads ? "" : sharers();
  if (shared.empty()) return;
  throw Error(Code::invalid_argument, "nodes share the directory of the tier",
              cat(everywhere(), " is the same for several nodes (", shared,
                  "), so that it would be lost with any of them"),
              "Name one on each node's own disk or memory; %h or %n in the text stands for the "
              "node.")
      .at(everywhere());
}

// Notes on the node which home it belongs to, for tools that clean up later; a full node does
// without. Warns if the tier is on the same disk as the home.
void Tier::tell_of_home(const io::Path& given) const {
  const bool reads = home_.options.read_only;
  if (is_leader() && !reads) try {
      note_home(*files_, given, home_id_, home_.directory, *home_.files);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("this node does not note its home: ", error.what()));
    }
  const bool with_home =
      any_of(*home_.group, is_leader() && !home_.options.tier.file_system && !reads &&
                               are_on_one_disk(given, home_.directory));
  if (with_home && home_.root()) {
    log(LogLevel::warning, cat("the tier ", given.string(), " is on the same disk as ",
                               home_.directory.string(), ": it is no faster, and lost with it"));
  }
}

// Decides whether these nodes can protect each other, and warns if they protect less than was asked
// for.
void Tier::choose_protection() {
  const auto& options = home_.options.tier;
  const int lost = options.protection == Protection::reed_solomon ? options.lost_nodes : 1;
  const bool asked = options.protection != Protection::none;
  protects_ = asked && home_place() > 1;
  if (!asked || !home_.root()) return;
  if (!protects_) {
    log(LogLevel::warning, "one node cannot protect itself: checkpoints on it are lost with it");
    return;
  }
  for (const auto& set : protect::deal_sets(home_place(), options.set_nodes, lost + 1)) {
    if (std::ssize(set) > lost) continue;
    log(LogLevel::warning, cat("of ", set.size(), " nodes that protect each other ", set.size() - 1,
                               " may be lost, not ", lost));
    break;
  }
}

void Tier::open(const std::string& home_id) {
  run_and_agree(*home_.group, [&] { require_options(); });
  job_ = job_of_nodes(home_);
  find_nodes();
  files_ = files_for(home_.options.tier.file_system, {});
  home_id_ = home_id;
  const auto given = directory_;
  make_directories();
  tell_of_home(given);
  choose_protection();
  plans_.begin(0);
  list();
}

io::Path Tier::place_of(const SaveMap& map) const { return directory_ / save_name(map); }

io::Path Tier::own_part(const SaveMap& map) const {
  return place_of(map) / cat("part-", home_.rank());
}

Address Tier::pieces() const {
  return {home_.files, pieces_at(home_.directory) / home_.naming.name};
}

Address Tier::place_at(int node, const SaveMap& map) const {
  if (node == home_place()) return pieces() / save_name(map);
  return {files_, place_of(map)};
}

struct SentSave {
  std::string map;  // encoded by encode()
  Stocked stocked;
};

// What a folder of this node, or of the home, has of the saves whose map is there.
std::string Tier::report(const Address& folder) const {
  Packed<SentSave> saves;
  for (const auto& map : list_maps(folder)) {
    Stocked stocked;
    try {
      stocked = look_at_save(folder / save_name(map), map);
    } catch (const Error& error) {  // only this save counts as lost
      log(LogLevel::warning, error.what());
    }
    saves.add({encode(map), std::move(stocked)});
  }
  return std::move(saves.bytes);
}

void Tier::join(const std::string& report, int node) {
  for (auto& [map, stocked] : unpack_each<SentSave>(report)) {
    add_copies(saves_, decode_map(map), node, std::move(stocked), home_place());
  }
}

// Leaders report what their nodes have, and rank 0 what was copied to the directory. All ranks join
// all reports, so saves_ is the same on all of them.
void Tier::list() {
  Group& group = *home_.group;
  const auto mine = run_and_agree(group, [&] {
    return is_leader() ? report({files_, directory_}) : std::string();
  });
  const auto at_home =
      from_root(group, [&] { return are_own(pieces()) ? report(pieces()) : std::string(); });
  const auto reports = all_gather(group, mine);
  run_and_agree(group, [&] {
    saves_.clear();
    join(at_home, home_place());
    for (std::size_t rank = 0; rank < reports.size(); ++rank) join(reports[rank], node_of_[rank]);
    resolve_saves(saves_);
  });
}

void Tier::forget_pieces(std::int64_t sequence) const {
  if (!home_.root()) return;
  try {
    for (const auto& map : list_maps(pieces())) {
      if (map.sequence > sequence) continue;
      remove_own_save(*home_.files, pieces().path() / save_name(map), home_id_);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("pieces in ", pieces().string(), " stay: ", error.what()));
  }
}

// Decides from saves_, which is the same on all ranks, so that every node removes the same saves
// without a message.
void Tier::prune(const std::string& uuid) {
  std::sort(saves_.begin(), saves_.end(),
            [](const auto& a, const auto& b) { return a.map.sequence > b.map.sequence; });
  // The save that was just made comes first: this run descends from no save with a higher sequence.
  const auto at = std::find_if(saves_.begin(), saves_.end(),
                               [&](const auto& one) { return one.map.uuid == uuid; });
  if (at != saves_.end()) std::rotate(saves_.begin(), at, at + 1);
  // A save that cannot be restored must not push out one that can.
  std::erase_if(saves_, [&](const auto& one) {
    return one.map.uuid != uuid && one.map.uuid != held_ && (one.superseded || !one.can_be_had());
  });
  if (saves_.size() > nth(home_.options.tier.keep)) {
    saves_.erase(std::remove_if(saves_.begin() + home_.options.tier.keep, saves_.end(),
                                [&](const auto& one) { return one.map.uuid != held_; }),
                 saves_.end());
  }
  // What was copied home of older saves is of no use now that a newer one is safe.
  forget_pieces(saves_.front().map.sequence - 1);
  if (!is_leader()) return;
  try {
    for (const auto& name : files_->list(directory_)) {
      const bool stays = std::any_of(saves_.begin(), saves_.end(),
                                     [&](const auto& one) { return name == save_name(one.map); });
      if (!stays) remove_own_save(*files_, directory_ / name, home_id_);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("older checkpoints on this node stay: ", error.what()));
  }
}

}  // namespace cairn::tier
