#include "store/nodes/sets.hpp"

#include <algorithm>

namespace cairn::protect {

std::vector<std::vector<int>> deal_sets(int nodes, int most, int least) {
  const int wanted = std::min((nodes + most - 1) / most, std::max(1, nodes / least));
  // No set may have more than most_nodes members, even if some sets then have fewer than `least`.
  const int sets = nodes == 0 ? 0 : std::max(wanted, (nodes + most_nodes - 1) / most_nodes);
  std::vector<std::vector<int>> dealt(nth(sets));
  for (int node = 0; node < nodes; ++node) {
    dealt[nth(node % sets)].push_back(node);
  }
  return dealt;
}

Code code_of(int nodes, int parity) { return {nodes, std::min(parity, nodes - 1)}; }

int member_of(const Code& code, int row, int place) {
  const bool is_data = place < code.data();
  const int behind = is_data ? code.parity + place : place - code.data();
  return (row + behind) % code.nodes;
}

int place_of(const Code& code, int row, int member) {
  const int behind = (member - row + code.nodes) % code.nodes;
  return behind < code.parity ? code.data() + behind : behind - code.parity;
}

Block data_block(const Code& code, int member, std::int64_t number) {
  const auto place = static_cast<int>(number % code.data());
  const int row = ((member - code.parity - place) % code.nodes + code.nodes) % code.nodes;
  return {number / code.data(), row, place};
}

std::int64_t number_of(const Code& code, std::int64_t cycle, int place) {
  return cycle * code.data() + place;
}

std::int64_t cycles_of(const Code& code, std::int64_t blocks) {
  return code.parity == 0 ? 0 : (blocks + code.data() - 1) / code.data();
}

}  // namespace cairn::protect
