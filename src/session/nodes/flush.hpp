#pragma once
/// A checkpoint on the nodes on its way to the manager's directory.
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

/// One at a time, and never together with another save at home: two of them would make ownership,
/// recycled files and retention answer for both. What the application itself sends home is newer,
/// and takes its place. While the pending save's handle is not idle, a task in a queue of its own
/// works on it; else the thread that calls the manager does.
///
/// Its parent is the last ancestor that is in the directory: numbers of saves on the nodes say
/// nothing to somebody who has the directory alone. Dense tensors are put together when it begins,
/// since only the application's call may exchange messages; that costs memory for their bytes.
struct Flush {
  explicit Flush(const Job& home, double bytes_per_second);

  Job job;  ///< each rank writes what it has
  io::Pace pace;
  std::unique_ptr<tier::Gathered> from;  ///< what is written
  std::optional<RefreshedState> state;   ///< the same, of plain tensors
  std::unique_ptr<PendingSave> pending;
  Outgoing out;                  ///< slices, which are read from the nodes' files
  std::vector<std::byte> dense;  ///< what is to be one array, as it is to be written
  int saves_before = 0;          ///< on the nodes since the last one came home
};

/// Copies checkpoints from the nodes into the directory. Collective, but for what is marked.
class Flusher : EngineParts {
 public:
  /// `since_home`: saves on the nodes behind the last one at home, of which it takes those that
  /// are so in effect.
  Flusher(const EngineParts& parts, SaveStages& stages, tier::Tier& nodes, int& since_home)
      : EngineParts(parts), stages_(stages), nodes_(nodes), since_home_(since_home) {}
  /// Local. What is under way stays so, for a restart to complete.
  ~Flusher();

  bool is_due() const;  ///< local
  /// The newest save on the nodes. What goes wrong is said, and nothing else comes of it: the save
  /// is where it was, and the next one is flushed.
  void begin();
  /// Moves it on, or brings it to its end, without a limit. What fails is thrown if `throws`, and
  /// otherwise said.
  void advance(bool wait, bool throws = false);
  /// This one, to its end. `saves_before`: which are at home in effect when it is.
  void flush_now(const tier::LocalSave&, int saves_before, bool pins);
  /// Something else goes home, or the run goes on from elsewhere.
  void cancel();

 private:
  std::unique_ptr<Flush> plan(tier::LocalSave, int saves_before);
  void prepare(Flush&);
  // Local:
  void work();
  void write(Flush&) const;  // any thread
  void end();
  void failed(std::int64_t step, const Error&);

  SaveStages& stages_;
  tier::Tier& nodes_;
  int& since_home_;
  std::shared_ptr<TaskQueue> queue_;
  std::unique_ptr<Flush> flush_;  // null: none is under way
  bool failed_ = false;           // since one has come home
};

}  // namespace cairn
