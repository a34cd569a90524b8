#pragma once
/// From what a state wants to what the exchange knows: plain tensors of the stored dtype and shape.
/// Boxes, other names, conversions and rows are resolved here, so that no later stage knows them.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/restore_options.hpp"
#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"
#include "session/restore/find_tensor.hpp"

namespace cairn {

/// A tensor with slices in coordinates of the stored one. Most are the state's as they are, of
/// which no copy is made: there may be very many.
class WantedTensor {
 public:
  /// `given`: of the state, which outlives this.
  WantedTensor(int stored_number, const LocalTensor& given)
      : stored(stored_number), given_(&given) {}
  WantedTensor(int stored_number, LocalTensor&& own)
      : stored(stored_number), own_(std::make_unique<LocalTensor>(std::move(own))) {}

  const LocalTensor& tensor() const { return own_ ? *own_ : *given_; }
  /// Its own from now on: what was taken from it before, may be no more.
  LocalTensor& change() {
    if (!own_) own_ = std::make_unique<LocalTensor>(*given_);
    return *own_;
  }

  int stored;             ///< index into contents.tensors
  bool converts = false;  ///< the application's memory is of another dtype
  /// Resizes the application's memory and gives it to the slices, which have none before.
  std::function<void(LocalTensor&)> make_room = nullptr;

 private:
  const LocalTensor* given_ = nullptr;
  std::unique_ptr<LocalTensor> own_;
};

/// What the checkpoint does not hold of a sparse tensor, in the application's memory.
struct WantedFill {
  std::shared_ptr<SliceMemory> memory;
  Box part;  ///< relative to the slice's origin
  std::string element;
};

/// Where memory is filled from.
struct FillSource {
  std::string key;  ///< of the state
  int stored = 0;   ///< index into contents.tensors
  Box box;          ///< of the stored tensor
};
/// Two parts for one memory, of one dtype and extent (ties.hpp).
struct Tie {
  FillSource first, second;
  bool strings = false;
};

class IndexedWants;

/// What this rank wants of a checkpoint.
struct WantedState {
  std::vector<WantedTensor> tensors;
  std::vector<std::string> kept;  ///< keys that are not there and need not be
  std::vector<WantedFill> fills;  ///< to be written when all slices are filled
  std::int64_t gap_elements = 0;  ///< that this rank wants and that are not there: filled or kept
  /// Null: no rank wants any. To be delivered when all slices are filled (indexed_wants.hpp).
  std::shared_ptr<IndexedWants> indexed = nullptr;
  /// To be proved equal before anything is touched; `any_ties` of any rank.
  std::vector<Tie> ties;
  bool any_ties = false;
};

/// Collective. Throws disagreement if the options differ between ranks.
void require_same_options(Group&, const RestoreOptions&);

/// Collective. Every check that needs no data; nothing is touched. Throws disagreement if options
/// differ between ranks, not_found for a key that is not there and must be, invalid_argument for
/// dtypes, shapes, offsets and ids that do not fit, for const memory and memory that would be
/// filled from two places (but for ties), and the error of the refresh. `plans`: of earlier saves
/// and restores; may be null.
WantedState resolve(Group&, const CheckpointContents&, const TensorFinder&, const RefreshedState&,
                    const RestoreOptions&, RowPlans* plans);

/// Whether any of it has rows, which are to be told when they are filled.
bool has_rows(const RefreshedState&);
/// Local, when all is filled: Rows::filled of those that were.
void tell_filled(const RefreshedState&, const WantedState&);

}  // namespace cairn
