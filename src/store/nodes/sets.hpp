#pragma once
/// Sets of nodes that protect each other, and which block of a set is whose: arithmetic, no bytes.
///
/// Each node of a set has a *piece*, a row of blocks. The blocks of a set are dealt into rows, one
/// block a node: `parity` of them are parity, the others data. In row r of a cycle of as many rows
/// as the set has nodes, parity j lies with member (r + j) mod nodes; data d comes from member (r +
/// parity + d) mod nodes. So each node holds its own piece whole, and parity as much as parity /
/// (nodes - parity) of the longest piece of its set.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::protect {

/// As an index.
constexpr std::size_t nth(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Most nodes of a set: what the field of 256 elements allows.
inline constexpr int most_nodes = 128;

/// How many nodes, and how many of them may vanish.
struct Code {
  int nodes = 1, parity = 0;
  int data() const { return nodes - parity; }
  bool operator==(const Code&) const = default;
};

/// Deals nodes 0 to `nodes` - 1 into sets of at most `most` members, whose sizes differ by one at
/// most; members ascend. Neighbours, which often fail together, lie in different sets where there
/// are several. Of no node there is no set. A set has at least so many as `least`, if there are so
/// many, and rather more than `most`: a parity of one block protects no node that is alone.
std::vector<std::vector<int>> deal_sets(int nodes, int most, int least = 1);

/// The code of a set of so many nodes, of which `parity` may vanish if there are enough of them. A
/// node alone has no protection.
Code code_of(int nodes, int parity);

/// A block of a set.
struct Block {
  std::int64_t cycle = 0;
  int row = 0;
  int place = 0;  ///< in the code: data first, then parity
};

/// Which member has the block at this place of the row.
int member_of(const Code&, int row, int place);
/// The place that a member's block has in the row.
int place_of(const Code&, int row, int member);
/// Data block `number` of a member's piece: where it stands.
Block data_block(const Code&, int member, std::int64_t number);
/// The number in its member's piece of the data block at this place of a row of a cycle.
std::int64_t number_of(const Code&, std::int64_t cycle, int place);
/// Cycles of a set whose longest piece has so many blocks.
std::int64_t cycles_of(const Code&, std::int64_t blocks);

}  // namespace cairn::protect
