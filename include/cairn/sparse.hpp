#pragma once
/// Tensors of which nobody holds some part: absorbing layers, refinement levels, embedded
/// boundaries (docs/sparse.md). Of any other tensor each element is held by some rank.
#include <string>
#include <utility>

#include "cairn/dtype.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// What a restore does to memory whose elements the checkpoint does not hold.
enum class Gaps {
  fill,  ///< they get the fill value
  keep   ///< they stay as they are
};

/// As a LocalTensor carries it; made by sparse().
struct SparseFill {
  DType dtype{};        ///< of the value as it was given
  std::string element;  ///< its bytes
  Gaps gaps = Gaps::fill;
};

/// The same tensor, of which the ranks need not hold everything. A save notes what no rank holds,
/// with the fill value, and readers that want a number there get this value. All ranks that have
/// the key in their state give it as sparse and with the same value; some rank holds a part of it.
/// Else the save throws, on all ranks alike.
///
/// - Stored slice by slice (a bundle, unless Storage::dense is asked for) gaps take no room.
/// - Stored as one array (HDF5, Storage::dense) the fill value is written into them.
///
/// A restore of such a tensor needs sparse() in the state, too, where a rank wants what was not
/// held; the value and the choice are those of the state that is restored.
///
/// `fill` is of any dtype that stands for the same number in the tensor's (0 and 0.0 of float32,
/// rounded if need be), or of the tensor's own. What is wrong with it is thrown by State::add.
LocalTensor sparse(LocalTensor tensor, DType fill_dtype, const void* fill, Gaps gaps = Gaps::fill);

template <Element T>
LocalTensor sparse(LocalTensor tensor, T fill, Gaps gaps = Gaps::fill) {
  return sparse(std::move(tensor), dtype_of<T>::value, &fill, gaps);
}

}  // namespace cairn
