#pragma once
/// Sets of nodes that protect each other, and which node has which block of a set. Arithmetic only,
/// no bytes.
///
/// Each node of a set has a *piece*, a row of blocks. The blocks of a set are divided into rows
/// with one block for each node: `parity` of them are parity, the others data. A cycle has as many
/// rows as the set has nodes. In row r of a cycle, parity j is on member (r + j) mod nodes, and
/// data d comes from member (r + parity + d) mod nodes. So each node holds its own piece whole, and
/// parity / (nodes - parity) of the longest piece of its set as parity.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::protect {

/// A number as an index.
constexpr std::size_t nth(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The most nodes of a set: a limit of the field of 256 elements.
inline constexpr int most_nodes = 128;

/// How many nodes a set has, and how many of them may be lost.
struct Code {
  int nodes = 1, parity = 0;
  int data() const { return nodes - parity; }
  bool operator==(const Code&) const = default;
};

/// Divides nodes 0 to `nodes` - 1 into sets of at most `most` members, whose sizes differ by at
/// most one; the members of a set ascend. Neighbours, which often fail together, are in different
/// sets if there are several. Without nodes there are no sets. If there are enough nodes, a set has
/// at least `least` members, even if that makes it larger than `most`: parity cannot protect a node
/// that is alone.
std::vector<std::vector<int>> deal_sets(int nodes, int most, int least = 1);

/// The code of a set of so many nodes, of which `parity` may be lost if there are enough of them. A
/// node alone has no protection.
Code code_of(int nodes, int parity);

/// A block of a set.
struct Block {
  std::int64_t cycle = 0;
  int row = 0;
  int place = 0;  ///< number in the code: data first, then parity
};

/// The member that has the block at this place of the row.
int member_of(const Code&, int row, int place);
/// The place of a member's block in the row.
int place_of(const Code&, int row, int member);
/// The place of data block `number` of a member's piece.
Block data_block(const Code&, int member, std::int64_t number);
/// For the data block at this place of a row of a cycle: its number in its member's piece.
std::int64_t number_of(const Code&, std::int64_t cycle, int place);
/// The number of cycles of a set whose longest piece has so many blocks.
std::int64_t cycles_of(const Code&, std::int64_t blocks);

}  // namespace cairn::protect
