#include "store/nodes/parity.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "store/nodes/erasure.hpp"

namespace cairn::protect {
namespace {

constexpr std::int64_t most_block_bytes = std::int64_t{1} << 20, least_block_bytes = 4096,
                       most_room_bytes = std::int64_t{64} << 20;

std::int64_t blocks_of(std::int64_t bytes, std::int64_t block_bytes) {
  return (bytes + block_bytes - 1) / block_bytes;
}

// The place of a data block of a piece.
struct BlockAddress {
  int part = -1;  // -1: after the end of the piece
  std::int64_t offset = 0, bytes = 0;
};

// Finds blocks of one piece.
class PieceBlocks {
 public:
  PieceBlocks(const Set::Member& member, std::int64_t block_bytes)
      : parts_(&member.parts), block_bytes_(block_bytes) {
    for (const auto bytes : member.parts) {
      begins_.push_back(all_);
      all_ += blocks_of(bytes, block_bytes);
    }
  }
  std::int64_t all() const { return all_; }
  bool has(std::int64_t number) const { return number < all_; }
  BlockAddress find(std::int64_t number) const {
    if (!has(number)) return {};
    // The last part that begins at the block or before it, and that has blocks.
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), number);
    const auto part = next - begins_.begin() - 1;
    const auto offset = (number - begins_[nth(part)]) * block_bytes_;
    return {static_cast<int>(part), offset, std::min(block_bytes_, (*parts_)[nth(part)] - offset)};
  }

 private:
  const std::vector<std::int64_t>* parts_;
  std::int64_t block_bytes_, all_ = 0;
  std::vector<std::int64_t> begins_;
};

void zero(std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }

int rank_of(const Set::Member& member, std::int64_t cycle) {
  return member.ranks[nth(dealt_to(cycle, member.ranks.size()))];
}

std::vector<PieceBlocks> pieces_of(const Set& set) {
  std::vector<PieceBlocks> pieces;
  for (const auto& member : set.members) pieces.emplace_back(member, set.block_bytes);
  return pieces;
}

// Fills the block with zeros if it cannot be read.
template <class Read>
void read_or_zero(std::span<std::byte> to, DeferredError& error, Read&& read) {
  bool done = false;
  error.guard([&] {
    read();
    done = true;
  });
  if (!done) zero(to);
}

// Reads a data block. Bytes after the end of the part are zeros.
void read_block(const PieceBlocks& piece, std::int64_t number, const ReadPart& read,
                std::span<std::byte> to, DeferredError& error) {
  const auto at = piece.find(number);
  zero(to.subspan(nth(at.bytes)));
  read_or_zero(to, error, [&] { read(at.part, at.offset, to.first(nth(at.bytes))); });
}

}  // namespace

std::int64_t Set::most_blocks() const {
  std::int64_t most = 0;
  for (const auto& member : members) {
    most = std::max(most, PieceBlocks(member, block_bytes).all());
  }
  return most;
}

std::int64_t choose_block_bytes(const Code& code, std::int64_t longest_piece) {
  const auto share = longest_piece / std::max(1, code.data());
  const auto pages = (share + least_block_bytes - 1) / least_block_bytes;
  // The blocks that make_parity has in memory at once.
  const std::int64_t at_once = code.data() * (code.parity + std::int64_t{1});
  const auto fits = most_room_bytes / at_once / least_block_bytes * least_block_bytes;
  const auto most = std::clamp(fits, least_block_bytes, most_block_bytes);
  return std::clamp(pages * least_block_bytes, least_block_bytes, most);
}

Room::Room(int outs, int ins, std::int64_t block_bytes)
    : memory_(
          std::make_unique_for_overwrite<std::byte[]>(nth((outs + ins + 1) * block_bytes + 64))),
      block_bytes_(block_bytes),
      outs_(outs),
      ins_(ins) {
  // Transform::apply() wants blocks at multiples of 64 bytes.
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  first_ = memory_.get() + (64 - address % 64) % 64;
}
Room Room::to_make(const Set& set) {
  return {set.code.data(), set.code.data() * set.code.parity, set.block_bytes};
}
Room Room::to_compute(const Set& set) {
  return {set.code.data(), set.code.data(), set.block_bytes};
}

std::int64_t parity_number(const Code& code, std::int64_t cycle, int place) {
  return cycle * code.parity + place - code.data();
}

