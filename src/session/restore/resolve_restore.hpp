#pragma once
/// Turns what a state wants into what the exchange knows: plain tensors of the stored dtype and
/// shape. Boxes, renamed keys, conversions and rows are resolved here, so that later stages do not
/// know them.
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

/// A tensor with slices in coordinates of the stored one. For most tensors this only refers to the
/// state's tensor: a copy could be large, since there may be very many slices.
class WantedTensor {
 public:
  /// `given` is a tensor of the state and must outlive this object.
  WantedTensor(int stored_number, const LocalTensor& given)
      : stored(stored_number), given_(&given) {}
  WantedTensor(int stored_number, LocalTensor&& own)
      : stored(stored_number), own_(std::make_unique<LocalTensor>(std::move(own))) {}

  const LocalTensor& tensor() const { return own_ ? *own_ : *given_; }
  /// Makes a copy that may be changed. References that tensor() returned before become invalid.
  LocalTensor& change() {
    if (!own_) own_ = std::make_unique<LocalTensor>(*given_);
    return *own_;
  }

  int stored;             ///< index into contents.tensors
  bool converts = false;  ///< the dtype of the application's memory is another one
  /// Resizes the application's memory and gives it to the slices, which have no memory before.
  std::function<void(LocalTensor&)> make_room = nullptr;

 private:
  const LocalTensor* given_ = nullptr;
  std::unique_ptr<LocalTensor> own_;
};

/// A part of the application's memory for which the checkpoint, in a sparse tensor, has no
/// elements.
struct WantedFill {
  std::shared_ptr<SliceMemory> memory;
  Box part;  ///< relative to the slice's origin
  std::string element;
};

/// The place in the checkpoint from which memory is filled.
struct FillSource {
  std::string key;  ///< of the state
  int stored = 0;   ///< index into contents.tensors
  Box box;          ///< in coordinates of the stored tensor
};
/// Two stored parts that fill the same memory and have the same dtype and extent (ties.hpp).
struct Tie {
  FillSource first, second;
  bool strings = false;
};

class IndexedWants;

/// What this rank wants of a checkpoint.
struct WantedState {
  std::vector<WantedTensor> tensors;
  std::vector<std::string> kept;  ///< keys that are not there and may be missing
  std::vector<WantedFill> fills;  ///< to be written when all slices are filled
  std::int64_t gap_elements = 0;  ///< wanted elements that lie in gaps: filled or kept
  /// Null if no rank wants any. Call its deliver() when all slices are filled (indexed_wants.hpp).
  std::shared_ptr<IndexedWants> indexed = nullptr;
  /// They must be shown to be equal before any memory is changed. `any_ties`: a rank has some.
  std::vector<Tie> ties;
  bool any_ties = false;
};

/// Collective. Throws disagreement if the options differ between ranks.
void require_same_options(Group&, const RestoreOptions&);

/// Collective. Makes every check that needs no data, and changes no memory. Throws disagreement if
/// options differ between ranks, not_found for a key that is required and not there,
/// invalid_argument for dtypes, shapes, offsets and ids that do not fit, for const memory and for
/// memory that would be filled from two places (except ties), and the error of the refresh. `plans`
/// has those of earlier saves and restores, and may be null.
WantedState resolve(Group&, const CheckpointContents&, const TensorFinder&, const RefreshedState&,
                    const RestoreOptions&, RowPlans* plans);

/// Returns whether the state has rows that must be told when they are filled.
bool has_rows(const RefreshedState&);
/// Not collective. Call it when all is filled: it calls Rows::filled of the rows that were filled.
void tell_filled(const RefreshedState&, const WantedState&);

}  // namespace cairn
