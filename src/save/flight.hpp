#pragma once
/// An asynchronous save between its capture and its commit.
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/async.hpp"
#include "commit/protocol.hpp"
#include "io/staging_pool.hpp"
#include "save/measure.hpp"
#include "save/save_plan.hpp"
#include "save/shard_files.hpp"

namespace cairn {

/// A save that has its temp directory.
struct Prepared {
  commit::Transaction save;
  CheckpointMeta meta;
};

/// What handles and the manager share.
struct SaveHandle::Shared {
  std::int64_t step;
  std::atomic<SaveStage> stage = SaveStage::captured;
  std::atomic<bool> idle = true;           ///< outlives the flight: whoever sees it may end that
  std::atomic<bool> rank_is_done = false;  ///< its bytes are written, or will not be
  mutable std::mutex mutex;                ///< of what follows
  std::optional<Error> error = std::nullopt;
  std::string prefix = "", blocked_because = "";

  explicit Shared(std::int64_t step) : step(step) {}
  void end_of_writing() {
    rank_is_done = true;
    rank_is_done.notify_all();
  }
};

struct Series;

struct Flight {
  enum class Stage { writing, publishing } stage = Stage::writing;
  std::int64_t step = 0;
  std::int64_t sequence = 0, parent = 0;
  double time = 0;
  std::optional<double> metric = std::nullopt;
  std::uint64_t uuid_high = 0, uuid_low = 0;
  std::int64_t recycled_bytes = -1;  ///< that wait for it, as rank 0 says; -1: all files are new
  bool begun = false;  ///< `prepared` is set, and the temp directory there; else the task's work
  Prepared prepared;
  std::shared_ptr<SavePlan> plan;
  FileLayout layout;
  std::span<std::byte> memory;        ///< in the pool
  io::StagingPool::Hold held;         ///< of it, until this rank's bytes are written
  std::vector<CapturedRun> runs;      ///< of dense tensors, there
  std::vector<StoredTensor> entries;  ///< at first of what was written before the capture
  std::optional<CatalogEntry> there;  ///< rank 0: of the same step
  std::optional<io::FileId> index;    ///< rank 0: of the committed checkpoint
  std::shared_ptr<SaveHandle::Shared> handle;
  SaveTime called = {};
  SaveStatistics figures;
  commit::FileCounts counts;

  // A task of this rank's queue works on it unless handle->idle.
  void (Series::*task)(Flight&) const = nullptr;
  std::exception_ptr failure;
  std::atomic<bool> cancelled = false;
};

}  // namespace cairn
