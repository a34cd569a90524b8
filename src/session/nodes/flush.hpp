#pragma once
/// Copies a checkpoint from the nodes to the manager's directory.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/background.hpp"
#include "io/paced.hpp"
#include "session/nodes/tier.hpp"
#include "session/save_stages.hpp"

namespace cairn {

/// One copy at a time, and never together with another save to the directory: with two of them,
/// ownership, recycled files and retention would have to account for both. What the application
/// itself saves to the directory is newer, so it takes the place of the copy. While the pending
/// save's handle is not idle, a task in a queue of its own works on it; otherwise the thread that
/// calls the manager does.
///
/// The parent of the copy is the last ancestor that is in the directory: sequences of saves on the
/// nodes mean nothing to a reader who has only the directory. Dense tensors are put together when
/// the copy begins, since only a call of the application may exchange messages; that takes memory
/// for their bytes.
struct Flush {
  explicit Flush(const Job& home, double bytes_per_second);

  Job job;  ///< each rank writes the parts that it has read
  io::Pace pace;
  std::unique_ptr<tier::Gathered> from;  ///< the parts that are written
  std::optional<RefreshedState> state;   ///< the same as plain tensors
  std::unique_ptr<PendingSave> pending;
  Outgoing out;                  ///< slices, which are read from the nodes' files
  std::vector<std::byte> dense;  ///< the bytes of dense tensors, as they will be written
  int saves_before = 0;          ///< saves on the nodes since the last one in the directory
};

/// Copies checkpoints from the nodes into the directory. Members are collective unless marked.
class Flusher : EngineParts {
 public:
  /// `since_home` is the number of saves on the nodes since the last one in the directory. A
  /// finished copy lowers it.
  Flusher(const EngineParts& parts, SaveStages& stages, tier::Tier& nodes, int& since_home)
      : EngineParts(parts), stages_(stages), nodes_(nodes), since_home_(since_home) {}
  /// Not collective. A copy that is not finished stays as it is, and a restart completes it.
  ~Flusher();

  bool is_due() const;  ///< local
  /// Begins to copy the newest save on the nodes. An error is only logged: the save stays on the
  /// nodes, and the next save is tried again.
  void begin();
  /// Moves the copy on or, with `wait`, finishes it at full speed. Throws an error if `throws`,
  /// otherwise logs it.
  void advance(bool wait, bool throws = false);
  /// Copies this save and waits until it is done. `saves_before` is how many saves on the nodes it
  /// makes up for.
  void flush_now(const tier::LocalSave&, int saves_before, bool pins);
  /// Call it if another save goes to the directory, or if the run continues from another
  /// checkpoint.
  void cancel();

 private:
  // Gathers the save's parts, plans a save of them, and prepares it.
  std::unique_ptr<Flush> plan(tier::LocalSave, int saves_before);
  void prepare(Flush&);
  // These are not collective:
  // Gives the pending save's next task to the queue: write, or on rank 0 the commit.
  void work();
  void write(Flush&) const;  // any thread
  // Lets the copy go, whether it is committed, failed or withdrawn.
  void end();
  void failed(std::int64_t step, const Error&);

  SaveStages& stages_;
  tier::Tier& nodes_;
  int& since_home_;
  std::shared_ptr<TaskQueue> queue_;
  std::unique_ptr<Flush> flush_;  // null if no copy is under way
  bool failed_ = false;           // a copy has failed, and none has succeeded since
};

}  // namespace cairn