// In each cycle one rank of each member works (dealt_to). It sends each of its data blocks to the
// members that have the row's parity, receives the data of the rows whose parity it has, and
// computes that.
void make_parity(Group& group, const Set& set, int member, const ReadPart& read,
                 const WriteParity& write, const Room& room) {
  const auto& code = set.code;
  const auto pieces = pieces_of(set);
  std::vector<Transform> transforms;
  for (int j = 0; j < code.parity; ++j) transforms.push_back(Transform::encode(code, j));
  // Errors are kept: other ranks wait for the blocks, so all messages are sent.
  DeferredError error;
  std::vector<Group::Send> sends;
  std::vector<Group::Receive> receives;
  const auto cycles = set.cycles();
  for (std::int64_t cycle = 0; cycle < cycles; ++cycle) {
    if (rank_of(set.members[nth(member)], cycle) != group.rank()) continue;
    sends.clear();
    receives.clear();
    // Both sides take each node's blocks in the order of the rows.
    for (int row = 0; row < code.nodes; ++row) {
      const int mine = place_of(code, row, member);
      if (mine < code.data()) {
        const auto number = number_of(code, cycle, mine);
        if (!pieces[nth(member)].has(number)) continue;
        const auto block = room.out(mine);
        read_block(pieces[nth(member)], number, read, block, error);
        for (int j = 0; j < code.parity; ++j) {
          const int to = member_of(code, row, code.data() + j);
          sends.push_back({rank_of(set.members[nth(to)], cycle), block});
        }
        continue;
      }
      for (int place = 0; place < code.data(); ++place) {
        const int from = member_of(code, row, place);
        const auto block = room.in((mine - code.data()) * code.data() + place);
        if (!pieces[nth(from)].has(number_of(code, cycle, place))) {
          zero(block);
          continue;
        }
        receives.push_back({rank_of(set.members[nth(from)], cycle), block});
      }
    }
    if (!sends.empty() || !receives.empty()) group.exchange(sends, receives);
    for (int row = 0; row < code.nodes; ++row) {
      const int mine = place_of(code, row, member);
      if (mine < code.data()) continue;
      const int j = mine - code.data();
      std::vector<const std::byte*> from;
      for (int place = 0; place < code.data(); ++place) {
        from.push_back(room.in(j * code.data() + place).data());
      }
      error.guard([&] {
        std::byte* const to[]{room.made().data()};
        transforms[nth(j)].apply(set.block_bytes, from, to);
        write(parity_number(code, cycle, mine), room.made());
      });
    }
  }
  if (error) throw Error(*error.first());
}

namespace {

bool has(const std::vector<std::int64_t>& ascending, std::int64_t one) {
  return std::binary_search(ascending.begin(), ascending.end(), one);
}

// One row of a cycle: which of its blocks are lost, and which are there.
struct Row {
  std::vector<int> wanted, there;  // places
  int lost_parities = 0;
  bool can_be_computed(const Code& code) const {
    return wanted.empty() || std::ssize(there) >= code.data();
  }
};

// Depends on the set alone, so all ranks find the same.
Row look_at_row(const Set& set, const std::vector<PieceBlocks>& pieces, std::int64_t cycle,
                int row) {
  const auto& code = set.code;
  Row found;
  for (int place = 0; place < code.nodes; ++place) {
    const auto at = nth(member_of(code, row, place));
    const auto& member = set.members[at];
    if (place < code.data()) {
      const auto number = number_of(code, cycle, place);
      // After the end of a piece there are only zeros, so such a block is never lost.
      const bool is_lost =
          pieces[at].has(number) && (member.is_lost || has(member.lost_blocks, number));
      (is_lost ? found.wanted : found.there).push_back(place);
      continue;
    }
    const bool is_there =
        member.has_parity && !has(member.lost_parities, parity_number(code, cycle, place));
    if (is_there) found.there.push_back(place);
    found.lost_parities += !is_there;
  }
  return found;
}

}  // namespace

std::vector<std::int64_t> first_blocks(const Set& set, int member) {
  std::vector<std::int64_t> first;
  std::int64_t all = 0;
  for (const auto bytes : set.members[nth(member)].parts) {
    first.push_back(all);
    all += blocks_of(bytes, set.block_bytes);
  }
  return first;
}

int margin(const Set& set) {
  const auto& code = set.code;
  int lost = 0, without = 0;  // lost members, and members that lack only their parity
  for (const auto& member : set.members) {
    lost += member.is_lost;
    without += !member.is_lost && !member.has_parity;
  }
  const auto left_of = [&](bool lacks, int left) { return lacks ? left : std::max(0, left); };
  int least = left_of(lost > 0, code.parity - lost - without);
  // Then each row in which single blocks are lost.
  const auto pieces = pieces_of(set);
  const auto look = [&](std::int64_t cycle, int row) {
    const auto found = look_at_row(set, pieces, cycle, row);
    const auto lacks = static_cast<int>(std::ssize(found.wanted));
    least = std::min(least, left_of(lacks > 0, code.parity - lacks - found.lost_parities));
  };
  for (int i = 0; i < code.nodes; ++i) {
    for (const auto number : set.members[nth(i)].lost_blocks) {
      const auto at = data_block(code, i, number);
      look(at.cycle, at.row);
    }
    for (const auto number : set.members[nth(i)].lost_parities) {
      // Parity j of row r is on member r + j (sets.hpp).
      const auto behind = static_cast<int>(number % code.parity);
      look(number / code.parity, (i - behind + code.nodes) % code.nodes);
    }
  }
  return std::max(-1, least);
}

