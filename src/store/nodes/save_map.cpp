#include "store/nodes/save_map.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"

namespace cairn::tier {
namespace {

constexpr int map_version = 2;
constexpr std::int64_t most_bytes = std::int64_t{1} << 53;  // the most that a state may have

[[noreturn]] void bad_map(const std::string& why) {
  throw Error(Code::data_loss, "the map of a checkpoint on this node is damaged", why);
}

// Returns whether the numbers of a map are consistent.
bool fits(const SaveMap& map) {
  const auto ranks = static_cast<int>(map.node_of.size());
  const bool has_ids = commit::is_uuid(map.uuid) && (map.home.empty() || commit::is_uuid(map.home));
  const bool has_sets = map.set_nodes >= 1 && map.set_nodes <= protect::most_nodes &&
                        map.parity >= 0 && map.parity < protect::most_nodes;
  return has_ids && has_sets && ranks > 0 && map.part_bytes.size() == map.node_of.size() &&
         map.since_home >= 0 &&
         (map.node_names.empty() || std::ssize(map.node_names) == map.nodes()) &&
         std::all_of(map.part_bytes.begin(), map.part_bytes.end(),
                     [](auto bytes) { return bytes >= 0; }) &&
         std::all_of(map.node_of.begin(), map.node_of.end(),
                     [&](int node) { return node >= 0 && node < ranks; });
}

void require_fitting(const SaveMap& map) {
  if (!fits(map)) bad_map("its numbers do not fit each other");
  std::vector<bool> has_rank(nth(map.nodes()));
  for (const int node : map.node_of) has_rank[nth(node)] = true;
  std::int64_t all = 0;
  for (const auto bytes : map.part_bytes) {
    if (bytes > most_bytes - all) bad_map("its parts are larger than any disk");
    all += bytes;
  }
  if (!std::all_of(has_rank.begin(), has_rank.end(), [](bool has) { return has; })) {
    bad_map("a node of it has no rank");
  }
}

}  // namespace

int SaveMap::nodes() const {
  return node_of.empty() ? 0 : 1 + *std::max_element(node_of.begin(), node_of.end());
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += cat(i == 0 ? "" : ", ", names[i]);
  return names.size() > most ? cat(text, " and ", names.size() - most, " more") : text;
}

std::string names_of(const SaveMap& map, const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int node : nodes) {
    const auto at = nth(node);
    names.push_back(at < map.node_names.size() ? map.node_names[at] : cat("node ", node));
  }
  return some_of(names);
}

std::string encode(const SaveMap& map) {
  nlohmann::json json{{"version", map_version},
                      {"uuid", map.uuid},
                      {"step", map.step},
                      {"sequence", map.sequence},
                      {"parent", map.parent},
                      {"set_nodes", map.set_nodes},
                      {"parity", map.parity},
                      {"node_of", map.node_of},
                      {"part_bytes", map.part_bytes},
                      {"since_home", map.since_home},
                      {"time", map.time},
                      {"write_seconds", map.write_seconds},
                      {"protect_seconds", map.protect_seconds}};
  if (!map.home.empty()) json["home"] = map.home;
  if (!map.node_names.empty()) json["node_names"] = map.node_names;
  const auto text = dump_json(json, NotUtf8::replaced);
  return cat(text, "\n", crc32c(text), "\n");
}

