#pragma once
/// Keys as paths of groups and datasets in an HDF5 file. Needs no HDF5.
#include <string>
#include <vector>

namespace cairn::hdf5 {

/// The group in which Cairn stores its own data.
inline constexpr const char* own_group = "_cairn";

/// Returns the groups that the keys need, each after the group that it lies in. In an HDF5 file a
/// key is the path of a dataset from the root. Throws invalid_argument for the first key that
/// cannot be one: a key with an empty part ("a//b", "/a", "a/"), with a part "." or a zero byte;
/// "_cairn"; and a key with which the path of another key begins.
std::vector<std::string> groups_of(const std::vector<std::string>& keys);

}  // namespace cairn::hdf5
