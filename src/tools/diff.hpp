#pragma once
/// What differs between two checkpoints, for tools. By one process.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/attributes.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Two elements are the same if their bits are, or if |a - b| <= absolute or
/// |a - b| <= relative * max(|a|, |b|), or if both are NaN and one of the two is above 0. Complex
/// numbers are compared by their parts. Types without a number's meaning are compared by bits.
struct Tolerance {
  double relative = 0, absolute = 0;
  bool any() const { return relative > 0 || absolute > 0; }
};

struct TensorDifference {
  enum class Kind { only_in_a, only_in_b, dtype, shape, values, unreadable };
  std::string key;
  Kind kind{};
  std::string what;  ///< dtypes or shapes of the two, or why it cannot be read
  // Of values:
  std::int64_t elements = 0, differing = 0;
  std::optional<double> max_absolute,
      max_relative;                     ///< over differing ones that are finite numbers
  Dims where_absolute, where_relative;  ///< index of the element with this difference
  Dims first;                           ///< of the first that differs, row-major
  std::string first_a, first_b;         ///< as text; of strings the part where they differ
  bool are_strings = false;             ///< any bytes may be in that part
};

/// One thing that is said of a tensor, of a group or of the whole checkpoint (docs/attributes.md).
struct DescriptionDifference {
  std::string key;   ///< of the tensor or group; empty: the checkpoint
  std::string name;  ///< "units", "dimensions", "coordinates", or of the attribute
  std::string a, b;  ///< as JSON; empty: not said
};
/// Ascending by key; units, dimensions and coordinates, then attributes by name.
std::vector<DescriptionDifference> compare(const Descriptions& a, const Descriptions& b);

/// A tensor in a checkpoint.
struct TensorAt {
  const OpenCheckpoint& checkpoint;
  const StoredTensor& tensor;
};

struct CheckpointDiff {
  std::vector<TensorDifference> differences;  ///< ascending by key
  std::vector<DescriptionDifference> descriptions;
  std::int64_t tensors = 0;  ///< compared by value
  std::int64_t bytes = 0;    ///< read, of both
  bool same() const { return differences.empty() && descriptions.empty(); }
  bool cannot_tell() const;  ///< something is unreadable
};

/// Every slice of every tensor that both hold is read and checked. Memory: the largest tensor,
/// twice. Of Cairn's own metadata the descriptions are compared, if both have metadata. Throws what
/// opening a file throws; damage of a tensor's bytes is a difference.
CheckpointDiff compare(const OpenCheckpoint& a, const OpenCheckpoint& b, const Tolerance& = {},
                       const Progress& = {});

}  // namespace cairn
