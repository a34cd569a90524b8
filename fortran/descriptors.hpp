#pragma once
/// Fortran's arrays as the library knows them. An array a(nx, ny) is a tensor [ny, nx]: the
/// dimensions are reversed, so that the element that varies fastest in memory does so in the tensor
/// too.
#include <ISO_Fortran_binding.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "cairn/state.hpp"

namespace cairn::fortran {

/// A copy of a descriptor, for the array that it describes outlives it.
class KeptArray {
 public:
  explicit KeptArray(const CFI_cdesc_t& array);
  const CFI_cdesc_t& operator*() const {
    return *reinterpret_cast<const CFI_cdesc_t*>(bytes_.data());
  }
  const CFI_cdesc_t* operator->() const { return &**this; }

 private:
  std::vector<std::byte> bytes_;  // dimensions follow the descriptor
};

/// Throws invalid_argument for what has no dtype: reals of 10 or 16 bytes, derived types.
DType dtype_of_array(const CFI_cdesc_t& array);
Dims extent_of(const CFI_cdesc_t& array);
/// Throws as dtype_of_array, and for an array that is not there. Logical values of any kind are one
/// byte each in the tensor.
std::shared_ptr<SliceMemory> memory_of(const CFI_cdesc_t& array);

/// The slice of a tensor that an array is. Shape and start are of the tensor, from 0 on. Characters
/// become strings without trailing blanks.
LocalTensor tensor_of(const CFI_cdesc_t& array, const Dims& global_shape, const Dims& start);

/// Numbers in Fortran's order of dimensions, each less something, in the tensor's order.
Dims reversed(int count, const std::int64_t* numbers, std::int64_t minus);

}  // namespace cairn::fortran
