#pragma once
/// A tier of checkpoints on the nodes themselves, in memory or on flash, between those in the
/// manager's directory (docs/tiers.md). Nothing in it needs storage that nodes share.
#include <array>
#include <filesystem>
#include <memory>
#include <string>

namespace cairn {

namespace io {
class FileSystem;
}

/// What makes a checkpoint on the nodes survive the loss of some of them. A node here is whatever
/// dies at once: its ranks, its memory and its disk.
enum class Protection {
  none,         ///< of processes only: each node must come back
  parity,       ///< of each set one node may be lost: a sum over the others ("xor")
  reed_solomon  ///< of each set so many may be lost as TierOptions::lost_nodes says
};
constexpr std::array<const char*, 3> words(Protection) { return {"none", "xor", "reed_solomon"}; }

/// What becomes of a save for which the nodes have no room.
enum class WhenFull {
  home,  ///< it goes to the manager's directory; the log says so, once
  fail
};
constexpr std::array<const char*, 2> words(WhenFull) { return {"home", "fail"}; }

/// What a restart does when nodes are missing, so that a checkpoint which was on them cannot be had
/// although a node that is there knows of it.
enum class WhenLost {
  go_on,  ///< an older one is restored; the log says what is left behind
  fail    ///< restore_latest throws data_loss
};
constexpr std::array<const char*, 2> words(WhenLost) { return {"go_on", "fail"}; }

/// The group `tier`. With a directory, saves go to the nodes: each rank writes its part into its
/// node's directory, sets of nodes add parity, and save() and save_async() return when that is
/// done. Every `home_every`-th save goes to the manager's directory ("home"), as without a tier; so
/// do the first one of a directory that has none, the last one before a stop, and those that ask
/// for it (SaveOptions::reach). restore_latest() takes the newest of both, on any number of ranks.
struct TierOptions {
  /// Of each node, on a disk or in memory of its own, such as /dev/shm/me/cairn. One text for all:
  /// %h is the host's name, %n the node's (below). Empty: there is no tier.
  std::filesystem::path directory = {};
  Protection protection = Protection::parity;
  int set_nodes = 8;   ///< nodes that protect each other; 2 to 128. At most, unless the last would
                       ///< be too few to bear what protection promises
  int lost_nodes = 2;  ///< of a set, with Protection::reed_solomon
  int keep = 2;        ///< so many of the newest stay on the nodes; at least 1
  /// One of so many saves goes home; 1: all of them; 0: only those that have to.
  int home_every = 10;
  /// With such a limit, of all ranks together, these saves go to the nodes as well, and home from
  /// there while the application goes on, one at a time: what comes due meanwhile is flushed later,
  /// as the newest then. 0: they go to the directory alone, and save() returns when they are there.
  std::int64_t flush_bytes_per_second = 0;
  WhenFull when_full = WhenFull::home;
  WhenLost when_lost = WhenLost::go_on;
  /// Files on the nodes are synced: they outlive the node's power, if its disk does. Of no use in
  /// memory.
  bool sync = false;
  /// This rank's node, where hosts are not what fails at once; ranks with the same text are on one.
  /// Empty: the environment variable CAIRN_NODE, or else the host.
  std::string node = {};
  /// Where the directory is; null: the operating system's files.
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

/// Where a checkpoint is to be when its save returns.
enum class Reach {
  any,  ///< as TierOptions say
  home  ///< in the manager's directory
};
constexpr std::array<const char*, 2> words(Reach) { return {"any", "home"}; }

}  // namespace cairn
