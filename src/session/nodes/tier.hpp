#pragma once
/// Checkpoints on the nodes: what is there, saving, and what a restart gets of them.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/state.hpp"
#include "session/job/job.hpp"
#include "session/nodes/node_file.hpp"
#include "session/save/plans.hpp"
#include "session/save/save_log.hpp"
#include "store/nodes/place.hpp"
#include "store/nodes/save_map.hpp"

namespace cairn::tier {

/// Number and name of a save on the nodes, from rank 0.
struct Numbers {
  std::int64_t sequence = 0, parent = -1;
  double time = 0;
  std::string uuid;
};

/// What a restart has of a save on the nodes: on each rank some of its parts, as a state from which
/// others are filled. It reads files, which outlive it.
class Gathered {
 public:
  struct Strings {
    Dims shape;
    std::vector<std::string> values;
  };
  const State& state() const { return state_; }
  const CheckpointMeta& meta() const { return meta_; }
  const io::Path& path() const { return path_; }  ///< where they are, on rank 0's node

 private:
  friend class Tier;
  void add_part(std::shared_ptr<NodeFile>);
  std::string said_by_first(Group&) const;
  void make_state();
  State state_;
  std::map<std::string, LocalTensor> tensors_;
  std::map<std::string, Strings> strings_;
  std::vector<std::shared_ptr<NodeFile>> parts_;
  CheckpointMeta meta_;
  io::Path path_;
};

/// Called by the thread that may call MPI. All members that are not marked are collective.
class Tier {
 public:
  /// Local. The job, of the manager's directory, outlives it.
  explicit Tier(const Job& home);

  /// When options and nodes of the job are agreed on. `home_id` tells which directory the
  /// checkpoints belong to; the same on all ranks. Makes the nodes' directories and looks what is
  /// in them. Removes nothing.
  void open(const std::string& home_id);

  /// Local. What is on the nodes, the newest first; the same on all ranks.
  const std::vector<LocalSave>& saves() const { return saves_; }
  /// Local, on all ranks alike. A save was committed, here or at home, that goes on from this
  /// parent: what lies between the two is superseded.
  void committed(std::int64_t parent, std::int64_t sequence) {
    supersede(saves_, parent, sequence);
  }

  /// Saves on the nodes: parts, parity, maps, verdict; then older ones go. `numbers`: rank 0 makes
  /// them. Returns where the part of this rank is; nothing, on all ranks alike, if the save is to
  /// go home, for which `why` says why. Throws what saves throw; then nothing is left, or
  /// what a restart may still complete, as the error says.
  struct Request {
    std::int64_t step;
    const State& given;
    const SaveOptions& options;
    int since_home;  ///< saves on nodes behind the last one at home, with this one
    SaveStatistics& figures;
    Trace* trace;
  };
  std::optional<io::Path> save(const Request&, const std::function<Numbers()>& numbers,
                               std::string& why);
  /// Local, the same on all ranks. The nodes that had no room for the last save; empty: none.
  const std::string& full_nodes() const { return full_; }
  /// Local. Of the last save.
  const Numbers& numbers() const { return numbers_; }

  /// What is there of the save, and what can be computed: what is lost or damaged is made anew on
  /// nodes that are there. Throws data_loss if it cannot be had. What turns out to be damaged is
  /// known from then on.
  /// `readers`: who reads the parts of a node.
  enum class Readers { all, io_ranks };
  std::unique_ptr<Gathered> gather(LocalSave&, Readers = Readers::all);
  /// Local. How many ranks read the parts then.
  int count(Readers) const;
  /// Reads and checks all of it: whether there is damage that was not known, which might be
  /// computed, so that gather() may be called again.
  bool learn_damage(LocalSave&, const Gathered&);

  /// Local, on all ranks alike. This save stays while others go; "": none.
  void hold(const std::string& uuid) { held_ = uuid; }

  /// Local; rank 0's. What was brought home of saves up to this one goes: something newer is safe.
  void forget_pieces(std::int64_t sequence) const;

 private:
  void find_nodes();
  void require_options() const;
  void make_directories();
  void tell_of_home(const io::Path& given) const;
  void choose_protection();
  std::string sharers();  // the nodes that have one directory; empty: none
  void list();
  Address place_at(int node, const SaveMap&) const;  // this one, or home
  std::string report(const Address& folder) const;
  void join(const std::string& report, int node);
  void prune(const std::string& uuid);
  class Saving;       // one save
  class Computation;  // of what is lost or damaged
  bool compute(LocalSave&);
  bool compute_parts(LocalSave&);
  bool look_for_damage(LocalSave&) const;
  /// What this rank has found is known to all; whether any of it is new.
  bool learn(LocalSave&, const UnusableByRank& parts, const UnusableByRank& parities = {}) const;

  std::string lacks(const LocalSave&) const;  // nodes, and what is wrong with them
  std::string name_of(int node) const { return names_[nth(node)]; }

  bool is_leader() const { return home_.rank() == ranks_at(node_).front(); }
  const std::vector<int>& ranks_at(int node) const { return ranks_at_[nth(node)]; }
  /// The number behind those of the nodes: what was brought home, which all ranks can read.
  int home_place() const { return static_cast<int>(ranks_at_.size()) - 1; }
  io::Path place_of(const SaveMap&) const;  // on this node
  io::Path own_part(const SaveMap&) const;  // of this rank
  // Of all nodes, for errors that all ranks throw: paths differ from node to node.
  std::string everywhere() const { return home_.options.tier.directory.string(); }
  Address pieces() const;  // that were brought home
  std::vector<int> my_parts(const LocalSave&, int node, Readers = Readers::all) const;
  std::vector<int> readers_at(int node, Readers) const;
  UnusableByRank read_own_parts(const LocalSave&, Readers, Gathered&) const;

  const Job& home_;
  Job job_;  // the same, as the nodes are written
  Plans plans_;
  std::shared_ptr<io::FileSystem> files_;
  std::string home_id_;
  io::Path directory_;  // of this node, for this home
  int node_ = 0;
  std::vector<int> node_of_;                // by rank
  std::vector<std::string> names_;          // by node, and of home; for people
  std::vector<std::vector<int>> ranks_at_;  // by node; last, all of them
  bool protects_ = false;
  std::vector<LocalSave> saves_;
  Numbers numbers_;
  std::string held_;  // the uuid of a save that stays
  std::string full_;
};

}  // namespace cairn::tier
