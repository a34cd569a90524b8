#pragma once
/// What the elements of a tensor are like: least, largest, mean, how many are no numbers. By one
/// process, while it reads and checks them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// One element, and where it is.
struct Extreme {
  double value = 0;     ///< of a complex number its absolute value
  std::string element;  ///< its bytes, little-endian
  Dims index;           ///< the first of this value, row-major
};

struct ValueStatistics {
  std::int64_t elements = 0;
  std::int64_t nans = 0, infinities = 0, zeros = 0;  ///< a complex one is a NaN if a part is
  std::int64_t finite = 0;
  std::optional<Extreme> least, largest;  ///< of the finite ones
  double mean = 0, deviation = 0;         ///< of the finite ones; the deviation is of all of them
};

/// How many finite elements are in each of some bins of equal width.
struct Histogram {
  double low = 0, high = 0;  ///< edges of the first and the last bin
  std::vector<std::int64_t> counts;
};

/// Reads all of a numeric tensor and checks it, in chunks of a few MiB. Throws as read_chunks.
ValueStatistics value_statistics(const OpenCheckpoint&, const StoredTensor&, const Progress& = {});

/// Reads it once more. Of integers in a small range there is a bin for each value, whose edges lie
/// half-way to the next; values of one size have one bin. None where no element is finite.
Histogram histogram(const OpenCheckpoint&, const StoredTensor&, const ValueStatistics&, int bins,
                    const Progress& = {});

}  // namespace cairn
