#pragma once
/// Parity of a set's pieces, made and used by the ranks of its nodes: who sends which block to
/// whom. Memory is bounded by a few blocks, whatever the pieces' sizes.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cairn/group.hpp"
#include "store/nodes/sets.hpp"

namespace cairn::protect {

/// A set of nodes and their pieces. All who work for it know the same.
struct Set {
  struct Member {
    /// Ranks of the group that have its piece and parity at hand, or that are to get them, and deal
    /// its blocks among them; at least one.
    std::vector<int> ranks;
    /// Bytes of the parts of its piece; each begins with a block of its own.
    std::vector<std::int64_t> parts;
    bool is_lost = false;    ///< its piece is to be computed
    bool has_parity = true;  ///< its parity can be read
    /// Of a piece and of parity that are there: blocks that cannot be read, ascending. Those of the
    /// piece are to be computed.
    std::vector<std::int64_t> lost_blocks, lost_parities;
  };
  Code code;
  std::int64_t block_bytes = 0;  ///< a multiple of 64
  std::vector<Member> members;

  /// Blocks of the longest piece.
  std::int64_t most_blocks() const;
  std::int64_t cycles() const { return cycles_of(code, most_blocks()); }
};

/// How many more members may vanish, so that all that is lost, and what these have, can still be
/// computed; at least 0 while no piece lacks anything. -1: something cannot be computed.
int margin(const Set&);

/// The first block of each part of a member.
std::vector<std::int64_t> first_blocks(const Set&, int member);

/// Blocks that are neither too small for a message, nor larger than the pieces are worth, nor than
/// a Room holds.
std::int64_t choose_block_bytes(const Code&, std::int64_t longest_piece);

/// Reads bytes of a part of this node's piece. The span may reach behind the part's end: what lies
/// there is zeros.
using ReadPart = std::function<void(int part, std::int64_t offset, std::span<std::byte>)>;
using WritePart = std::function<void(int part, std::int64_t offset, std::span<const std::byte>)>;
/// Parity block `number` of a member.
using ReadParity = std::function<void(std::int64_t number, std::span<std::byte>)>;
using WriteParity = std::function<void(std::int64_t number, std::span<const std::byte>)>;

/// The number of the member's parity block in a row of a cycle.
std::int64_t parity_number(const Code&, std::int64_t cycle, int place);
/// Which of so many ranks of a member has the blocks of a cycle.
constexpr int dealt_to(std::int64_t cycle, std::size_t ranks) {
  return static_cast<int>(cycle % static_cast<std::int64_t>(ranks));
}

/// Memory for the blocks that are on their way, each on cache lines of its own; at most 64 MiB and
/// a block.
class Room {
 public:
  Room() = default;
  static Room to_make(const Set&);     ///< parity
  static Room to_compute(const Set&);  ///< lost pieces
  std::span<std::byte> out(int block) const { return at(block); }
  std::span<std::byte> in(int block) const { return at(outs_ + block); }
  std::span<std::byte> made() const { return at(outs_ + ins_); }

 private:
  Room(int outs, int ins, std::int64_t block_bytes);
  std::span<std::byte> at(int block) const {
    return {first_ + block * block_bytes_, nth(block_bytes_)};
  }
  std::unique_ptr<std::byte[]> memory_;
  std::byte* first_ = nullptr;
  std::int64_t block_bytes_ = 0;
  int outs_ = 0, ins_ = 0;
};

/// By all ranks of all members. `member` is this rank's node. What reading or writing throws here
/// is thrown when all blocks have been exchanged; then the parity is worth nothing.
void make_parity(Group&, const Set&, int member, const ReadPart&, const WriteParity&, const Room&);

/// What a rank has at hand of one member when lost pieces are computed.
struct Stock {
  ReadPart read_part;
  ReadParity read_parity;
  WritePart write_part;  ///< of a lost one
};
/// By all ranks of all members, which may be the same for several. `stock`: of the members that
/// this rank is named for. Writes the pieces and the blocks that are lost. Throws data_loss, on all
/// ranks alike and before anything is sent, if there is too little to compute them from; and what
/// reading and writing here threw, at the end.
void compute_lost(Group&, const Set&, const std::vector<Stock>& stock, const Room&);

}  // namespace cairn::protect
