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

class RowPlans;

/// Where ranks are, and what they touch. By rank, but of what is this rank's own.
struct RankPlaces {
  std::vector<int> node_of = {};
  int rank_in_node = 0;             ///< this one: devices of a node are numbered by it
  std::vector<int> served_by = {};  ///< its io rank; empty: every rank is one
  std::vector<int> file_of = {};    ///< its shared data file; empty: ranks share none
};

/// By which policy a save is cut.
struct Sharding {
  std::shared_ptr<const ShardingCallback> policy = nullptr;  ///< none: ShardByTaskPolicy
  std::string description = "";
};

struct Job : Location {
  std::shared_ptr<Group> group;
  ManagerOptions options;
  RankPlaces places = {};
  bool may_recycle = false;  ///< data files that are there: format, writer, options allow it

  bool keeps_state_file = true;  ///< what is newest in the directory is for this job to say
  const char* options_name = "ManagerOptions";    ///< what the caller calls them, for errors
  Sharding sharding = {};                         ///< of saves that have no policy of their own
  std::shared_ptr<RowPlans> row_plans = nullptr;  ///< of indexed tensors, for later calls

  int rank() const { return group->rank(); }
  bool root() const { return group->rank() == 0; }
  int io_rank_of(int a_rank) const {
    return places.served_by.empty() ? a_rank : places.served_by[static_cast<std::size_t>(a_rank)];
  }
  bool is_io_rank() const { return io_rank_of(rank()) == rank(); }
  std::vector<int> io_ranks() const;  ///< ascending
  /// Who shares the reading of a recovery.
  Readers readers() const { return {*group, io_ranks()}; }
};

/// By which rules the directory is kept.
Policy policy_of(const Job&);

/// Local. Throws invalid_argument without a group, for an empty directory, unsupported for an
/// address that is none.
Job make_job(std::shared_ptr<Group>, const io::Path& directory, commit::Naming, ManagerOptions);

/// Collective. Who is on which node.
void agree_on_nodes(Job&);
/// Collective, after the nodes. Agrees on who the io ranks are, by the options.
void agree_on_io_ranks(Job&);

/// Collective. Nodes and io ranks, and that the options can be served and are the same on all
/// ranks; says what differs, and on which rank. What format and writer ask for comes after it
/// (session/save/agree_on_save.hpp).
void agree_on_options(Job&);
/// Collective. Throws invalid_argument for savers without a name or function, or of one name, and
/// disagreement.
void require_savers(Group&, const std::vector<RegisteredSaver>&);

}  // namespace cairn
