#pragma once
/// Turns Fortran's arrays into tensors. An array a(nx, ny) is a tensor [ny, nx]: the dimensions are
/// reversed, so that the index that varies fastest in memory does so in the tensor, too.
#include <ISO_Fortran_binding.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "cairn/state.hpp"

namespace cairn::fortran {

/// A copy of a descriptor, needed because the array outlives the descriptor that a call gets.
class KeptArray {
 public:
  explicit KeptArray(const CFI_cdesc_t& array);
  const CFI_cdesc_t& operator*() const {
    return *reinterpret_cast<const CFI_cdesc_t*>(bytes_.data());
  }
  const CFI_cdesc_t* operator->() const { return &**this; }

 private:
  std::vector<std::byte> bytes_;  // the descriptor, followed by its dimensions
};

/// Throws invalid_argument for types without a dtype: reals of 10 or 16 bytes, derived types.
DType dtype_of_array(const CFI_cdesc_t& array);
Dims extent_of(const CFI_cdesc_t& array);
/// Throws what dtype_of_array throws, and for an array that is not allocated. Logical values of any
/// kind are one byte each in the tensor.
std::shared_ptr<SliceMemory> memory_of(const CFI_cdesc_t& array);

/// The array as a slice of a tensor. Shape and start are in the tensor's order of dimensions, start
/// counts from 0. Characters become strings without trailing blanks.
LocalTensor tensor_of(const CFI_cdesc_t& array, const Dims& global_shape, const Dims& start);

/// Reverses numbers from Fortran's order of dimensions to the tensor's, and subtracts `minus` from
/// each.
Dims reversed(int count, const std::int64_t* numbers, std::int64_t minus);

}  // namespace cairn::fortran
