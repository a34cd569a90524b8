#pragma once
/// A tensor, or a part of it, as few numbers as a picture has room for. By one process.
#include <cstdint>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"
#include "tools/selection.hpp"

namespace cairn {

/// What stands for a block of elements that share a pixel.
enum class Reduce {
  automatic,  ///< mean, unless more than 512 MiB were selected
  mean,       ///< of all; a NaN among them makes it a NaN, an infinity an infinity or a NaN
  stride      ///< the first element: only those are looked at
};

/// Whether bytes are compared with their checksums.
enum class Check {
  automatic,  ///< yes, unless that would read far more than what is needed, and much
  all
};

struct SampleLimits {
  std::int64_t rows = 1, columns = 1;  ///< most of each
  Reduce reduce = Reduce::automatic;
  Check check = Check::automatic;
};

/// Row-major. A dimension that is not shown has one row or column.
struct Sample2D {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_step = 1,
               column_step = 1;  ///< selected elements a pixel, the last may have fewer
  Reduce reduce = Reduce::mean;  ///< how blocks of more than one element became one number
  std::vector<double> values;
  /// Least and largest of each block, without NaN: of a tensor with no more than one shown
  /// dimension.
  std::vector<double> least, largest;
  std::int64_t elements = 0, nans = 0, infinities = 0;  ///< that were looked at
  bool checked = true;  ///< every byte was compared with its checksum
};

/// `selection` has at most two dimensions of more than one index: the first is rows, unless it is
/// the only one. Memory: the limits', and chunks of a few MiB. Throws as read_chunks.
Sample2D sample(const OpenCheckpoint&, const StoredTensor&, const Selection& selection,
                SampleLimits, const Progress& = {});

}  // namespace cairn