SaveMap decode_map(std::string_view text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos ||
      text.substr(end + 1) != cat(crc32c(text.substr(0, end)), "\n")) {
    bad_map("checksum mismatch");
  }
  SaveMap map;
  try {
    const auto json = parse_json(text.substr(0, end));
    if (const auto found = whole<int>(json.at("version"), bad_map); found != map_version) {
      bad_map(cat("its version is ", found, ", this program reads version ", map_version));
    }
    json.at("uuid").get_to(map.uuid);
    map.step = whole<std::int64_t>(json.at("step"), bad_map);
    map.sequence = whole<std::int64_t>(json.at("sequence"), bad_map);
    map.parent = whole<std::int64_t>(json.at("parent"), bad_map);
    map.set_nodes = whole<int>(json.at("set_nodes"), bad_map);
    map.parity = whole<int>(json.at("parity"), bad_map);
    map.node_of = whole_numbers<int>(json.at("node_of"), bad_map);
    map.part_bytes = whole_numbers<std::int64_t>(json.at("part_bytes"), bad_map);
    map.since_home = whole<int>(json.at("since_home"), bad_map);
    map.home = json.value("home", std::string());
    map.node_names = json.value("node_names", std::vector<std::string>());
    map.time = json.value("time", 0.0);
    map.write_seconds = json.value("write_seconds", 0.0);
    map.protect_seconds = json.value("protect_seconds", 0.0);
  } catch (const nlohmann::json::exception& error) {
    bad_map(error.what());
  }
  require_fitting(map);
  return map;
}

// All of it follows from the map, so every rank divides the nodes alike without a message.
Sets::Sets(const SaveMap& map) : ranks_(nth(map.nodes())), where_(nth(map.nodes())) {
  for (int rank = 0; rank < map.ranks(); ++rank) {
    ranks_[nth(map.node_of[nth(rank)])].push_back(rank);
  }
  nodes_ = protect::deal_sets(map.nodes(), map.set_nodes, map.parity + 1);
  for (std::size_t number = 0; number < nodes_.size(); ++number) {
    const auto& nodes = nodes_[number];
    protect::Set set{protect::code_of(static_cast<int>(nodes.size()), map.parity), 0, {}};
    std::int64_t longest = 0;
    for (const int node : nodes) {
      where_[nth(node)] = {static_cast<int>(number), static_cast<int>(set.members.size())};
      auto& member = set.members.emplace_back();
      member.ranks = ranks_[nth(node)];
      std::int64_t bytes = 0;
      for (const int rank : member.ranks) {
        member.parts.push_back(map.part_bytes[nth(rank)]);
        bytes += member.parts.back();
      }
      longest = std::max(longest, bytes);
    }
    set.block_bytes = protect::choose_block_bytes(set.code, longest);
    sets_.push_back(std::move(set));
  }
}

ParityExtent find_parity(const protect::Set& set, int member, std::int64_t number) {
  const auto& ranks = set.members[nth(member)].ranks;
  const auto all = static_cast<std::int64_t>(ranks.size());
  const auto cycle = number / set.code.parity;
  return {ranks[nth(protect::dealt_to(cycle, ranks.size()))],
          cycle / all * set.code.parity + number % set.code.parity};
}

std::int64_t parity_number(const protect::Set& set, int member, const ParityExtent& at) {
  const auto& ranks = set.members[nth(member)].ranks;
  const auto place = std::find(ranks.begin(), ranks.end(), at.rank) - ranks.begin();
  const auto cycle = at.block / set.code.parity * std::ssize(ranks) + place;
  return cycle * set.code.parity + at.block % set.code.parity;
}

