#pragma once
/// Statistics of a tensor's elements: least, largest, mean, how many are not numbers. Not
/// collective; reads and checks the elements.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// One element, and where it is.
struct Extreme {
  double value = 0;     ///< of a complex number, the absolute value
  std::string element;  ///< its bytes, little-endian
  Dims index;           ///< the first element with this value, row-major
};

struct ValueStatistics {
  std::int64_t elements = 0;
  /// A complex number is a NaN if one of its parts is.
  std::int64_t nans = 0, infinities = 0, zeros = 0;
  std::int64_t finite = 0;
  std::optional<Extreme> least, largest;  ///< of the finite elements
  double mean = 0, deviation = 0;         ///< of the finite elements, as a whole population
};

/// The number of finite elements in each of some bins of equal width.
struct Histogram {
  double low = 0, high = 0;  ///< edges of the first and of the last bin
  std::vector<std::int64_t> counts;
};

/// Reads and checks all of a numeric tensor, in chunks of a few MiB. Throws the errors of
/// read_chunks.
ValueStatistics value_statistics(const OpenCheckpoint&, const StoredTensor&, const Progress& = {});

/// Reads the tensor once more. Integers in a small range get a bin for each value, whose edges lie
/// half-way to the next one. If all values are equal, there is one bin; if none is finite, none.
Histogram histogram(const OpenCheckpoint&, const StoredTensor&, const ValueStatistics&, int bins,
                    const Progress& = {});

}  // namespace cairn
