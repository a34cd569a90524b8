#pragma once
/// One rank of a job of the fault campaign.
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "lab/campaigns/programs/fault_story.hpp"

namespace cairn::campaign {

/// Shared by the ranks of a job.
struct FaultJob {
  FaultCase which;
  std::shared_ptr<io::MemoryFileSystem> disk;
  std::shared_ptr<FaultScript> script = std::make_shared<FaultScript>();
  Ledger* ledger = nullptr;
  FaultReport* report = nullptr;
  int number = 2;       ///< tells jobs on a disk apart
  int stale_looks = 0;  ///< of each rank (stale_files.hpp)
  std::mutex mutex = {};
  void wrong(const std::string& text) {
    const std::lock_guard guard(mutex);
    report->wrong.push_back(text);
  }
};

class FaultRank {
 public:
  FaultRank(FaultJob&, std::shared_ptr<Group>);

  /// Each collective. Returns whether it did what it should; all ranks must get the same error.
  bool act(Act, bool at_risk);
  /// Repairs the storage; returns when all stuck operations have come back.
  void mend();
  /// Opens the directory if that has failed, restores the newest step and saves once more.
  void go_on();
  void meet() { group_->barrier(); }
  bool root() const { return group_->rank() == 0; }

 private:
  template <class F>
  bool attempt(const std::string& what, bool at_risk, F&& call);
  bool open(bool read_only, bool at_risk);
  bool save(std::int64_t step, bool at_risk);
  bool restore(std::optional<std::int64_t> step, bool at_risk);
  ManagerOptions options(bool read_only) const;
  std::int64_t now() const { return static_cast<std::int64_t>(job_.disk->operation_count()); }

  FaultJob& job_;
  std::shared_ptr<FaultyFiles> raw_;
  std::shared_ptr<io::LimitedFileSystem> limited_;  // if an operation gets stuck
  std::shared_ptr<io::FileSystem> files_;
  std::shared_ptr<Group> group_;
  StampedState mine_;
  std::optional<CheckpointManager> manager_;
  std::optional<Error> error_;
  std::int64_t step_ = 0, stamp_ = 0;
};

/// Runs ranks of the kind that the case wants.
void run_fault_ranks(const FaultCase&, const std::function<void(std::shared_ptr<Group>)>&);
Shape fault_shape(const FaultCase&);

/// A restart on one rank that meets no fault and looks at everything. `wrong` gets what is wrong
/// with it.
Found fault_restart(const FaultCase&, const std::shared_ptr<io::MemoryFileSystem>&,
                    std::string& wrong);

}  // namespace cairn::campaign
