#pragma once
/// Tensors with parts that no rank holds: absorbing layers, refinement levels, embedded boundaries
/// (docs/sparse.md). Each element of any other tensor must be held by some rank.
#include <string>
#include <utility>

#include "cairn/dtype.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// What a restore does to memory whose elements the checkpoint does not hold.
enum class Gaps {
  fill,  ///< they become the fill value
  keep   ///< they stay as they are
};

/// The fill value in a LocalTensor; made by sparse().
struct SparseFill {
  DType dtype{};        ///< dtype of the value as it was given
  std::string element;  ///< its bytes
  Gaps gaps = Gaps::fill;
};

/// The same tensor, of which the ranks need not hold everything. A save notes the boxes that no
/// rank holds (gaps) and the fill value, and readers that want a number there get this value. All
/// ranks that have the key in their state give it as sparse with the same value, and some rank
/// holds a part of it; else the save throws, on all ranks alike.
///
/// - Stored slice by slice (a bundle, unless Storage::dense is asked for) gaps take no room.
/// - Stored as one array (HDF5, Storage::dense) the fill value is written into them.
///
/// In a restore, a rank that wants elements in gaps needs sparse() in its state, too; fill value
/// and Gaps of that state count.
///
/// `fill` has the tensor's dtype, or another that can be converted to it (0 and 0.0 for float32,
/// rounded if need be). State::add throws its errors.
LocalTensor sparse(LocalTensor tensor, DType fill_dtype, const void* fill, Gaps gaps = Gaps::fill);

template <Element T>
LocalTensor sparse(LocalTensor tensor, T fill, Gaps gaps = Gaps::fill) {
  return sparse(std::move(tensor), dtype_of<T>::value, &fill, gaps);
}

}  // namespace cairn
