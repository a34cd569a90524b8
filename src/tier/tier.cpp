// Who is on which node, what is there, and older checkpoints that go.
#include "tier/tier.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "commit/names.hpp"
#include "group/collectives.hpp"

namespace cairn::tier {
namespace {

constexpr std::string_view map_name = "map";
constexpr std::int64_t most_map_bytes = std::int64_t{1} << 30;

// The nodes are written slice by slice, by each rank for itself, whatever the manager's directory
// gets.
Job job_of_nodes(Job job) {
  job.options.store.format = Format::bundle;
  job.options.store.policy = nullptr;
  job.options.store.device_of = nullptr;
  job.options.write.writer = Writer::posix;
  job.options.write.io_ranks = {.choice = IoRanks::Choice::everyone};
  job.places.served_by.clear();
  job.places.file_of.clear();
  return job;
}

std::string expanded(const std::string& text, const std::string& node) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 1 == text.size()) {
      path += text[i];
      continue;
    }
    const char what = text[++i];
    if (what == 'h') {
      char name[256] = {};
      if (::gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
      path += name;
    } else if (what == 'n') {
      path += node;
    } else if (what == '%') {
      path += '%';
    } else {
      throw Error(Code::invalid_argument, cat("TierOptions::directory is ", text),
                  cat("%", std::string(1, what), " stands for nothing"),
                  "%h is the host, %n the node, %% a percent sign.");
    }
  }
  return path;
}

// Others' directories in /dev/shm may have been put there to be found.
void require_own(const io::Path& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return;  // whoever needs it says so
  if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid()) {
    if ((found.st_mode & 077) != 0) ::chmod(path.c_str(), 0700);
    return;
  }
  throw Error(Code::invalid_argument, cat(path.string(), " is not this user's directory"), "",
              "Name another directory for the tier.")
      .at(path.string());
}

// The number in PREFIX-NUMBER, or -1.
int number_behind(const std::string& name, std::string_view prefix) {
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return -1;
  int number = 0;
  for (const char c : name.substr(prefix.size())) {
    if (c < '0' || c > '9' || number > 100'000'000) return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

}  // namespace

Tier::Tier(const Job& home) : home_(home), job_(home), plans_(job_) {}

void Tier::require_options() const {
  const auto& tier = home_.options.tier;
  if (tier.set_nodes < 2 || tier.set_nodes > 128 || tier.lost_nodes < 1 ||
      tier.lost_nodes >= tier.set_nodes || tier.keep < 1 || tier.home_every < 0) {
    throw Error(Code::invalid_argument, "a number of TierOptions cannot be used",
                cat("set_nodes ", tier.set_nodes, ", lost_nodes ", tier.lost_nodes, ", keep ",
                    tier.keep, ", home_every ", tier.home_every),
                "set_nodes is 2 to 128, lost_nodes at least 1 and less than set_nodes, keep at "
                "least 1, home_every at least 0.");
  }
  if (home_.options.hooks.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers write to the manager's directory alone",
              "their files are no part of a checkpoint on the nodes",
              "Leave the savers or TierOptions::directory out.");
}

void Tier::find_nodes() {
  Group& group = *home_.group;
  auto name = home_.options.tier.node;
  if (name.empty()) {
    if (const char* given = std::getenv("CAIRN_NODE")) name = given;
  }
  const auto mine = name.empty() ? cat("#", home_.places.node_of[nth(home_.rank())]) : name;
  std::vector<std::string> names;  // of nodes
  node_of_.clear();
  ranks_at_.clear();
  for (auto& one : all_gather(group, mine)) {
    auto at = std::find(names.begin(), names.end(), one);
    if (at == names.end()) {
      names.push_back(std::move(one));
      at = names.end() - 1;
      ranks_at_.emplace_back();
    }
    const auto node = static_cast<int>(at - names.begin());
    ranks_at_[nth(node)].push_back(static_cast<int>(node_of_.size()));
    node_of_.push_back(node);
  }
  node_ = node_of_[nth(home_.rank())];
  const auto text = home_.options.tier.directory.string();
  directory_ = together(group, [&] { return expanded(text, name.empty() ? cat(node_) : name); });
}

// Whether another node has the same directory: then it dies with that one.
bool Tier::is_shared() {
  Group& group = *home_.group;
  const auto opening = from_root(group, [] { return commit::new_uuid(); });
  const auto prefix = cat("token-", opening, "-");
  const auto token = directory_ / cat(prefix, node_);
  together(group, [&] {
    if (is_leader()) io::write_file(*files_, token, "");
  });
  const bool shared = together(group, [&] {
    int seen = 0;
    for (const auto& name : files_->list(directory_)) seen += name.rfind(prefix, 0) == 0;
    return seen > 1;
  });
  const bool any = any_of(group, shared);
  together(group, [&] {
    if (!is_leader()) return;
    for (const auto& name : files_->list(directory_)) {
      // Those of openings that were killed, too.
      if (name.rfind("token-", 0) == 0 && (name == token.filename() || !any)) {
        io::try_remove(*files_, directory_ / name);
      }
    }
  });
  return any;
}

void Tier::open(const std::string& home_id) {
  if (!is_on()) return;
  Group& group = *home_.group;
  const auto& options = home_.options.tier;
  together(group, [&] { require_options(); });
  job_ = job_of_nodes(home_);
  find_nodes();
  files_ = options.file_system ? options.file_system : io::posix_file_system();
  together(group, [&] {
    if (!is_leader()) return;
    io::create_directories(*files_, directory_);
    if (!options.file_system) require_own(directory_);
  });
  directory_ /= home_id;
  together(group, [&] {
    if (!is_leader()) return;
    io::create_directories(*files_, directory_);
    if (!options.file_system) require_own(directory_);
  });
  if (is_shared()) {
    throw Error(Code::invalid_argument, "nodes share the directory of the tier",
                cat(directory_.parent_path().string(),
                    " is the same for several nodes, so that it would be lost with any of them"),
                "Name one on each node's own disk or memory; %h or %n in the text stands for the "
                "node.")
        .at(directory_.parent_path().string());
  }
  protects_ = options.protection != Protection::none && ranks_at_.size() > 1;
  if (options.protection != Protection::none && !protects_ && home_.root()) {
    log(LogLevel::warning, "one node cannot protect itself: checkpoints on it are lost with it");
  }
  plans_.begin(0);
  list();
}

io::Path Tier::place_of(const SaveMap& map) const {
  return directory_ / cat(map.sequence, "-", map.uuid);
}
io::Path Tier::part_path(const SaveMap& map, int rank) const {
  return place_of(map) / cat("part-", rank);
}
io::Path Tier::parity_path(const SaveMap& map, int rank) const {
  return place_of(map) / cat("parity-", rank);
}

// What this node has, of saves whose map is there.
std::string Tier::report() const {
  WireWriter writer;
  for (const auto& name : files_->list(directory_)) {
    const auto place = directory_ / name;
    if (!io::exists(*files_, place / map_name)) continue;
    try {
      const auto text = io::read_file(*files_, place / map_name, most_map_bytes);
      const auto map = decode_map(text);
      if (name != place_of(map).filename()) continue;
      const Sets sets(map);
      std::vector<int> parts, parities;
      for (const auto& file : files_->list(place)) {
        const auto status = files_->status(place / file);
        if (!status || status->is_directory) continue;
        const int part = number_behind(file, "part-"), parity = number_behind(file, "parity-");
        if (part >= 0 && part < map.ranks() && status->size == map.part_bytes[nth(part)]) {
          parts.push_back(part);
        }
        if (parity < 0 || parity >= map.ranks()) continue;
        const int node = map.node_of[nth(parity)];
        const auto& set = sets.set(sets.set_of(node));
        if (status->size == parity_bytes(set, sets.member_of(node), parity)) {
          parities.push_back(parity);
        }
      }
      writer.put(text).put(parts).put(parities);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("passed over on this node: ", error.what()));
    }
  }
  return writer.take();
}