namespace {

// Computes the lost blocks of a set, one place after another.
class Computation {
 public:
  Computation(Group& group, const Set& set, const std::vector<Stock>& stock, const Room& room)
      : group_(group), set_(set), stock_(stock), room_(room), pieces_(pieces_of(set)) {}

  void run() {
    // Without parity there are no cycles, but lost blocks must be found. So many cycles have all
    // blocks.
    const auto cycles = code_.parity > 0 ? set_.cycles() : set_.most_blocks();
    // All ranks have the same set, so all of them throw here, or none.
    each_row(cycles, [&](std::int64_t, int, const Row& found) {
      if (found.can_be_computed(code_)) return;
      throw Error(cairn::Code::data_loss, "too much is lost",
                  cat("of ", code_.nodes, " nodes that protect each other ", code_.parity,
                      " may be lost, or blocks of so many in a row, and more are"));
    });
    each_row(cycles, [&](std::int64_t cycle, int row, Row found) {
      if (found.wanted.empty()) return;
      // So many blocks of a row give all the others.
      found.there.resize(nth(code_.data()));
      for (const int place : found.wanted) compute(cycle, row, found.there, place);
    });
    if (error_) throw Error(*error_.first());
  }

 private:
  template <class Do>
  void each_row(std::int64_t cycles, Do&& act) {
    for (std::int64_t cycle = 0; cycle < cycles; ++cycle) {
      for (int row = 0; row < code_.nodes; ++row) {
        act(cycle, row, look_at_row(set_, pieces_, cycle, row));
      }
    }
  }

  // `there`: the places of a row from which a lost one is computed: the data blocks that are there,
  // then parity.
  void compute(std::int64_t cycle, int row, const std::vector<int>& there, int place) {
    const auto lost = nth(member_of(code_, row, place));
    const int target = rank_of(set_.members[lost], cycle);
    sends_.clear();
    receives_.clear();
    from_.clear();
    for (std::size_t i = 0; i < there.size(); ++i) {
      const int source = member_of(code_, row, there[i]);
      const auto number = number_of(code_, cycle, there[i]);
      const bool is_zero = there[i] < code_.data() && !pieces_[nth(source)].has(number);
      const int sender = rank_of(set_.members[nth(source)], cycle);
      const auto here = room_.in(static_cast<int>(i));
      if (target == group_.rank()) {
        from_.push_back(here.data());
        if (is_zero) zero(here);
        if (!is_zero) receives_.push_back({sender, here});
      }
      if (is_zero || sender != group_.rank()) continue;
      const auto block = room_.out(static_cast<int>(i));
      read(cycle, source, there[i], block);
      sends_.push_back({target, block});
    }
    if (!sends_.empty() || !receives_.empty()) group_.exchange(sends_, receives_);
    if (target == group_.rank()) error_.guard([&] { write(cycle, lost, there, place); });
  }

  void read(std::int64_t cycle, int member, int place, std::span<std::byte> block) {
    const auto& at_hand = stock_[nth(member)];
    if (place < code_.data()) {
      const auto number = number_of(code_, cycle, place);
      read_block(pieces_[nth(member)], number, at_hand.read_part, block, error_);
      return;
    }
    read_or_zero(block, error_,
                 [&] { at_hand.read_parity(parity_number(code_, cycle, place), block); });
  }

  void write(std::int64_t cycle, std::size_t member, const std::vector<int>& there, int place) {
    const auto key = std::pair(there, place);
    auto found = transforms_.find(key);
    if (found == transforms_.end()) {
      found = transforms_.emplace(key, Transform::decode(code_, there, {place})).first;
    }
    std::byte* const to[]{room_.made().data()};
    found->second.apply(set_.block_bytes, from_, to);
    const auto at = pieces_[member].find(number_of(code_, cycle, place));
    stock_[member].write_part(at.part, at.offset, room_.made().first(nth(at.bytes)));
  }

  Group& group_;
  const Set& set_;
  const Code& code_ = set_.code;
  const std::vector<Stock>& stock_;
  const Room& room_;
  const std::vector<PieceBlocks> pieces_;
  DeferredError error_;
  std::map<std::pair<std::vector<int>, int>, Transform>
      transforms_;  // by the places that are there, and the wanted one
  std::vector<Group::Send> sends_;
  std::vector<Group::Receive> receives_;
  std::vector<const std::byte*> from_;
};

}  // namespace

void compute_lost(Group& group, const Set& set, const std::vector<Stock>& stock, const Room& room) {
  Computation(group, set, stock, room).run();
}

}  // namespace cairn::protect
