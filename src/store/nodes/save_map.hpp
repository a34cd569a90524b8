#pragma once
/// What all nodes know of a checkpoint on the nodes, and where its parts are now.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.hpp"
#include "store/nodes/parity.hpp"

namespace cairn::tier {

using protect::nth;

/// Written on each node when all parts and all parity are there: a node's share counts from then
/// on. Ranks and nodes are those of the job that saved.
struct SaveMap {
  std::string uuid;
  std::string home = {};  ///< the id of the directory it belongs to (home_id.hpp); "": not told
  std::int64_t step = 0, sequence = 0, parent = -1;
  int set_nodes = 1;                         ///< at most, of a set
  int parity = 0;                            ///< nodes of a set that may be lost
  std::vector<int> node_of;                  ///< by rank
  std::vector<std::int64_t> part_bytes;      ///< by rank
  std::vector<std::string> node_names = {};  ///< by node, for people; empty: not told
  int since_home = 0;          ///< saves on nodes behind the last one at home, with this
  double time = 0;             ///< when it was saved, since 1970
  double write_seconds = 0;    ///< the longest of any rank
  double protect_seconds = 0;  ///< as the node saw it that wrote the map

  int ranks() const { return static_cast<int>(node_of.size()); }
  int nodes() const;
};

/// What people call these nodes, at most eight of them: "a, b and 3 more".
std::string names_of(const SaveMap&, const std::vector<int>& nodes);
std::string some_of(const std::vector<std::string>& names);

/// Text with a checksum. Throws data_loss for anything else.
std::string encode(const SaveMap&);
SaveMap decode_map(std::string_view text);

/// The nodes of a save, dealt into sets.
class Sets {
 public:
  explicit Sets(const SaveMap&);

  int count() const { return static_cast<int>(sets_.size()); }
  /// Codes, blocks and parts. Members' ranks are those of the job that saved.
  const protect::Set& set(int number) const { return sets_[nth(number)]; }
  /// Nodes, by member.
  const std::vector<int>& nodes_of(int set) const { return nodes_[nth(set)]; }
  std::int64_t block_bytes_of(int node) const { return set(set_of(node)).block_bytes; }
  int set_of(int node) const { return where_[nth(node)].first; }
  int member_of(int node) const { return where_[nth(node)].second; }
  /// Of a node, ascending: the parts of its piece, in their order.
  const std::vector<int>& ranks_of(int node) const { return ranks_[nth(node)]; }

 private:
  std::vector<protect::Set> sets_;
  std::vector<std::vector<int>> nodes_, ranks_;
  std::vector<std::pair<int, int>> where_;
};

/// Parity blocks of a node, as its ranks have them in files of their own.
struct ParityExtent {
  int rank;            ///< of the job that saved
  std::int64_t block;  ///< in its file
};
ParityExtent find_parity(const protect::Set&, int member, std::int64_t number);
/// The other way: the number of such a block.
std::int64_t parity_number(const protect::Set&, int member, const ParityExtent&);
/// Such a rank's file: the blocks, then a CRC-32C of each. Its bytes, and blocks; 0: it has none.
std::int64_t parity_bytes(const protect::Set&, int member, int rank);
std::int64_t parity_blocks(const protect::Set&, int member, int rank);
/// A block of a file of so many. Throws data_loss, and what reading throws.
void read_parity(const io::File&, const protect::Set&, std::int64_t blocks, std::int64_t block,
                 std::span<std::byte> to);

/// Of a part, or of parity, of some rank: what cannot be used.
struct Unusable {
  bool all = false;
  std::set<std::int64_t> blocks;  ///< in the file
};
using UnusableByRank = std::map<int, Unusable>;

/// A checkpoint on the nodes, as they are now.
struct LocalSave {
  SaveMap map;
  /// Copies of its files: those of a node may be in several places.
  struct Copies {
    int node;
    std::vector<int> parts, parities;
  };
  std::vector<Copies> copies;
  /// Of several copies, a node's are taken from where most of them are.
  void choose_copies();

  std::vector<int> part_at;    ///< by rank then: the node that has its part now, or -1
  std::vector<int> parity_at;  ///< of its parity
  /// By rank then, of files that are there: blocks that cannot be used.
  std::map<int, std::set<std::int64_t>> bad_blocks, bad_parities;
  int home = -1;            ///< the number that stands for home among the nodes
  bool superseded = false;  ///< a run went on from an earlier checkpoint

  /// How many more nodes of any set may be lost; -1: too much is lost already.
  int margin() const;
  bool can_be_had() const { return margin() >= 0; }
  /// Whether all parts are there and, as far as is known, whole.
  bool is_complete() const;
  /// Whether all nodes are there, each for itself, with all parity: none of it only as pieces that
  /// were brought home. Without parity the rest is true, as it never was more.
  bool is_protected() const;
  /// The node whose ranks can read what is there of a node's piece; home if all of it is there; -1.
  int piece_at(const Sets&, int node) const;
  bool has_part(int rank) const { return part_at[nth(rank)] >= 0; }
  /// A set with what its members lack.
  protect::Set as_it_is(const Sets&, int set) const;
  /// Whether any of it was not known.
  bool learn(const UnusableByRank& parts, const UnusableByRank& parities);

 private:
  bool may_be_computed(const Sets&) const;
};

}  // namespace cairn::tier
