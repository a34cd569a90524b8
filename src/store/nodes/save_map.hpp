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

/// Written on each node when all parts and all parity are there: from then on a node's share
/// counts. Ranks and nodes are those of the job that saved.
struct SaveMap {
  std::string uuid;
  std::string home = {};  ///< id of the directory to which it belongs (home_id.hpp); "": unknown
  std::int64_t step = 0, sequence = 0, parent = -1;
  int set_nodes = 1;                         ///< the most nodes of a set
  int parity = 0;                            ///< nodes of a set that may be lost
  std::vector<int> node_of;                  ///< by rank
  std::vector<std::int64_t> part_bytes;      ///< by rank
  std::vector<std::string> node_names = {};  ///< by node, for people; empty: unknown
  int since_home = 0;          ///< saves on the nodes since the last one at home, with this one
  double time = 0;             ///< when it was saved, in seconds since 1970
  double write_seconds = 0;    ///< the longest of any rank
  double protect_seconds = 0;  ///< as measured on the node that wrote the map

  int ranks() const { return static_cast<int>(node_of.size()); }
  int nodes() const;
};

/// The names of these nodes for people, at most eight of them: "a, b and 3 more".
std::string names_of(const SaveMap&, const std::vector<int>& nodes);
std::string some_of(const std::vector<std::string>& names);

/// A map as text with a checksum. Decoding throws data_loss for any other text.
std::string encode(const SaveMap&);
SaveMap decode_map(std::string_view text);

/// The nodes of a save, divided into sets.
class Sets {
 public:
  explicit Sets(const SaveMap&);

  int count() const { return static_cast<int>(sets_.size()); }
  /// The set's code, blocks and parts. The ranks of its members are those of the job that saved.
  const protect::Set& set(int number) const { return sets_[nth(number)]; }
  /// The nodes of the set, in the order of its members.
  const std::vector<int>& nodes_of(int set) const { return nodes_[nth(set)]; }
  std::int64_t block_bytes_of(int node) const { return set(set_of(node)).block_bytes; }
  int set_of(int node) const { return where_[nth(node)].first; }
  int member_of(int node) const { return where_[nth(node)].second; }
  /// The ranks of a node, ascending: their parts in this order are its piece.
  const std::vector<int>& ranks_of(int node) const { return ranks_[nth(node)]; }

 private:
  std::vector<protect::Set> sets_;
  std::vector<std::vector<int>> nodes_, ranks_;
  std::vector<std::pair<int, int>> where_;
};

/// The place of a node's parity block: each of its ranks has a file with some of them.
struct ParityExtent {
  int rank;            ///< of the job that saved
  std::int64_t block;  ///< number in that file
};
ParityExtent find_parity(const protect::Set&, int member, std::int64_t number);
/// The inverse: the number of the parity block at this place.
std::int64_t parity_number(const protect::Set&, int member, const ParityExtent&);
/// Such a file has the blocks, then a CRC-32C of each. Its size in bytes, and its number of blocks;
/// 0 if the rank has none.
std::int64_t parity_bytes(const protect::Set&, int member, int rank);
std::int64_t parity_blocks(const protect::Set&, int member, int rank);
/// Reads one block of a file that has `blocks` blocks. Throws data_loss, and the errors of reading.
void read_parity(const io::File&, const protect::Set&, std::int64_t blocks, std::int64_t block,
                 std::span<std::byte> to);

/// What cannot be used of one rank's part or parity file.
struct Unusable {
  bool all = false;
  std::set<std::int64_t> blocks;  ///< numbers of blocks in the file
};
using UnusableByRank = std::map<int, Unusable>;

/// A checkpoint on the nodes as it is now.
struct LocalSave {
  SaveMap map;
  /// Copies of its files at one place. The files of a node may be at several places.
  struct Copies {
    int node;
    std::vector<int> parts, parities;
  };
  std::vector<Copies> copies;
  /// Chooses among copies: a node's files are taken from the place that has most of them.
  void choose_copies();

  /// By rank of the job that saved: the node that has its part now, or -1.
  std::vector<int> part_at;
  std::vector<int> parity_at;  ///< the same for its parity
  /// By rank of the job that saved: blocks that cannot be used, of files that are there.
  std::map<int, std::set<std::int64_t>> bad_blocks, bad_parities;
  int home = -1;            ///< the number that stands for home among the nodes
  bool superseded = false;  ///< a run continued from an earlier checkpoint

  /// How many more nodes of any set may be lost; -1 if too much is lost already.
  int margin() const;
  bool can_be_had() const { return margin() >= 0; }
  /// Returns whether all parts are there and, as far as is known, undamaged.
  bool is_complete() const;
  /// Returns whether every node's piece is on a node of its own, with all its parity, and not only
  /// among the pieces that were copied to the directory. A save without parity never has any, so
  /// only the rest counts.
  bool is_protected() const;
  /// The node whose ranks can read what is left of a node's piece. Home if all of it is there, -1
  /// if there is none.
  int piece_at(const Sets&, int node) const;
  bool has_part(int rank) const { return part_at[nth(rank)] >= 0; }
  /// A set, with what its members lack now.
  protect::Set as_it_is(const Sets&, int set) const;
  /// Notes what cannot be used. Returns whether any of it was not known.
  bool learn(const UnusableByRank& parts, const UnusableByRank& parities);

 private:
  bool may_be_computed(const Sets&) const;
};

}  // namespace cairn::tier
