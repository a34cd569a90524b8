#pragma once
/// Runs the jobs of a plan, and looks at what they have left.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lab/campaigns/programs/crash_plan.hpp"
#include "lab/campaigns/programs/ledger.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// What is wrong, in the order in which it was found. Thread-safe.
class Findings {
 public:
  void add(std::string text);
  std::vector<std::string> take();
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

/// What jobs on one disk share.
struct Scene {
  const Plan* plan = nullptr;
  std::shared_ptr<io::MemoryFileSystem> disk;
  Ledger* ledger = nullptr;
  Findings* findings = nullptr;
  std::atomic<std::int64_t>* saves = nullptr;  ///< how many were tried
};

ManagerOptions options_of(const Plan&, const Process&, std::shared_ptr<io::FileSystem>);

/// Runs the process to its end, whichever that is. `number` tells processes apart, `contended`
/// that another owner is about, so that any call may fail.
void run_process(const Scene&, const Process&, int number, bool contended,
                 const std::shared_ptr<test::ProcessFiles>&);

/// Collective. Restores the newest and each that is listed, and then the newest again.
Found look(CheckpointManager&, StampedState&, Group&, std::string& wrong);

/// Runs a body on ranks, as the plan wants them.
void run_ranks(const Plan&, int ranks, unsigned salt,
               const std::function<void(std::shared_ptr<Group>)>& body);

}  // namespace cairn::campaign
