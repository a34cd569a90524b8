#pragma once
/// Files and background work of ranks on a simulated machine.
#include <memory>

#include "cairn/background.hpp"
#include "testing/machine.hpp"

namespace cairn {

/// Tells the machine what a rank does to files, before it happens. Ranks with a lower clock go
/// first.
class MachineFiles : public io::FileWatch {
 public:
  /// The machine must outlive it.
  MachineFiles(Machine& machine, int rank) : machine_(machine), rank_(rank) {}
  void begin(io::OperationCounts::Kind, const io::Path&) override;
  void begin_bytes(std::int64_t count, bool written) override;
  void begin_other() override;
  void end() noexcept override;

 private:
  Machine& machine_;
  const int rank_;
};

/// Runs a task at once. Its time counts for the caller, or as background work.
class MachineQueue : public TaskQueue {
 public:
  MachineQueue(Machine& machine, int rank) : machine_(machine), rank_(rank) {}
  void run(std::function<void()> task) override;
  void drain() override {}

  bool behind_the_back = false;
  void wait();  ///< waits until the background work is over

 private:
  Machine& machine_;
  const int rank_;
  Machine::Time until_ = {};
};

}  // namespace cairn
