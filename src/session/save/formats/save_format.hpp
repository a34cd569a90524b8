#pragma once
/// The half of a format that saves need: it lays out the data before any bytes are written, and
/// writes what belongs to the format beside the state's own bytes. Each format has a source in
/// save/formats/ and a line in the table there. The other half, which all readers need, is in
/// store/contents/format.hpp.
#include <string>
#include <vector>

#include "exchange/coverage.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/entry_list.hpp"
#include "session/save/save_plan.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

/// Has no state: all members are const.
class SaveFormat {
 public:
  virtual ~SaveFormat() = default;
  virtual Format id() const = 0;

  // -- at the opening ----------------------------------------------------------------------------
  /// Local. Checks the options, and decides whether data files are recycled. Throws unsupported if
  /// this build or these options cannot save in the format.
  virtual void validate(Job&) const = 0;
  /// Why the format does not obey the policy, to follow "the sharding policy X"; "": it obeys.
  virtual std::string limits_policy(const Job&) const = 0;

  // -- plan --------------------------------------------------------------------------------------
  /// Whether a tensor with elements is stored as one row-major array, though it has so many slices.
  /// If the tensor is divided, it may be a part of it.
  virtual bool stores_dense(const CoveredTensor&, std::size_t slices) const = 0;
  /// Rank 0. Chooses the data files of dense tensors.
  virtual void choose_files(const Sharding&, const RefreshedState&,
                            std::vector<DenseTensor>&) const = 0;
  /// Collective. From who writes which slice, makes the plan's shards, dense runs and layout, and
  /// decides how a later save can use the plan.
  virtual void lay_out(const Job&, const RefreshedState&, Covered&&, SavePlan&) const = 0;

  // -- write -------------------------------------------------------------------------------------
  /// What begin() has written before the state's own bytes.
  struct Begun {
    std::vector<StoredTensor> entries;
    MadeFile structure = {};  ///< nothing: writers make the files of dense tensors
  };
  /// Collective. May move the plan's dense tensors to their final places. May add files and names
  /// to this save and to its layout, but not to the plan's layout, which serves other saves. Not
  /// called for an asynchronous save that uses an earlier plan without a message.
  virtual Begun begin(const Job&, const RefreshedState&, Draft&, CheckpointMeta&, SavePlan&,
                      FileLayout&) const = 0;
  /// Collective. Returns the entries of all ranks on rank 0, in the form in which the other half
  /// publishes them. Joins the ranks' figures, too.
  virtual JoinedEntries merge(Group&, EntryList mine, const SavePlan&, SaveStatistics&) const = 0;
};

const SaveFormat& save_format_of(const Job&);

}  // namespace cairn
