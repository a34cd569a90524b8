#pragma once
/// The slices that each tensor had when it was saved, and the device task that brought each of
/// them. They are the dataset /_cairn/slices, as JSON; docs/format-hdf5.md has its members. Needs
/// no HDF5. Dense tensors of HDF5 are stored as wholes, so nothing else in the file tells what each
/// rank had.
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::hdf5 {

struct HeldSlice {
  Box box;
  std::size_t task = 0;  ///< index of Holders::tasks
  bool operator==(const HeldSlice&) const = default;
};

struct Holders {
  std::vector<std::string> tasks;  ///< device tasks, as TensorFlow spells them
  std::map<std::string, std::vector<HeldSlice>> tensors;  ///< by key
  bool operator==(const Holders&) const = default;
};

std::string encode_holders(const Holders&);

/// Throws data_loss for what encode_holders does not make.
Holders decode_holders(std::string_view json);

}  // namespace cairn::hdf5
