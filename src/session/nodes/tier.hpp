#pragma once
/// Checkpoints on the nodes: what is there, how they are saved, and what a restart gets of them.
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

/// Sequence, parent, time and uuid of a save on the nodes; rank 0 makes them.
struct Numbers {
  std::int64_t sequence = 0, parent = -1;
  double time = 0;
  std::string uuid;
};

/// What a restart reads of a save on the nodes. Each rank has some of its parts, as a state that
/// can fill other states. The files that it reads must outlive it.
class Gathered {
 public:
  struct Strings {
    Dims shape;
    std::vector<std::string> values;
  };
  const State& state() const { return state_; }
  const CheckpointMeta& meta() const { return meta_; }
  const io::Path& path() const { return path_; }  ///< where the parts are on rank 0's node

 private:
  friend class Tier;
  void add_part(std::shared_ptr<NodeFile>);
  std::string said_by_first(Group&) const;
  void make_state();
  // Made from tensors_ and strings_ when all parts are there.
  State state_;
  std::map<std::string, LocalTensor> tensors_;
  std::map<std::string, Strings> strings_;
  // The files that the state's slices read.
  std::vector<std::shared_ptr<NodeFile>> parts_;
  CheckpointMeta meta_;
  io::Path path_;
};

/// Only the thread that may call MPI may call it. Members are collective unless marked.
class Tier {
 public:
  /// Not collective. The job is that of the manager's directory and must outlive this object.
  explicit Tier(const Job& home);

  /// Call it when the ranks have agreed on options and nodes. `home_id` identifies the directory to
  /// which the checkpoints belong, and is the same on all ranks. Makes the nodes' directories and
  /// reads what is in them. Removes nothing.
  void open(const std::string& home_id);

  /// Not collective. The saves on the nodes, newest first; the same on all ranks.
  const std::vector<LocalSave>& saves() const { return saves_; }
  /// Not collective, but all ranks must call it alike. Notes that a save was committed, on the
  /// nodes or in the directory, with this parent: the saves between the two are superseded.
  void committed(std::int64_t parent, std::int64_t sequence) {
    supersede(saves_, parent, sequence);
  }

  /// Saves on the nodes: parts, parity, maps, agreement; then removes older saves. Rank 0 makes
  /// `numbers`. Returns where this rank's part is; or nothing, on all ranks, if the save should go
  /// to the directory, and then `why` has the reason. Throws the errors of a save; then nothing is
  /// left on the nodes, or something that a restart may still complete, as the error says.
  struct Request {
    std::int64_t step;
    const State& given;
    const SaveOptions& options;
    int since_home;  ///< saves on the nodes since the last one at home, this one included
    SaveStatistics& figures;
    Trace* trace;
  };
  std::optional<io::Path> save(const Request&, const std::function<Numbers()>& numbers,
                               std::string& why);
  /// Not collective, the same on all ranks. The nodes that were full at the last save; empty if
  /// none.
  const std::string& full_nodes() const { return full_; }
  /// Not collective. Those of the last save.
  const Numbers& numbers() const { return numbers_; }

  /// Gathers what is there of the save. Lost or damaged parts are computed again, on nodes that are
  /// there. Throws data_loss if that is impossible. Damage that it finds is noted in the save.
  /// `readers`: which ranks read the parts of a node.
  enum class Readers { all, io_ranks };
  std::unique_ptr<Gathered> gather(LocalSave&, Readers = Readers::all);
  /// Not collective. How many ranks read the parts.
  int count(Readers) const;
  /// Reads and checks all parts. Returns whether it found new damage, which gather() may be able to
  /// repair if called again.
  bool learn_damage(LocalSave&, const Gathered&);

  /// Not collective, but all ranks must call it alike. Keeps this save when others are removed. An
  /// empty `uuid` keeps none.
  void hold(const std::string& uuid) { held_ = uuid; }

  /// Not collective; only rank 0 acts. Removes what was copied to the directory of saves up to this
  /// sequence, since a newer save is safe.
  void forget_pieces(std::int64_t sequence) const;

 private:
  void find_nodes();
  void require_options() const;
  void make_directories();
  void tell_of_home(const io::Path& given) const;
  void choose_protection();
  std::string sharers();  // nodes that share one directory; empty if none
  void list();
  Address place_at(int node, const SaveMap&) const;  // this node, or home
  // report(): the saves in a folder, for a message. join(): adds what a report says of a node.
  std::string report(const Address& folder) const;
  void join(const std::string& report, int node);
  void prune(const std::string& uuid);
  class Saving;       // one save
  class Computation;  // computes lost or damaged parts
  // compute(): computes what the save lacks; false if it found more damage, and must be called
  // again. compute_parts(): the same, but leaves unfinished files if it throws.
  bool compute(LocalSave&);
  bool compute_parts(LocalSave&);
  bool look_for_damage(LocalSave&) const;
  /// Tells all ranks what this rank has found. Returns whether any of it is new.
  bool learn(LocalSave&, const UnusableByRank& parts, const UnusableByRank& parities = {}) const;

  std::string lacks(const LocalSave&) const;  // the nodes, and what is wrong with them
  std::string name_of(int node) const { return names_[nth(node)]; }

  bool is_leader() const { return home_.rank() == ranks_at(node_).front(); }
  const std::vector<int>& ranks_at(int node) const { return ranks_at_[nth(node)]; }
  /// The number after those of the nodes. It stands for what was copied to the directory, which all
  /// ranks can read.
  int home_place() const { return static_cast<int>(ranks_at_.size()) - 1; }
  io::Path place_of(const SaveMap&) const;  // on this node
  io::Path own_part(const SaveMap&) const;  // the part of this rank
  // The tier's directory as the options give it, for errors that are the same on all ranks: the
  // real paths differ from node to node.
  std::string everywhere() const { return home_.options.tier.directory.string(); }
  Address pieces() const;  // those that were copied to the directory
  std::vector<int> my_parts(const LocalSave&, int node, Readers = Readers::all) const;
  std::vector<int> readers_at(int node, Readers) const;
  UnusableByRank read_own_parts(const LocalSave&, Readers, Gathered&) const;

  const Job& home_;
  Job job_;  // the job that writes to the nodes
  Plans plans_;
  std::shared_ptr<io::FileSystem> files_;
  std::string home_id_;
  io::Path directory_;  // on this node, for this home
  int node_ = 0;
  std::vector<int> node_of_;                // by rank
  std::vector<std::string> names_;          // by node, and last of home; for people
  std::vector<std::vector<int>> ranks_at_;  // by node; last, for home, all ranks
  // There are nodes that can protect each other, and protection is asked for.
  bool protects_ = false;
  // Newest first; the same on all ranks.
  std::vector<LocalSave> saves_;
  Numbers numbers_;
  std::string held_;  // uuid of the save that hold() keeps
  std::string full_;
};

}  // namespace cairn::tier
