#pragma once
/// Makes and uses the parity of a set's pieces. The ranks of its nodes decide here who sends which
/// block to whom. Memory is bounded by a few blocks, whatever the size of the pieces.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cairn/group.hpp"
#include "store/nodes/sets.hpp"

namespace cairn::protect {

/// A set of nodes and their pieces. It must be the same on all ranks that work for it.
struct Set {
  struct Member {
    /// Ranks of the group that can read this member's piece and parity, or that will get them. Its
    /// blocks are dealt to these ranks. At least one.
    std::vector<int> ranks;
    /// Bytes of each part of the piece. Each part begins with a block of its own.
    std::vector<std::int64_t> parts;
    bool is_lost = false;    ///< the piece must be computed
    bool has_parity = true;  ///< its parity can be read
    /// Blocks of the piece, and of the parity, that cannot be read, ascending. Those of the piece
    /// must be computed.
    std::vector<std::int64_t> lost_blocks, lost_parities;
  };
  Code code;
  std::int64_t block_bytes = 0;  ///< a multiple of 64
  std::vector<Member> members;

  /// The number of blocks of the longest piece.
  std::int64_t most_blocks() const;
  std::int64_t cycles() const { return cycles_of(code, most_blocks()); }
};

/// How many more members may be lost before what is lost now, and what they have, can no longer be
/// computed; at least 0 while no piece lacks anything. -1: something cannot be computed now.
int margin(const Set&);

/// The number of the first block of each part of a member.
std::vector<std::int64_t> first_blocks(const Set&, int member);

/// Chooses a block size that is not too small for a message, not larger than the pieces need, and
/// that fits a Room.
std::int64_t choose_block_bytes(const Code&, std::int64_t longest_piece);

/// Reads bytes of a part of this node's piece. The span may extend past the end of the part; those
/// bytes become zeros.
using ReadPart = std::function<void(int part, std::int64_t offset, std::span<std::byte>)>;
using WritePart = std::function<void(int part, std::int64_t offset, std::span<const std::byte>)>;
/// Reads or writes parity block `number` of a member.
using ReadParity = std::function<void(std::int64_t number, std::span<std::byte>)>;
using WriteParity = std::function<void(std::int64_t number, std::span<const std::byte>)>;

/// The number of the member's parity block in a row of a cycle.
std::int64_t parity_number(const Code&, std::int64_t cycle, int place);
/// Which of the `ranks` ranks of a member has the blocks of a cycle.
constexpr int dealt_to(std::int64_t cycle, std::size_t ranks) {
  return static_cast<int>(cycle % static_cast<std::int64_t>(ranks));
}

/// Memory for the blocks that are being exchanged, each on cache lines of its own. It takes at most
/// 64 MiB and one block.
class Room {
 public:
  Room() = default;
  static Room to_make(const Set&);     ///< to make parity
  static Room to_compute(const Set&);  ///< to compute lost pieces
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

/// All ranks of all members must call it. `member` is this rank's node. An error of reading or
/// writing here is thrown when all blocks have been exchanged; the parity must not be used then.
void make_parity(Group&, const Set&, int member, const ReadPart&, const WriteParity&, const Room&);

/// What a rank can read and write of one member when lost pieces are computed.
struct Stock {
  ReadPart read_part;
  ReadParity read_parity;
  WritePart write_part;  ///< of a lost piece
};
/// All ranks of all members must call it; a rank may belong to several members. `stock` has an
/// entry for each member, used if this rank is one of its ranks. Writes the lost pieces and blocks.
/// Throws data_loss, on all ranks and before anything is sent, if too little is left to compute
/// them from. An error of reading or writing here is thrown at the end.
void compute_lost(Group&, const Set&, const std::vector<Stock>& stock, const Room&);

}  // namespace cairn::protect
