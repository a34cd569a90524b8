#pragma once
/// Checks that memory that is read and memory that is written do not overlap. For rows by id they
/// may: ranks sort them in separate buffers before anything is written, so a mesh can be
/// partitioned again without a second copy in the application.
#include <string>
#include <vector>

#include "cairn/state.hpp"

namespace cairn {

/// A slice, and where it lies.
struct LaidSlice {
  const std::string* key;  ///< the key in `from`
  DType dtype;
  Box box;
  Footprint where;
  /// False if values are converted on their way, or if the memory is resized.
  bool may_stay = true;  ///< the same slice may be read and written: it stays where it is
};

/// Not collective. Throws invalid_argument, with the key, if one of `read` and one of `written`
/// share memory, unless they are the same slice. Memory whose address is not known is not checked.
void require_apart(const std::vector<LaidSlice>& read, const std::vector<LaidSlice>& written);

}  // namespace cairn
