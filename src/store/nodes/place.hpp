#pragma once
/// Where the files of checkpoints on the nodes are.
///
///   TIER/HOME-ID/NAME/SEQUENCE-UUID/   on each node: part-RANK, parity-RANK, map
///   TIER/HOME-ID/.home               which directory HOME-ID stands for
///   HOME/.cairn/pieces/NAME/SEQUENCE-UUID/   the same files of several nodes, brought there to be
///                                            safe
///
/// NAME is the name of the checkpoints: several names may be saved in one home, independently.
#include <optional>
#include <string>

#include "store/address.hpp"
#include "store/nodes/save_map.hpp"

namespace cairn::tier {

inline constexpr const char* map_name = "map";

/// The directory that TierOptions::directory means on this host and node. Without a node name the
/// host's name is used, so that the next job finds it whatever the order of its nodes. Throws
/// invalid_argument.
io::Path node_directory(const std::string& text, const std::string& node);
/// The same. An empty `node` is replaced by CAIRN_NODE.
io::Path node_folder(const std::string& text, std::string node);

/// Throws invalid_argument if the path is not a directory of this user (POSIX files only): other
/// users can put directories into /dev/shm and wait for somebody to use them. Removes the access
/// rights of other users, unless `only_looks`.
void require_own(const io::Path&, bool only_looks = false);
/// Throws invalid_argument if a directory or link on the way to the path belongs to another user,
/// except root: that user could put something else in its place.
void require_way(const io::Path&);
/// Both checks, for tools that clean up a node or copy its files; only for POSIX files.
void require_own_node(const io::FileSystem&, const io::Path&);
/// Returns whether both are on one disk, as far as POSIX tells.
bool are_on_one_disk(const io::Path&, const io::Path&);

/// Which directory a home is, and in which directory it lies. If that parent is another one now,
/// the file system that was mounted there may be away.
struct NotedHome {
  io::Path path;
  std::uint64_t parent = 0;  ///< its inode; 0: not noted
  bool operator==(const NotedHome&) const = default;
};
/// Notes this beside what a node has of a home, for tools that clean up the node without a job.
void note_home(io::FileSystem&, const io::Path& node_directory, const std::string& home_id,
               const io::Path& home, io::FileSystem& home_files);
std::optional<NotedHome> noted_home(io::FileSystem&, const io::Path& node_directory,
                                    const std::string& home_id);

std::string save_name(const SaveMap&);
io::Path pieces_at(const io::Path& home);
/// Returns whether a folder of pieces is where its name says. If it is reached by a link, it may
/// belong to another run, which is logged.
bool are_own(const Address& pieces);
/// For callers that write there or remove. Throws invalid_argument, as commit::require_no_links()
/// does.
void require_no_links(io::FileSystem&, const io::Path& home);

/// The number in PREFIX-NUMBER, or -1.
int number_behind(const std::string& name, std::string_view prefix);

/// The maps in a folder of saves. Damaged ones are logged and skipped.
std::vector<SaveMap> list_maps(const Address&);

/// What a place has of a save, by rank; only whole files count.
struct Stocked {
  std::vector<int> parts, parities;
};
Stocked look_at_save(const Address& folder, const SaveMap&);

/// Notes what a place has of a save, whose known saves are found by uuid. `node` is the number of
/// the place, `home` that of the run's directory.
void add_copies(std::vector<LocalSave>&, SaveMap, int node, Stocked, int home);
/// Call it when all places have been added. Chooses copies, marks saves that another one
/// supersedes, and sorts them, newest first.
void resolve_saves(std::vector<LocalSave>&);
/// Notes that a save with this parent was committed: the saves between the two are superseded.
void supersede(std::vector<LocalSave>&, std::int64_t parent, std::int64_t sequence);

/// Removes a save's folder, the map first: without its map the rest does not count. With `sync`
/// that is durable. Returns false if it failed, and logs that.
bool remove_save(io::FileSystem&, const io::Path& folder, bool sync = false);
/// The same, unless the map says that the save belongs to another home. Throws if the map cannot be
/// read now.
void remove_own_save(io::FileSystem&, const io::Path& folder, const std::string& home);

}  // namespace cairn::tier
