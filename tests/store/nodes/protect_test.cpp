// Sets of nodes and their losses: every loss that a code allows is computed bit for bit, on any
// ranks, from pieces of any sizes.
#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <set>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "store/nodes/erasure.hpp"
#include "store/nodes/parity.hpp"
#include "store/nodes/place.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn::protect {
namespace {

using test::expect_error;

TEST(Sets, AreBalanced) {
  for (int nodes = 0; nodes < 40; ++nodes) {
    for (int most = 1; most < 10; ++most) {
      const auto sets = deal_sets(nodes, most);
      std::set<int> seen;
      std::size_t least = 100, longest = 0;
      for (const auto& set : sets) {
        least = std::min(least, set.size());
        longest = std::max(longest, set.size());
        seen.insert(set.begin(), set.end());
      }
      EXPECT_EQ(seen.size(), nth(nodes));
      if (sets.empty()) continue;
      EXPECT_LE(longest, nth(most));
      EXPECT_LE(longest, least + 1);
    }
  }
  // No set is smaller than its parity needs, if there are enough nodes.
  for (int nodes = 1; nodes < 300; ++nodes) {
    for (const int most : {2, 3, 8, 128}) {
      for (int least = 1; least <= most; ++least) {
        for (const auto& set : deal_sets(nodes, most, least)) {
          EXPECT_LE(set.size(), nth(most_nodes));
          if (least <= 64) {
            EXPECT_GE(set.size(), nth(std::min(nodes, least)));
          }
        }
      }
    }
  }
  EXPECT_EQ(deal_sets(3, 2, 2), (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(deal_sets(7, 4), (std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5}}));
}

TEST(Sets, GiveEachBlockOneHome) {
  for (int nodes = 2; nodes < 9; ++nodes) {
    for (int parity = 1; parity < nodes; ++parity) {
      const Code code{nodes, parity};
      for (int row = 0; row < nodes; ++row) {
        std::set<int> members;
        for (int place = 0; place < nodes; ++place) {
          const int member = member_of(code, row, place);
          EXPECT_EQ(place_of(code, row, member), place);
          members.insert(member);
        }
        EXPECT_EQ(members.size(), nth(nodes));
      }
      for (int member = 0; member < nodes; ++member) {
        for (std::int64_t number = 0; number < 3 * code.data(); ++number) {
          const auto block = data_block(code, member, number);
          EXPECT_EQ(member_of(code, block.row, block.place), member);
          EXPECT_EQ(number_of(code, block.cycle, block.place), number);
        }
      }
    }
  }
}

struct Aligned {
  alignas(64) std::byte bytes[4096];
};

// Allocates at the alignment that blocks need.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{64};
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), alignment));
  }
  void deallocate(T* at, std::size_t) { ::operator delete(at, alignment); }
  bool operator==(const AlignedAllocator&) const = default;
};
using Block = std::vector<std::byte, AlignedAllocator<std::byte>>;

TEST(Erasure, EverySubsetComesBack) {
  std::mt19937_64 random(1);
  for (const auto code : {Code{2, 1}, Code{4, 1}, Code{3, 2}, Code{8, 2}, Code{6, 3}}) {
    std::vector<Aligned> row(nth(code.nodes));
    std::vector<const std::byte*> data;
    for (int place = 0; place < code.data(); ++place) {
      for (auto& byte : row[nth(place)].bytes) byte = static_cast<std::byte>(random());
      data.push_back(row[nth(place)].bytes);
    }
    for (int j = 0; j < code.parity; ++j) {
      std::byte* const to[]{row[nth(code.data() + j)].bytes};
      Transform::encode(code, j).apply(4096, data, to);
    }
    for (unsigned lost = 1; lost < 1u << code.nodes; ++lost) {
      if (std::popcount(lost) > code.parity) continue;
      std::vector<int> there, wanted;
      std::vector<const std::byte*> from;
      for (int place = 0; place < code.nodes; ++place) {
        if (lost >> place & 1) {
          wanted.push_back(place);
        } else if (static_cast<int>(there.size()) < code.data()) {
          there.push_back(place);
          from.push_back(row[nth(place)].bytes);
        }
      }
      std::vector<Aligned> made(wanted.size());
      std::vector<std::byte*> to;
      for (auto& one : made) to.push_back(one.bytes);
      Transform::decode(code, there, wanted).apply(4096, from, to);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(std::equal(made[i].bytes, made[i].bytes + 4096, row[nth(wanted[i])].bytes))
            << code.nodes << "," << code.parity << " lost " << lost << " place " << wanted[i];
      }
    }
  }
}