void Tier::join(const std::vector<std::string>& reports) {
  saves_.clear();
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    for (WireReader reader(reports[rank]); !reader.empty();) {
      auto map = decode_map(reader.get<std::string>());
      auto at = std::find_if(saves_.begin(), saves_.end(),
                             [&](const auto& one) { return one.map.uuid == map.uuid; });
      if (at == saves_.end()) {
        LocalSave save;
        save.map = std::move(map);
        save.part_at.assign(nth(save.map.ranks()), -1);
        save.parity_at = save.part_at;
        at = saves_.insert(saves_.end(), std::move(save));
      }
      const int node = node_of_[rank];
      for (const int part : reader.get_all<int>()) {
        if (part < at->map.ranks()) at->part_at[nth(part)] = node;
      }
      for (const int parity : reader.get_all<int>()) {
        if (parity < at->map.ranks()) at->parity_at[nth(parity)] = node;
      }
    }
  }
  std::sort(saves_.begin(), saves_.end(),
            [](const auto& a, const auto& b) { return a.map.sequence > b.map.sequence; });
  for (const auto& later : saves_) {
    for (auto& save : saves_) {
      save.superseded = save.superseded || (save.map.sequence > later.map.parent &&
                                            save.map.sequence < later.map.sequence);
    }
  }
}

void Tier::list() {
  Group& group = *home_.group;
  const auto mine = together(group, [&] { return is_leader() ? report() : std::string(); });
  const auto reports = all_gather(group, mine);
  together(group, [&] { join(reports); });
}

// Of another node's leader nobody waits; a failure is for the log.
void Tier::remove_save(const std::string& name) const {
  try {
    const auto place = directory_ / name;
    io::try_remove(*files_, place / map_name);
    for (const auto& file : files_->list(place)) files_->remove(place / file);
    files_->remove_directory(place);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("an older checkpoint on this node stays: ", error.what()));
  }
}

void Tier::prune(const std::string& uuid) {
  std::sort(saves_.begin(), saves_.end(),
            [](const auto& a, const auto& b) { return a.map.sequence > b.map.sequence; });
  // The one that was just saved has the highest sequence of all that this run descends from.
  const auto at = std::find_if(saves_.begin(), saves_.end(),
                               [&](const auto& one) { return one.map.uuid == uuid; });
  if (at != saves_.end()) std::rotate(saves_.begin(), at, at + 1);
  if (saves_.size() > nth(home_.options.tier.keep)) {
    saves_.erase(saves_.begin() + home_.options.tier.keep, saves_.end());
  }
  if (!is_leader()) return;
  try {
    for (const auto& name : files_->list(directory_)) {
      const bool stays = std::any_of(saves_.begin(), saves_.end(), [&](const auto& one) {
        return name == place_of(one.map).filename();
      });
      if (!stays) remove_save(name);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("older checkpoints on this node stay: ", error.what()));
  }
}

}  // namespace cairn::tier
