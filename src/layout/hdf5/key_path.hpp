#pragma once
#include <string>
#include <vector>

namespace cairn::hdf5 {

/// The group that is ours.
inline constexpr const char* own_group = "_cairn";

/// Throws invalid_argument for the first key that has no place in an HDF5 file, where a key is the
/// path of a dataset from the root: one with an empty part ("a//b", "/a", "a/"), with a part "."
/// or a zero byte; "_cairn"; and one that is a tensor and at once the beginning of another key's
/// path. Returns the groups that the keys need, each after the group that it lies in.
std::vector<std::string> groups_of(const std::vector<std::string>& keys);

}  // namespace cairn::hdf5