/// The pieces of a set in memory, in place of the nodes' disks.
struct Pieces {
  using Part = std::vector<std::byte>;
  Pieces(int nodes, std::uint64_t seed) : parts(nth(nodes)), parity(nth(nodes)) {
    std::mt19937_64 random(seed);
    for (auto& node : parts) {
      node.resize(random() % 4);
      for (auto& part : node) {
        part.resize(random() % 3 == 0 ? random() % 5 : random() % 60000);
        for (auto& byte : part) byte = static_cast<std::byte>(random());
      }
    }
  }
  std::vector<std::vector<Part>> parts;
  std::mutex mutex;
  std::vector<std::map<std::int64_t, Part>> parity;  // by node
};

Set set_of(const Pieces& pieces, const Code& code, int ranks) {
  Set set{code, 0, {}};
  std::int64_t longest = 0;
  for (int node = 0; node < code.nodes; ++node) {
    auto& member = set.members.emplace_back();
    for (int rank = node; rank < ranks; rank += code.nodes) member.ranks.push_back(rank);
    std::int64_t bytes = 0;
    for (const auto& part : pieces.parts[nth(node)]) {
      member.parts.push_back(static_cast<std::int64_t>(part.size()));
      bytes += member.parts.back();
    }
    longest = std::max(longest, bytes);
  }
  set.block_bytes = choose_block_bytes(code, longest);
  return set;
}

bool has(const std::vector<std::int64_t>& some, std::int64_t one) {
  return std::find(some.begin(), some.end(), one) != some.end();
}

// By the definition: each row has lost at most as many blocks as it has parity, unless all of these
// are parity.
bool has_enough(const Set& set) {
  for (std::int64_t cycle = 0; cycle < set.most_blocks(); ++cycle) {
    for (int row = 0; row < set.code.nodes; ++row) {
      int lost = 0, lost_data = 0;
      for (int place = 0; place < set.code.nodes; ++place) {
        const int at = member_of(set.code, row, place);
        const auto& member = set.members[nth(at)];
        if (place >= set.code.data()) {
          lost += !member.has_parity ||
                  has(member.lost_parities, parity_number(set.code, cycle, place));
          continue;
        }
        const auto number = number_of(set.code, cycle, place);
        std::int64_t blocks = 0;
        for (const auto bytes : member.parts) {
          blocks += (bytes + set.block_bytes - 1) / set.block_bytes;
        }
        const bool is_lost = number < blocks && (member.is_lost || has(member.lost_blocks, number));
        lost += is_lost;
        lost_data += is_lost;
      }
      if (lost_data > 0 && lost > set.code.parity) return false;
    }
  }
  return true;
}

class Protect : public test::OnGroups {};
CAIRN_ON_GROUPS(Protect);

// As many nodes as there are ranks. MPI ranks have memory of their own, so all of them make the
// same pieces and send each other their parity.
void share(Group& group, Pieces& pieces) {
  struct Sent {
    std::size_t node = 0;
    std::int64_t number = 0;
    Pieces::Part bytes;
  };
  Packed<Sent> mine;
  {
    const std::lock_guard guard(pieces.mutex);
    for (std::size_t node = 0; node < pieces.parity.size(); ++node) {
      for (const auto& [number, bytes] : pieces.parity[node]) {
        mine.add({node, number, bytes});
      }
    }
  }
  for (const auto& text : all_gather(group, mine.bytes)) {
    for (auto& [node, number, bytes] : unpack_each<Sent>(text)) {
      const std::lock_guard guard(pieces.mutex);
      pieces.parity[node][number] = std::move(bytes);
    }
  }
}

