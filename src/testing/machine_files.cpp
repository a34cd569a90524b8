#include "testing/machine_files.hpp"

#include "testing/threads.hpp"

namespace cairn {

void MachineFiles::begin(io::OperationCounts::Kind kind, const io::Path& path) {
  machine_.pause(rank_);
  yield_point();
  machine_.operation(rank_, kind, path);
  Machine::owner = -1;  // memory of the disk is no rank's
}

void MachineFiles::begin_bytes(std::int64_t count, bool written) {
  machine_.pause(rank_);
  machine_.bytes(rank_, count, written);
  Machine::owner = -1;
}

void MachineFiles::begin_other() {
  machine_.pause(rank_);
  Machine::owner = -1;
}

void MachineFiles::end() noexcept {
  Machine::owner = rank_;
  machine_.resume(rank_);
}

void MachineQueue::run(std::function<void()> task) {
  if (!behind_the_back) return task();
  const auto begun = machine_.begin_background(rank_, until_);
  task();
  until_ = machine_.end_background(rank_, begun);
}

void MachineQueue::wait() {
  const Machine::Pause pause(&machine_, rank_);
  machine_.wait_for(rank_, until_);
}

}  // namespace cairn