std::int64_t parity_bytes(const protect::Set& set, int member, int rank) {
  const auto& ranks = set.members[nth(member)].ranks;
  const auto all = static_cast<std::int64_t>(ranks.size());
  const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  // Cycles are dealt to the node's ranks in turn (protect::dealt_to).
  const auto cycles = (set.cycles() + all - 1 - place) / all;
  return cycles * set.code.parity *
         (set.block_bytes + static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

std::int64_t parity_blocks(const protect::Set& set, int member, int rank) {
  return parity_bytes(set, member, rank) /
         (set.block_bytes + static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

void read_parity(const io::File& file, const protect::Set& set, std::int64_t blocks,
                 std::int64_t block, std::span<std::byte> to) {
  std::uint32_t crc = 0;
  file.read_at(block * set.block_bytes, to);
  file.read_at(blocks * set.block_bytes + block * static_cast<std::int64_t>(sizeof crc),
               std::as_writable_bytes(std::span(&crc, 1)));
  if (crc32c(to) == crc) return;
  throw Error(Code::data_loss, "parity of a checkpoint on this node is damaged",
              cat("checksum mismatch in block ", block));
}

void LocalSave::choose_copies() {
  const Sets sets(map);
  part_at.assign(nth(map.ranks()), -1);
  parity_at = part_at;
  std::vector<std::vector<const Copies*>> copies_of(nth(map.nodes()));
  for (const auto& one : copies) {
    for (const int part : one.parts) {
      part_at[nth(part)] = one.node;
      auto& known = copies_of[nth(map.node_of[nth(part)])];
      if (known.empty() || known.back() != &one) known.push_back(&one);
    }
    for (const int parity : one.parities) parity_at[nth(parity)] = one.node;
  }
  for (int node = 0; node < map.nodes(); ++node) {
    const auto& ranks = sets.ranks_of(node);
    const auto has = [&](const std::vector<int>& some) {
      return std::count_if(ranks.begin(), ranks.end(), [&](int rank) {
        return std::find(some.begin(), some.end(), rank) != some.end();
      });
    };
    // A piece is taken whole from one place, if possible from one that has its parity, too. Among
    // equals the last place wins; home is added first, so a node is preferred to it.
    const Copies* best = nullptr;
    std::pair<bool, std::ptrdiff_t> most;
    for (const auto* one : copies_of[nth(node)]) {
      const std::pair found(has(one->parts) == std::ssize(ranks), has(one->parities));
      if (!found.first || (best && found < most)) continue;
      best = one;
      most = found;
    }
    if (!best) continue;
    for (const int rank : ranks) {
      part_at[nth(rank)] = best->node;
      const bool is_there =
          std::find(best->parities.begin(), best->parities.end(), rank) != best->parities.end();
      if (is_there) parity_at[nth(rank)] = best->node;
    }
  }
}

int LocalSave::piece_at(const Sets& sets, int node) const {
  // Files at home can be read from any node, so a node and home together still count as that node.
  // If several nodes have some of the piece, no node can read all of it: -1.
  enum { nowhere = -1, in_several = -2 };
  const auto place = [&](const std::vector<int>& places) {
    int at = nowhere;
    for (const int rank : sets.ranks_of(node)) {
      const int one = places[nth(rank)];
      if (one < 0 || one == at) continue;
      if (at >= 0 && at != home && one != home) return int{in_several};
      if (at < 0 || at == home) at = one;
    }
    return at;
  };
  const int at = place(part_at);
  return std::max(-1, at == nowhere ? place(parity_at) : at);
}

// Lists as lost the blocks of parts that are nowhere, those of parity that is not where the node's
// piece is read, and those that were found unusable.
protect::Set LocalSave::as_it_is(const Sets& sets, int number) const {
  auto set = sets.set(number);
  const auto& whole = sets.set(number);
  for (std::size_t i = 0; i < set.members.size(); ++i) {
    const auto member = static_cast<int>(i);
    auto& one = set.members[i];
    const int node = sets.nodes_of(number)[i], at = piece_at(sets, node);
    one.is_lost = at < 0;
    one.has_parity = at >= 0;
    if (at < 0) continue;
    const auto first = protect::first_blocks(whole, member);
    const auto& ranks = sets.ranks_of(node);
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const int rank = ranks[k];
      const auto bytes = map.part_bytes[nth(rank)];
      const auto blocks = (bytes + set.block_bytes - 1) / set.block_bytes;
      const auto bad = bad_blocks.find(rank);
      for (std::int64_t block = 0; !has_part(rank) && block < blocks; ++block) {
        one.lost_blocks.push_back(first[k] + block);
      }
      if (has_part(rank) && bad != bad_blocks.end()) {
        for (const auto block : bad->second) one.lost_blocks.push_back(first[k] + block);
      }
      const int parity = parity_at[nth(rank)];
      const bool has_parity = parity >= 0 && (parity == at || parity == home);
      const auto bad_parity = bad_parities.find(rank);
      const auto parities = set.code.parity > 0 ? parity_blocks(whole, member, rank) : 0;
      for (std::int64_t block = 0; !has_parity && block < parities; ++block) {
        one.lost_parities.push_back(parity_number(whole, member, {rank, block}));
      }
      if (has_parity && bad_parity != bad_parities.end()) {
        for (const auto block : bad_parity->second) {
          one.lost_parities.push_back(parity_number(whole, member, {rank, block}));
        }
      }
    }
    std::sort(one.lost_blocks.begin(), one.lost_blocks.end());
    std::sort(one.lost_parities.begin(), one.lost_parities.end());
  }
  return set;
}

bool LocalSave::is_complete() const {
  return bad_blocks.empty() &&
         std::all_of(part_at.begin(), part_at.end(), [](int at) { return at >= 0; });
}

bool LocalSave::is_protected() const {
  const auto at_home = [&](int at) { return at >= 0 && at == home; };
  if (std::any_of(part_at.begin(), part_at.end(), at_home)) return false;
  if (map.parity == 0) return true;
  if (!is_complete() || !bad_parities.empty()) return false;
  const Sets sets(map);
  std::set<int> seen;
  for (int node = 0; node < map.nodes(); ++node) {
    const int at = piece_at(sets, node);
    const int number = sets.set_of(node);
    for (const int rank : sets.ranks_of(node)) {
      const bool has_parity = parity_bytes(sets.set(number), sets.member_of(node), rank) == 0 ||
                              parity_at[nth(rank)] == at;
      if (!has_parity) return false;
    }
    if (at < 0 || !seen.insert(at).second) return false;
  }
  return true;
}

// A quick check by sizes: the parity that is there must have at least as many bytes as what is
// lost. as_it_is() lists blocks only after this check, so a map with wrong sizes cannot make it
// list more blocks than the files on disk can have.
bool LocalSave::may_be_computed(const Sets& sets) const {
  for (int number = 0; number < sets.count(); ++number) {
    std::int64_t lost = 0;
    for (const int node : sets.nodes_of(number)) {
      for (const int rank : sets.ranks_of(node))
        lost += has_part(rank) ? 0 : map.part_bytes[nth(rank)];
    }
    for (const int node : sets.nodes_of(number)) {
      for (const int rank : sets.ranks_of(node)) {
        const bool has_parity = sets.set(number).code.parity > 0 && parity_at[nth(rank)] >= 0;
        if (lost <= 0 || !has_parity) continue;
        lost -= parity_bytes(sets.set(number), sets.member_of(node), rank);
      }
    }
    if (lost > 0) return false;
  }
  return true;
}

int LocalSave::margin() const {
  const Sets sets(map);
  if (!may_be_computed(sets)) return -1;
  int least = protect::most_nodes;
  for (int number = 0; number < sets.count(); ++number) {
    const int margin = protect::margin(as_it_is(sets, number));
    // If a node holds pieces of several nodes, all of them are lost with it.
    std::map<int, int> pieces;  // by place
    for (const int node : sets.nodes_of(number)) {
      const int at = piece_at(sets, node);
      if (at >= 0 && at != home) ++pieces[at];
    }
    // Takes away the places with the most pieces first, as long as the code allows.
    std::vector<int> most;
    for (const auto& [at, count] : pieces) most.push_back(count);
    std::sort(most.rbegin(), most.rend());
    int left = margin, vanish = std::min(margin, 0);
    std::size_t gone = 0;
    for (; gone < most.size() && left >= most[gone]; ++gone, ++vanish) left -= most[gone];
    least = std::min(least, gone == most.size() ? margin : vanish);
  }
  return least;
}

bool LocalSave::learn(const UnusableByRank& parts, const UnusableByRank& parities) {
  bool any = false;
  const auto add = [&](const UnusableByRank& found, std::vector<int>& at, auto& bad) {
    for (const auto& [rank, what] : found) {
      if (at[nth(rank)] < 0) continue;
      if (what.all) {
        at[nth(rank)] = -1;
        bad.erase(rank);
        any = true;
        continue;
      }
      for (const auto block : what.blocks) any = bad[rank].insert(block).second || any;
    }
  };
  add(parts, part_at, bad_blocks);
  add(parities, parity_at, bad_parities);
  return any;
}

}  // namespace cairn::tier