TEST_P(Protect, LostNodesComeBack) {
  if (ranks() < 2) {  // which protects nothing
    EXPECT_EQ(code_of(ranks(), 2), (Code{1, 0}));
    return;
  }
  on_ranks([&](std::shared_ptr<Group> group) {
    for (const int parity : {1, 2}) {
      for (const int most : {2, 3, 8}) {
        const auto code = code_of(std::min(most, group->size()), parity);
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          Pieces pieces(code.nodes, seed);
          auto set = set_of(pieces, code, group->size());
          const int member = group->rank() % code.nodes;
          make_parity(
              *group, set, member,
              [&](int part, std::int64_t offset, std::span<std::byte> to) {
                const auto& bytes = pieces.parts[nth(member)][nth(part)];
                std::copy_n(bytes.data() + offset, to.size(), to.data());
              },
              [&](std::int64_t number, std::span<const std::byte> bytes) {
                pieces.parity[nth(member)][number] = {bytes.begin(), bytes.end()};
              },
              Room::to_make(set));
          share(*group, pieces);
          for (unsigned lost = 1; lost < 1u << code.nodes; ++lost) {
            auto some = set;
            auto left = pieces.parts;
            for (int node = 0; node < code.nodes; ++node) {
              auto& one = some.members[nth(node)];
              one.is_lost = lost >> node & 1;
              one.has_parity = !one.is_lost;
              if (!one.is_lost) continue;
              for (auto& part : left[nth(node)]) std::fill(part.begin(), part.end(), std::byte{9});
            }
            std::vector<Stock> stock(nth(code.nodes));
            for (int node = 0; node < code.nodes; ++node) {
              auto& mine = left[nth(node)];
              stock[nth(node)].read_part = [&](int part, std::int64_t at, std::span<std::byte> to) {
                std::copy_n(mine[nth(part)].data() + at, to.size(), to.data());
              };
              stock[nth(node)].write_part = [&](int part, std::int64_t at,
                                                std::span<const std::byte> from) {
                std::copy(from.begin(), from.end(), mine[nth(part)].data() + at);
              };
              stock[nth(node)].read_parity = [&pieces, node](std::int64_t number,
                                                             std::span<std::byte> to) {
                const auto& bytes = pieces.parity[nth(node)].at(number);
                std::copy(bytes.begin(), bytes.end(), to.data());
              };
            }
            if (!has_enough(some)) {
              expect_error([&] { compute_lost(*group, some, stock, Room::to_compute(some)); },
                           cairn::Code::data_loss, test::Says("too much is lost"));
              continue;
            }
            compute_lost(*group, some, stock, Room::to_compute(some));
            // Each rank has the blocks that were dealt to it; other ranks have written the others.
            const auto cycles = some.cycles();
            for (int node = 0; node < code.nodes; ++node) {
              if (!(lost >> node & 1)) continue;
              const auto& member_ranks = some.members[nth(node)].ranks;
              std::int64_t number = 0;
              for (std::size_t part = 0; part < left[nth(node)].size(); ++part) {
                const auto& want = pieces.parts[nth(node)][part];
                for (std::size_t at = 0; at < want.size(); at += nth(set.block_bytes), ++number) {
                  const auto cycle = number / code.data();
                  ASSERT_LT(cycle, cycles);
                  if (member_ranks[nth(dealt_to(cycle, member_ranks.size()))] != group->rank()) {
                    continue;
                  }
                  const auto end = std::min(want.size(), at + nth(set.block_bytes));
                  EXPECT_TRUE(
                      std::equal(want.begin() + static_cast<std::ptrdiff_t>(at),
                                 want.begin() + static_cast<std::ptrdiff_t>(end),
                                 left[nth(node)][part].begin() + static_cast<std::ptrdiff_t>(at)))
                      << cat("nodes ", code.nodes, " parity ", parity, " lost ", lost, " node ",
                             node, " part ", part, " at ", at);
                }
              }
            }
          }
        }
      }
    }
  });
}

// What compute_lost makes of pieces and parity with some lost blocks, on ranks that have all pieces
// at hand.
TEST(Blocks, AnyAreComputedAsFarAsRowsBear) {
  int computed = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int less_than) {
      return static_cast<int>(random() % static_cast<unsigned>(less_than));
    };
    const auto code = code_of(2 + draw(5), 1 + draw(2));
    Pieces pieces(code.nodes, seed);
    auto set = set_of(pieces, code, 1);
    for (auto& member : set.members) member.ranks = {0};
    const auto group = serial_group();
    // One rank for all nodes: messages to itself arrive.
    const auto read_from = [](const std::vector<Pieces::Part>& parts) {
      return [&parts](int part, std::int64_t offset, std::span<std::byte> to) {
        std::copy_n(parts[nth(part)].data() + offset, to.size(), to.data());
      };
    };
    for (std::int64_t cycle = 0; cycle < set.cycles(); ++cycle) {
      for (int row = 0; row < code.nodes; ++row) {
        for (int j = 0; j < code.parity; ++j) {
          Block sum(nth(set.block_bytes));
          std::vector<Block> data(nth(code.data()), Block(nth(set.block_bytes)));
          std::vector<const std::byte*> from;
          for (int place = 0; place < code.data(); ++place) {
            const int at = member_of(code, row, place);
            auto left = number_of(code, cycle, place);
            for (const auto& part : pieces.parts[nth(at)]) {
              const auto bytes = static_cast<std::int64_t>(part.size());
              const auto blocks = (bytes + set.block_bytes - 1) / set.block_bytes;
              if (left < blocks) {
                const auto begin = left * set.block_bytes;
                std::copy_n(part.data() + begin, std::min(set.block_bytes, bytes - begin),
                            data[nth(place)].data());
                break;
              }
              left -= blocks;
            }
            from.push_back(data[nth(place)].data());
          }
          std::byte* const to[]{sum.data()};
          Transform::encode(code, j).apply(set.block_bytes, from, to);
          const int at = member_of(code, row, code.data() + j);
          pieces.parity[nth(at)][parity_number(code, cycle, code.data() + j)] = {sum.begin(),
                                                                                 sum.end()};
        }
      }
    }
    auto left = pieces.parts;
    for (int node = 0; node < code.nodes; ++node) {
      auto& member = set.members[nth(node)];
      const auto first = first_blocks(set, node);
      for (std::size_t part = 0; part < member.parts.size(); ++part) {
        for (std::int64_t at = 0; at < member.parts[part]; at += set.block_bytes) {
          if (draw(2 * code.nodes) != 0) continue;
          member.lost_blocks.push_back(first[part] + at / set.block_bytes);
          const auto end = std::min(member.parts[part], at + set.block_bytes);
          std::fill(left[node][part].begin() + at, left[node][part].begin() + end, std::byte{9});
        }
      }
      for (const auto& [number, bytes] : pieces.parity[nth(node)]) {
        if (draw(2 * code.nodes) == 0) member.lost_parities.push_back(number);
      }
    }
    std::vector<Stock> stock(nth(code.nodes));
    for (int node = 0; node < code.nodes; ++node) {
      auto& one = stock[nth(node)];
      one.read_part = read_from(left[nth(node)]);
      one.read_parity = [&pieces, &set, node](std::int64_t number, std::span<std::byte> to) {
        EXPECT_FALSE(has(set.members[nth(node)].lost_parities, number));
        const auto& bytes = pieces.parity[nth(node)].at(number);
        std::copy(bytes.begin(), bytes.end(), to.data());
      };
      one.write_part = [&, node](int part, std::int64_t at, std::span<const std::byte> from) {
        std::copy(from.begin(), from.end(), left[nth(node)][nth(part)].data() + at);
      };
    }
    EXPECT_EQ(margin(set) >= 0, has_enough(set)) << seed;
    if (!has_enough(set)) {
      ++refused;
      expect_error([&] { compute_lost(*group, set, stock, Room::to_compute(set)); },
                   cairn::Code::data_loss, test::Says("too much is lost"));
      continue;
    }
    ++computed;
    compute_lost(*group, set, stock, Room::to_compute(set));
    EXPECT_EQ(left, pieces.parts) << seed;
  }
  EXPECT_GT(computed, 50);
  EXPECT_GT(refused, 20);
}

