#pragma once
/// A manager's checkpoints on the nodes: which saves go there, which are copied to the directory,
/// and what a restart restores from them.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "session/elsewhere.hpp"
#include "session/nodes/flush.hpp"

namespace cairn {

class Engine;
struct RedistributeReport;

/// Members are collective unless marked.
class NodeCheckpoints final : public Elsewhere, EngineParts {
 public:
  /// Not collective; the engine need not be open yet, and must outlive this object.
  explicit NodeCheckpoints(Engine&);

  /// Call it when the engine is open.
  void open();

  std::optional<SaveHandle> save(const SaveRequest&) override;
  void make_way() override { flusher_.cancel(); }
  std::optional<RestoreReport> restore(State&, const RestoreOptions&,
                                       std::optional<std::int64_t> step, Touched& failed,
                                       PassedOver&) override;
  void committed(const CheckpointMeta&, bool is_from_here) override;
  void went_back_to(std::int64_t sequence) override;

  /// Moves a copy to the directory on or, with `wait`, finishes it.
  void advance(bool wait) { flusher_.advance(wait); }
  /// Copies this run's newest save to the directory and waits, or throws. No save may be pending.
  void bring_newest_home();
  /// The same for this step, if the nodes have a newer save of it than the directory. Pins the
  /// copy.
  void bring_step_home(std::int64_t step);

  void add_steps(std::vector<StepInfo>&) const;  ///< not collective; same result on all ranks

 private:
  bool takes(const SaveOptions&);
  tier::Numbers numbers_for(const SaveRequest&);  // rank 0, not collective
  struct Newest {
    std::int64_t wanted = -1, of_all_at_home = -1, of_all = -1;  // sequences
  };
  Newest newest_saves(std::optional<std::int64_t> step, const PassedOver&) const;
  struct Asked {
    State& state;
    const RestoreOptions& options;
    std::optional<std::int64_t> step;
    Touched& failed;
    PassedOver& passed;
    const Newest& newest;
    bool proves;  // read every byte before the state is changed
  };
  std::optional<RestoreReport> restore(tier::LocalSave&, const Asked&);
  bool is_in_vain(const tier::LocalSave&, PassedOver&) const;
  RestoreReport go_on_from(const tier::LocalSave&, const tier::Gathered&,
                           const RedistributeReport& moved, const Asked&);
  void prove(tier::LocalSave&, std::unique_ptr<tier::Gathered>&);
  bool bring_home(const tier::Gathered&);

  Engine& engine_;
  tier::Tier nodes_;
  bool has_home_ = false;  // the directory has a checkpoint
  std::string told_full_;  // the nodes that were full at the last save
  // The number of saves on the nodes since the last one that was committed in the directory.
  int since_home_ = 0;
  std::int64_t line_ = -1;  // sequence of the state's newest ancestor; the same on all ranks
  Flusher flusher_;
};

}  // namespace cairn
