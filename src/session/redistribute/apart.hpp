#pragma once
/// Whether memory that is read and memory that is written are apart.
#include <string>
#include <vector>

#include "cairn/state.hpp"

namespace cairn {

/// A slice, and where it lies.
struct LaidSlice {
  const std::string* key;  ///< as `from` calls it
  DType dtype;
  Box box;
  Footprint where;
  bool may_stay = true;  ///< the same slice on the other side is no harm
};

/// Local. Throws invalid_argument, with the key, where one of `read` and one of `written` share
/// memory, unless they are the same slice. Addresses that are not known are passed over.
void require_apart(const std::vector<LaidSlice>& read, const std::vector<LaidSlice>& written);

}  // namespace cairn