TEST_P(Protect, WhatCannotBeReadHangsNobody) {
  if (ranks() < 2) {  // which protects nothing
    EXPECT_EQ(code_of(ranks(), 2), (Code{1, 0}));
    return;
  }
  on_ranks([&](std::shared_ptr<Group> group) {
    const Code code{2, 1};
    Pieces pieces(2, 7);
    for (auto& node : pieces.parts) node.assign(1, Pieces::Part(50000));
    const auto set = set_of(pieces, code, group->size());
    const int member = group->rank() % 2;
    const auto error = test::error_of([&] {
      make_parity(
          *group, set, member,
          [&](int, std::int64_t, std::span<std::byte>) {
            if (member == 1) throw Error(cairn::Code::io, "the disk is gone");
          },
          [](std::int64_t, std::span<const std::byte>) {}, Room::to_make(set));
    });
    const bool works =
        dealt_to(0, set.members[nth(member)].ranks.size()) == static_cast<int>(group->rank() / 2);
    if (member == 1 && works) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), cairn::Code::io);
    }
  });
}

TEST(Rooms, HaveTheirBlocksAtMultiplesOf64) {
  std::vector<Room> rooms;  // all at once, so that they lie at different addresses
  for (std::int64_t bytes = 64; bytes <= 64 << 12; bytes *= 2) {
    rooms.push_back(Room::to_compute(Set{{4, 2}, bytes, {}}));
    for (const auto block : {rooms.back().out(0), rooms.back().in(1), rooms.back().made()}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0u) << bytes;
      EXPECT_EQ(block.size(), nth(bytes));
    }
  }
}

// Parts without a map are nothing, and a map without its parts would be a damaged save.
TEST(ASaveOnANode, GoesMapFirst) {
  io::MemoryFileSystem disk;
  disk.create_directory("/node");
  disk.create_directory("/node/save");
  for (const auto* name : {tier::map_name, "part-0", "parity-0"}) {
    io::write_file(disk, io::Path("/node/save") / name, name);
  }
  for (const auto* path : {"/node/save", "/node", "/"}) disk.sync_directory(path);
  disk.mark();
  EXPECT_TRUE(tier::remove_save(disk, "/node/save", true));
  int with_map = 0;
  for (std::size_t stop = 0; stop <= disk.operation_count(); ++stop) {
    for (const auto& choice : disk.crash_choices(stop)) {
      const auto found = disk.crash(stop, choice);
      if (!found->status(io::Path("/node/save") / tier::map_name)) continue;
      ++with_map;
      EXPECT_EQ(found->list("/node/save").size(), 3u) << disk.describe(stop, choice);
    }
  }
  EXPECT_GT(with_map, 0);
}

}  // namespace
}  // namespace cairn::protect
