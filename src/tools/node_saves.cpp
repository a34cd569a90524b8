#include "tools/node_saves.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "session/nodes/node_file.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/place.hpp"

namespace cairn {
namespace {

using tier::nth;

// For each place, the folders of saves by name. The last place is home.
using Places = std::vector<std::map<std::string, Address>>;

Places find_places(const Address& home, const std::string& text, std::vector<std::string> nodes) {
  const auto id = tier::home_id(home, false);
  if (nodes.empty()) nodes.emplace_back();
  Places places;
  const auto add = [&](const Address& folder) {
    auto& place = places.emplace_back();
    if (!folder.exists()) return;
    for (const auto& name : folder.list()) {
      if (!name.starts_with('.')) place.emplace(name, folder / name);
    }
  };
  for (const auto& node : nodes) {
    const auto folder = home.at(tier::node_folder(text, node));
    if (!id.empty()) add(folder / id);
  }
  add(home.at(tier::pieces_at(home.path())));
  std::erase_if(places.back(), [](const auto& one) { return !tier::are_own(one.second); });
  return places;
}

std::int64_t bytes_seen(const tier::LocalSave& save) {
  std::int64_t bytes = 0;
  for (int rank = 0; rank < save.map.ranks(); ++rank) {
    if (save.part_at[nth(rank)] >= 0) bytes += save.map.part_bytes[nth(rank)];
  }
  return bytes;
}

}  // namespace

std::vector<NodeSave> node_saves(const Address& home, const std::string& tier,
                                 const std::vector<std::string>& nodes) {
  const auto places = find_places(home, tier, nodes);
  const auto at_home = static_cast<int>(places.size()) - 1;
  std::map<std::string, std::vector<tier::LocalSave>> by_name;
  for (std::size_t place = 0; place < places.size(); ++place) {
    for (const auto& [name, folder] : places[place]) {
      for (auto& map : tier::list_maps(folder)) {
        auto stocked = tier::look_at_save(folder / tier::save_name(map), map);
        tier::add_copies(by_name[name], std::move(map), static_cast<int>(place), std::move(stocked),
                         at_home);
      }
    }
  }
  std::vector<NodeSave> all;
  for (auto& [name, saves] : by_name) {
    tier::resolve_saves(saves);
    for (const auto& save : saves) {
      const tier::Sets sets(save.map);
      NodeSave one{name, save.map.step, save.map.sequence, save.map.ranks(), save.map.nodes()};
      for (int node = 0; node < one.nodes; ++node) {
        const int at = save.piece_at(sets, node);
        one.nodes_seen += at >= 0;
        one.nodes_brought += at == at_home;
        if (at < 0) one.not_seen.push_back(tier::names_of(save.map, {node}));
      }
      one.bytes = bytes_seen(save);
      one.margin = save.margin();
      one.time = save.map.time;
      one.write_seconds = save.map.write_seconds;
      one.protect_seconds = save.map.protect_seconds;
      one.superseded = save.superseded;
      all.push_back(std::move(one));
    }
  }
  return all;
}

NodeProof verify_node_saves(const Address& home, const std::string& tier,
                            const std::vector<std::string>& nodes) {
  NodeProof proof;
  for (const auto& place : find_places(home, tier, nodes)) {
    for (const auto& [name, folder] : place) {
      for (const auto& map : tier::list_maps(folder)) {
        const auto save = folder / tier::save_name(map);
        for (const auto& file : save.list()) {
          const int rank = tier::number_behind(file, "part-");
          if (rank < 0) continue;
          try {
            const tier::NodeFile part(save / file, map.uuid);
            if (part.rank() != rank) throw Error(Code::data_loss, "it is a part of another rank");
            part.verify();
            ++proof.parts;
            proof.bytes += (save / file).status().value_or(io::Status{}).size;
          } catch (const Error& error) {
            proof.damage.push_back(
                {save.path() / file, error.reason().empty() ? error.problem() : error.reason()});
          }
        }
      }
    }
  }
  return proof;
}

}  // namespace cairn
