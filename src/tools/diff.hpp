#pragma once
/// Finds what differs between two checkpoints. For tools; not collective.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/attributes.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Two elements are equal if their bits are, or if |a - b| <= absolute or |a - b| <= relative *
/// max(|a|, |b|), or if both are NaN and `absolute` or `relative` is above 0. The parts of complex
/// numbers are compared one by one. Types that are not numbers are compared by bits.
struct Tolerance {
  double relative = 0, absolute = 0;
  bool any() const { return relative > 0 || absolute > 0; }
};

struct TensorDifference {
  enum class Kind { only_in_a, only_in_b, dtype, shape, values, unreadable };
  std::string key;
  Kind kind{};
  std::string what;  ///< both dtypes or shapes, or why the tensor cannot be read
  // For differences of values:
  std::int64_t elements = 0, differing = 0;
  std::optional<double> max_absolute,
      max_relative;                     ///< over differing elements that are finite numbers
  Dims where_absolute, where_relative;  ///< index of the element with that difference
  Dims first;                           ///< index of the first that differs, row-major
  std::string first_a, first_b;         ///< as text; for strings, the part where they differ
  bool are_strings = false;             ///< that part may have any bytes
};

/// One description (docs/attributes.md) of a tensor, of a group or of the whole checkpoint.
struct DescriptionDifference {
  std::string key;   ///< of the tensor or group; empty for the checkpoint
  std::string name;  ///< "units", "dimensions", "coordinates", or the name of an attribute
  std::string a, b;  ///< as JSON; empty: there is none
};
/// Ascending by key. For each key units, dimensions and coordinates come first, then attributes by
/// name.
std::vector<DescriptionDifference> compare(const Descriptions& a, const Descriptions& b);

/// A tensor in a checkpoint.
struct TensorAt {
  const OpenCheckpoint& checkpoint;
  const StoredTensor& tensor;
};

struct CheckpointDiff {
  std::vector<TensorDifference> differences;  ///< ascending by key
  std::vector<DescriptionDifference> descriptions;
  std::int64_t tensors = 0;  ///< that were compared by value
  std::int64_t bytes = 0;    ///< read from both
  bool same() const { return differences.empty() && descriptions.empty(); }
  bool cannot_tell() const;  ///< something could not be read
};

/// Reads and checks every slice of every tensor that both have. Memory: twice the largest tensor.
/// Of Cairn's own metadata only the descriptions are compared, if both have metadata. Throws the
/// errors of opening a file; damaged bytes of a tensor count as a difference.
CheckpointDiff compare(const OpenCheckpoint& a, const OpenCheckpoint& b, const Tolerance& = {},
                       const Progress& = {});

}  // namespace cairn
