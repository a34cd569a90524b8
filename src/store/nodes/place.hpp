#pragma once
/// Where checkpoints on the nodes lie.
///
///   TIER/HOME-ID/NAME/SEQUENCE-UUID/   on each node: part-RANK, parity-RANK, map
///   TIER/HOME-ID/.home               which directory HOME-ID stands for
///   HOME/.cairn/pieces/NAME/SEQUENCE-UUID/   the same files of several nodes, brought there to be
///                                            safe
///
/// NAME is that of the checkpoints: several names may be saved in one home, each by itself.
#include <optional>
#include <string>

#include "store/address.hpp"
#include "store/nodes/save_map.hpp"

namespace cairn::tier {

inline constexpr const char* map_name = "map";

/// The text of TierOptions::directory on this host and node; a node without a name is the host, so
/// that the next job finds it whatever the order of its nodes. Throws invalid_argument.
io::Path node_directory(const std::string& text, const std::string& node);
/// The same of a node that may be told by CAIRN_NODE ("").
io::Path node_folder(const std::string& text, std::string node);

/// Throws invalid_argument for what is not this user's own directory (of POSIX files); others'
/// directories in /dev/shm may have been put there to be found. Takes others' rights away, unless
/// it only looks.
void require_own(const io::Path&, bool only_looks = false);
/// Throws invalid_argument where a directory or a link that leads to it belongs to another user
/// than this one and root, who could put something else in its place.
void require_way(const io::Path&);
/// Both, for who tidies a node or copies what it has; of POSIX files.
void require_own_node(const io::FileSystem&, const io::Path&);
/// Whether both are on one disk, as far as POSIX tells.
bool are_on_one_disk(const io::Path&, const io::Path&);

/// Which directory a home is, and in which one it lies: where that is another one, a file system
/// may be away that is mounted there.
struct NotedHome {
  io::Path path;
  std::uint64_t parent = 0;  ///< its inode; 0: not noted
  bool operator==(const NotedHome&) const = default;
};
/// With what a node has of a home, for who tidies the node without a job.
void note_home(io::FileSystem&, const io::Path& node_directory, const std::string& home_id,
               const io::Path& home, io::FileSystem& home_files);
std::optional<NotedHome> noted_home(io::FileSystem&, const io::Path& node_directory,
                                    const std::string& home_id);

std::string save_name(const SaveMap&);
io::Path pieces_at(const io::Path& home);
/// Whether a folder of pieces, by name, is where it seems to be: what a link leads to may be
/// another run's. The log tells.
bool are_own(const Address& pieces);
/// For who writes there, or removes. Throws invalid_argument, as commit::require_no_links().
void require_no_links(io::FileSystem&, const io::Path& home);

/// The number in PREFIX-NUMBER, or -1.
int number_behind(const std::string& name, std::string_view prefix);

/// The maps in a folder of saves. What is damaged is passed over, for the log.
std::vector<SaveMap> list_maps(const Address&);

/// What of a save is there whole, by rank.
struct Stocked {
  std::vector<int> parts, parities;
};
Stocked look_at_save(const Address& folder, const SaveMap&);

/// A place has this of a save: among those that are known, by uuid. `node`: a number of the place,
/// `home` that of the run's directory.
void add_copies(std::vector<LocalSave>&, SaveMap, int node, Stocked, int home);
/// When all places have been added: chooses copies, marks what is superseded by another of them,
/// and sorts, the newest first.
void resolve_saves(std::vector<LocalSave>&);
/// A save was committed that goes on from this parent: what lies between the two is superseded.
void supersede(std::vector<LocalSave>&, std::int64_t parent, std::int64_t sequence);

/// Removes a save's folder, the map first: what is left then is none, durably if `sync`. False: it
/// failed, of which the log tells.
bool remove_save(io::FileSystem&, const io::Path& folder, bool sync = false);
/// The same, unless its map says that it is one of another home. Throws where the map cannot be
/// read now.
void remove_own_save(io::FileSystem&, const io::Path& folder, const std::string& home);

}  // namespace cairn::tier
