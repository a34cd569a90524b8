#pragma once
/// The half of a format that saves need: what is laid out before any bytes, and what is written
/// beside the bytes of the state. Each format is one source in save/formats/ and one line in the
/// table there. The other half, which all readers need, is in store/contents/format.hpp.
#include <string>
#include <vector>

#include "exchange/coverage.hpp"
#include "session/save/save_plan.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

/// Has no state: all members are const.
class SaveFormat {
 public:
  virtual ~SaveFormat() = default;
  virtual Format id() const = 0;

  // -- at the opening ----------------------------------------------------------------------------
  /// Local. Throws unsupported where this build or these options cannot save in the format.
  virtual void require(const ManagerOptions&) const {}
  /// Whether data files of checkpoints that are gone can be written over.
  virtual bool may_recycle() const { return false; }
  /// Whether a data file can be that of several checkpoints, of a writer that can share them.
  virtual bool may_share_files() const { return false; }
  /// Behind "the sharding policy X", why it is not obeyed; "": it is.
  virtual std::string limits_policy() const { return ""; }

  // -- plan --------------------------------------------------------------------------------------
  /// Whether a tensor that has elements becomes one row-major array, though so many slices make it
  /// up. The tensor may be a part of what is divided.
  virtual bool stores_dense(const CoveredTensor&, std::size_t slices) const = 0;
  /// Rank 0. Which data files dense tensors go to.
  virtual void choose_files(const Sharding&, const State&, std::vector<DenseTensor>&) const {}
  /// Collective. From who writes which slice to the plan's shards, dense runs and layout.
  virtual void lay_out(const Job&, const State&, Covered&&, SavePlan&) const = 0;
  /// Collective. Whether a later save of a state of the same form may go by this plan.
  virtual bool may_repeat(const Job&, const SavePlan&) const { return true; }

  // -- write -------------------------------------------------------------------------------------
  /// What is there before the state's own bytes.
  struct Begun {
    std::vector<StoredTensor> entries;
    bool has_made_files = false;                ///< those of dense tensors
    std::vector<commit::Patch> structure = {};  ///< rank 0: what must be in them as it was written
  };
  /// Collective. May move the plan's dense tensors to where they belong, and add files and names
  /// to the save that is being made and to its layout (not to the plan's, which serves other
  /// saves). Not called for an asynchronous save that goes by an earlier plan, unless the other
  /// half of the format says that it is_laid_out_each_time.
  virtual Begun begin(const Job&, const State&, Draft&, CheckpointMeta&, SavePlan&,
                      FileLayout&) const = 0;
  /// Collective, of a blocking save: after all runs of dense tensors are durable, and before any
  /// record.
  virtual void end_runs(const Job&, const Draft&, const SavePlan&, const Begun&) const {}
};

const SaveFormat& save_format_of(const Job&);

}  // namespace cairn
