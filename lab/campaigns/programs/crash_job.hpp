#pragma once
/// Runs the jobs of a plan, and looks at what they leave.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lab/campaigns/programs/crash_plan.hpp"
#include "lab/campaigns/programs/ledger.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// Collects findings, in the order in which they come. Thread-safe.
class Findings {
 public:
  void add(std::string text);
  std::vector<std::string> take();
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

/// Shared by the jobs on one disk.
struct Scene {
  const Plan* plan = nullptr;
  std::shared_ptr<io::MemoryFileSystem> disk;
  Ledger* ledger = nullptr;
  Findings* findings = nullptr;
  std::atomic<std::int64_t>* saves = nullptr;      ///< how many were tried
  std::atomic<std::int64_t>* unchanged = nullptr;  ///< bytes that they have left out
  std::atomic<std::int64_t>* encoded = nullptr;    ///< that were committed with a codec
};

ManagerOptions options_of(const Plan&, const Process&, std::shared_ptr<io::FileSystem>);

/// Runs the process to its end, of whatever kind. `number` identifies the process; `contended`
/// tells that there is another owner, so that any call may fail.
void run_process(const Scene&, const Process&, int number, bool contended,
                 const std::shared_ptr<test::ProcessFiles>&);

/// Collective. Restores the newest step and each that is listed, and then the newest again.
Found look(CheckpointManager&, StampedState&, Group&, std::string& wrong);

/// Runs a body on ranks, of the kind that the plan wants.
void run_ranks(const Plan&, int ranks, unsigned salt,
               const std::function<void(std::shared_ptr<Group>)>& body);

}  // namespace cairn::campaign
