#pragma once
/// A manager's checkpoints on the nodes: which saves go there, what goes home from there, and what
/// a restart takes of them.
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

/// Collective, but for what is marked.
class NodeCheckpoints final : public Elsewhere, EngineParts {
 public:
  explicit NodeCheckpoints(Engine&);  ///< local; the engine, which is not open yet, outlives it

  /// When the engine is open.
  void open();

  std::optional<SaveHandle> save(const SaveRequest&) override;
  void make_way() override { flusher_.cancel(); }
  std::optional<RestoreReport> restore(State&, const RestoreOptions&,
                                       std::optional<std::int64_t> step, Touched& failed,
                                       PassedOver&) override;
  void committed(const CheckpointMeta&, bool is_from_here) override;
  void went_back_to(std::int64_t sequence) override;

  /// Moves on what goes home, or brings it to its end.
  void advance(bool wait) { flusher_.advance(wait); }
  /// The newest save of this run is at home, or an error says why not. Nothing is pending.
  void bring_newest_home();
  /// So is one of this step, if the nodes have a newer one than the directory; pinned.
  void bring_step_home(std::int64_t step);

  void add_steps(std::vector<StepInfo>&) const;  ///< local, the same on all ranks

 private:
  bool takes(const SaveOptions&);
  tier::Numbers numbers_for(const SaveRequest&);  // rank 0, local
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
    bool proves;  // every byte, before the state is touched
  };
  std::optional<RestoreReport> restore(tier::LocalSave&, const Asked&);
  bool is_in_vain(const tier::LocalSave&, PassedOver&) const;
  RestoreReport go_on_from(const tier::LocalSave&, const tier::Gathered&,
                           const RedistributeReport& moved, const Asked&);
  void prove(tier::LocalSave&, std::unique_ptr<tier::Gathered>&);
  bool bring_home(const tier::Gathered&);

  Engine& engine_;
  tier::Tier nodes_;
  bool has_home_ = false;   // there is a checkpoint in the directory
  std::string told_full_;   // the nodes that had no room for the last save
  int since_home_ = 0;      // saves on the nodes since the last one that was committed there
  std::int64_t line_ = -1;  // the newest of the state's ancestors, as all ranks know it
  Flusher flusher_;
};

}  // namespace cairn
