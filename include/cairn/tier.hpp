#pragma once
/// A tier of checkpoints on the nodes themselves, in memory or on flash, between those in the
/// manager's directory (docs/tiers.md). It needs no storage that nodes share.
#include <array>
#include <memory>
#include <string>

#include "cairn/path_text.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// How a checkpoint on the nodes survives the loss of some of them. A node here is a unit that
/// fails as a whole: its ranks, its memory and its disk.
enum class Protection {
  none,         ///< survives the loss of processes only: each node must come back
  parity,       ///< of each set one node may be lost: parity is a sum over the others ("xor")
  reed_solomon  ///< of each set TierOptions::lost_nodes nodes may be lost
};
constexpr std::array<const char*, 3> words(Protection) { return {"none", "xor", "reed_solomon"}; }

/// What happens to a save for which the nodes have no room.
enum class WhenFull {
  home,  ///< it goes to the manager's directory; the log says so once
  fail
};
constexpr std::array<const char*, 2> words(WhenFull) { return {"home", "fail"}; }

/// What a restart does if a checkpoint on the nodes cannot be restored because nodes are missing,
/// although a node that is there knows of it.
enum class WhenLost {
  go_on,  ///< restores an older one; the log says which one it skips
  fail    ///< restore_latest throws data_loss
};
constexpr std::array<const char*, 2> words(WhenLost) { return {"go_on", "fail"}; }

/// The group `tier`. With a directory, saves go to the nodes: each rank writes its part into its
/// node's directory, sets of nodes add parity, and save() and save_async() return when that is
/// done. Every `home_every`-th save goes to the manager's directory ("home"), as without a tier; so
/// do the first save if that directory has no checkpoint, the last save before a stop, and saves
/// that ask for it (SaveOptions::reach). restore_latest() takes the newest checkpoint of both
/// places, on any number of ranks.
struct TierOptions {
  /// The directory of each node, on its own disk or in its memory, such as /dev/shm/me/cairn. All
  /// ranks give the same text: %h is the host's name, %n the node's (below). Empty: there is no
  /// tier.
  PathText directory = {};
  Protection protection = Protection::parity;
  /// A set has at most so many nodes, which protect each other, 2 to 128. It has more if it would
  /// else be too small for what protection promises.
  int set_nodes = 8;
  int lost_nodes = 2;  ///< so many of a set may be lost, with Protection::reed_solomon
  int keep = 2;        ///< so many of the newest checkpoints stay on the nodes; at least 1
  /// One save in so many goes home; 1: all saves; 0: only those that have to.
  int home_every = 10;
  /// With such a limit, for all ranks together, these saves go to the nodes as well, and are copied
  /// home from there while the application goes on, one at a time: if a save becomes due meanwhile,
  /// the newest checkpoint is flushed afterwards. 0: these saves go to the directory only, and
  /// save() returns when they are there.
  std::int64_t flush_bytes_per_second = 0;
  WhenFull when_full = WhenFull::home;
  WhenLost when_lost = WhenLost::go_on;
  /// Sync files on the nodes, so that they survive a power failure of the node if its disk does.
  /// Useless for files in memory.
  bool sync = false;
  /// The name of this rank's node, if hosts are not the units that fail; ranks with the same text
  /// are on one node. Empty: the environment variable CAIRN_NODE, or else the host's name.
  std::string node = {};
  /// The file system of the directory; null: the operating system's files.
  std::shared_ptr<io::FileSystem> file_system = nullptr;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [directory, protection, set_nodes, lost_nodes, keep, home_every, flush_bytes_per_second,
           when_full, when_lost, sync, node, file_system] = self;
    options.agreed("directory", directory);
    options.agreed("protection", protection);
    options.agreed("set_nodes", set_nodes);
    options.agreed("lost_nodes", lost_nodes);
    options.agreed("keep", keep);
    options.agreed("home_every", home_every);
    options.agreed("flush_bytes_per_second", flush_bytes_per_second);
    options.agreed("when_full", when_full);
    options.agreed("when_lost", when_lost);
    options.agreed("sync", sync);
    options.own("node", node);
    options.own("file_system", file_system);
  }
};

/// Where a checkpoint has to be when its save returns.
enum class Reach {
  any,  ///< as TierOptions say
  home  ///< in the manager's directory
};
constexpr std::array<const char*, 2> words(Reach) { return {"any", "home"}; }

}  // namespace cairn
