// What a manager tells of its saves.
#include "base/text.hpp"
#include "cairn/log.hpp"
#include "checkpoint/series.hpp"

namespace cairn {

void Series::enter(std::int64_t sequence, const SaveStatistics& figures) {
  ledger.committed(sequence, figures);
  if (job.root()) log(LogLevel::info, line_of(figures));
}

void Series::write_trace() const {
  if (!trace) {
    throw Error(Code::invalid_argument, "no trace was kept", "", "Set ManagerOptions::trace.");
  }
  io::replace_file(*job.files, trace_file(job.options.trace, job.rank()), trace->json());
}

Statistics CheckpointManager::statistics() const {
  auto all = impl_->ledger.statistics();
  all.pool_bytes = impl_->pool.bytes();
  all.pool_most_bytes = impl_->pool.most_bytes();
  return all;
}

void CheckpointManager::write_trace() const { impl_->write_trace(); }

}  // namespace cairn
