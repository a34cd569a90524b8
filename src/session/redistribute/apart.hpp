#pragma once
/// Whether memory that is read and memory that is written are apart. Rows by id need not be: ranks
/// put them in order in blocks of their own before anything is written, so a mesh is partitioned
/// anew without a second copy in the application.
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
