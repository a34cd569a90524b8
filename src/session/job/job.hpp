#pragma once
/// What every part of a save or restore needs to know.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "store/location.hpp"

namespace cairn {

class EncodeChoice;
class RowPlans;

/// Where ranks run, and which files they touch. Vectors are by rank.
struct RankPlaces {
  std::vector<int> node_of = {};
  int rank_in_node = 0;             ///< this rank's; a node's devices are numbered by it
  std::vector<int> served_by = {};  ///< the io rank of each; empty: every rank is one
  std::vector<int> file_of = {};    ///< the shared data file of each; empty: ranks share none
};

/// The policy by which a save is divided into shards.
struct Sharding {
  std::shared_ptr<const ShardingCallback> policy = nullptr;  ///< none: ShardByTaskPolicy
  std::string description = "";
};

struct Job : Location {
  std::shared_ptr<Group> group;
  ManagerOptions options;
  RankPlaces places = {};
  bool may_recycle = false;  ///< format, writer and options allow to overwrite data files
  /// Several ranks may write one data file only in parts of about so much; 0: as they like.
  std::int64_t part_bytes = 0;

  bool keeps_state_file = true;                   ///< whether this job writes the state file
  const char* options_name = "ManagerOptions";    ///< what the caller calls the options, for errors
  Sharding sharding = {};                         ///< for saves that have no policy of their own
  std::shared_ptr<RowPlans> row_plans = nullptr;  ///< for later calls with indexed tensors
  /// Of this rank. Plans come and go, and what saves took is still true.
  std::shared_ptr<EncodeChoice> encode_choice = nullptr;

  int rank() const { return group->rank(); }
  bool root() const { return group->rank() == 0; }
  int io_rank_of(int a_rank) const {
    return places.served_by.empty() ? a_rank : places.served_by[static_cast<std::size_t>(a_rank)];
  }
  bool is_io_rank() const { return io_rank_of(rank()) == rank(); }
  std::vector<int> io_ranks() const;  ///< ascending
  /// The ranks that share the reading in a recovery.
  Readers readers() const { return {*group, io_ranks()}; }
};

/// The same job for one restore, which reads in a view of the files (io::Viewed).
Job viewed(Job);

/// The rules by which checkpoints in the directory are kept or removed.
Policy policy_of(const Job&);

/// Local. Throws invalid_argument without a group or for an empty directory; unsupported for an
/// address that is not supported.
Job make_job(std::shared_ptr<Group>, const io::Path& directory, commit::Naming, ManagerOptions);

/// Collective. Finds out which rank is on which node.
void agree_on_nodes(Job&);
/// Collective, after agree_on_nodes. Agrees on which ranks are io ranks, by the options.
void agree_on_io_ranks(Job&);

/// Collective. Agrees on nodes and io ranks. Checks that the options can be served and are the same
/// on all ranks; the error says what differs, and on which rank. Checks of format and writer follow
/// (session/save/agree_on_save.hpp).
void agree_on_options(Job&);
/// Collective. Throws invalid_argument for a saver without name or function, or if two have the
/// same name; disagreement if ranks have different savers.
void require_savers(Group&, const std::vector<RegisteredSaver>&);

}  // namespace cairn
