#pragma once
/// What the fault campaign plays: a job comes to a place, from there on one of its operations
/// fails, and then the storage works again.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lab/campaigns/programs/faulty_files.hpp"
#include "lab/campaigns/programs/ledger.hpp"
#include "lab/campaigns/programs/stamped_state.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

enum class Act { open, open_read_only, save, save_same, restore_newest, restore_first, steps, end };

/// What is on the disk when the job begins, beside steps 10 and 20.
enum class Scenery {
  empty,  ///< not even those
  two_steps,
  other_format,  ///< those, in the format that is not the line's
  torn_save,     ///< and half of a save
  whole_save,    ///< a save that is on disk and not committed
  not_tidied     ///< one that is committed, and has not yet removed what it replaces
};

struct Story {
  std::string name;
  Scenery scenery = Scenery::two_steps;
  std::vector<Act> before, at_risk;
  int max_to_keep = 0;
  bool recycle = true;
  bool frozen = false;  ///< a tensor of the state is (ManagerOptions::frozen)
};
const std::vector<Story>& stories();

struct FaultCase {
  std::size_t line = 0;  ///< of the conformance table
  std::size_t story = 0;
  int ranks = 1;
  std::vector<InjectedFault> faults;
  /// Seed of the order in which thread ranks go on; 0: any order, and with real writer threads.
  unsigned schedule = 1;
};
/// "bundle_async/overwrite/3/stuck@17+io@40/1", and back. Throws invalid_argument.
std::string text_of(const FaultCase&);
FaultCase parse_case(const std::string&);
/// Whether there is such a case: not every line can play every story.
bool is_played(std::size_t line, const Story&);
/// Whether ranks can stop waiting; those that write through MPI-IO or parallel HDF5 cannot.
bool can_be_stuck(std::size_t line);

struct FaultReport {
  std::vector<std::string> wrong;
  std::vector<FileOperation> operations;  ///< those at risk
  std::vector<std::string> happened, heard;
  std::int64_t claimed = 0;  ///< stamp of a save that failed and is reported as a checkpoint
  bool refused = false;      ///< the job could not go on with the next save, and said why
};

/// Plays cases one after the other, and keeps the beginnings that several share.
class FaultStage {
 public:
  /// On a disk that neglects such operations, there must be findings. With stale looks, ranks see
  /// what others have done only so many looks later.
  explicit FaultStage(std::string neglected = {}, int stale_looks = 0)
      : neglected_(std::move(neglected)), stale_looks_(stale_looks) {}
  FaultReport play(const FaultCase&);

 private:
  struct Scene {
    std::shared_ptr<io::MemoryFileSystem> disk;
    Ledger ledger;
  };
  const Scene& scene(const FaultCase&);
  static Scene set_up(const FaultCase&);

  const std::string neglected_;
  const int stale_looks_;
  std::map<std::tuple<std::size_t, Scenery, int, bool>, std::unique_ptr<Scene>> scenes_;
};

}  // namespace cairn::campaign
