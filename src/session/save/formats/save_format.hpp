#pragma once
/// The half of a format that saves need: what is laid out before any bytes, and what is written
/// beside the bytes of the state. Each format is one source in save/formats/ and one line in the
/// table there. The other half, which all readers need, is in store/contents/format.hpp.
#include <string>
#include <vector>

#include "exchange/coverage.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_plan.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

/// Has no state: all members are const.
class SaveFormat {
 public:
  virtual ~SaveFormat() = default;
  virtual Format id() const = 0;

  // -- at the opening ----------------------------------------------------------------------------
  /// Local. What the format makes of the options: whether data files are recycled. Throws
  /// unsupported where this build or these options cannot save in it.
  virtual void validate(Job&) const = 0;
  /// Behind "the sharding policy X", why it is not obeyed; "": it is.
  virtual std::string limits_policy(const Job&) const = 0;

  // -- plan --------------------------------------------------------------------------------------
  /// Whether a tensor that has elements becomes one row-major array, though so many slices make it
  /// up. The tensor may be a part of what is divided.
  virtual bool stores_dense(const CoveredTensor&, std::size_t slices) const = 0;
  /// Rank 0. Which data files dense tensors go to.
  virtual void choose_files(const Sharding&, const RefreshedState&,
                            std::vector<DenseTensor>&) const = 0;
  /// Collective. From who writes which slice to the plan's shards, dense runs and layout, and how a
  /// later save goes by it.
  virtual void lay_out(const Job&, const RefreshedState&, Covered&&, SavePlan&) const = 0;

  // -- write -------------------------------------------------------------------------------------
  /// What is there before the state's own bytes.
  struct Begun {
    std::vector<StoredTensor> entries;
    MadeFile structure = {};  ///< nothing: writers make the files of dense tensors
  };
  /// Collective. May move the plan's dense tensors to where they belong, and add files and names
  /// to the save that is being made and to its layout (not to the plan's, which serves other
  /// saves). Not called for an asynchronous save that goes by an earlier plan without a message.
  virtual Begun begin(const Job&, const RefreshedState&, Draft&, CheckpointMeta&, SavePlan&,
                      FileLayout&) const = 0;
  /// Collective. The entries of all ranks on rank 0, as the other half publishes them. Ranks'
  /// figures are joined, too.
  virtual JoinedEntries merge(Group&, std::vector<StoredTensor> mine, const SavePlan&,
                              SaveStatistics&) const = 0;
};

const SaveFormat& save_format_of(const Job&);

}  // namespace cairn
