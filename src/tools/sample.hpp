#pragma once
/// Reduces a tensor, or a part of it, to as few numbers as a picture has room for. Not collective.
#include <cstdint>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"
#include "tools/selection.hpp"

namespace cairn {

/// How a block of elements becomes one pixel.
enum class Reduce {
  automatic,  ///< mean, or stride if more than 512 MiB are selected
  mean,       ///< of all elements; NaN gives NaN, an infinity gives an infinity or NaN
  stride      ///< the first element; the others do not count
};

/// Whether bytes are compared with their checksums.
enum class Check {
  automatic,  ///< yes, unless that would read much, and far more than what is needed
  all
};

struct SampleLimits {
  std::int64_t rows = 1, columns = 1;  ///< the most of each
  Reduce reduce = Reduce::automatic;
  Check check = Check::automatic;
};

/// Row-major. A dimension that is not shown has one row or column.
struct Sample2D {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_step = 1,
               column_step = 1;  ///< selected elements in a pixel; the last may have fewer
  Reduce reduce = Reduce::mean;  ///< how blocks of several elements became one number
  std::vector<double> values;
  /// The least and largest number of each block, without NaN. Only if at most one dimension is
  /// shown.
  std::vector<double> least, largest;
  std::int64_t elements = 0, nans = 0, infinities = 0;  ///< of the elements that were read
  bool checked = true;  ///< every byte was compared with its checksum
};

/// At most two dimensions of `selection` may have more than one index. The first of two becomes the
/// rows; a single one becomes the columns. Memory: that of the result, and chunks of a few MiB.
/// Throws the errors of read_chunks.
Sample2D sample(const OpenCheckpoint&, const StoredTensor&, const Selection& selection,
                SampleLimits, const Progress& = {});

}  // namespace cairn
