#pragma once
/// What is said of tensors, as attributes and dimension scales of a file that is being laid out.
#include "layout/hdf5/lay_out.hpp"
#include "layout/hdf5/library.hpp"

namespace cairn::hdf5 {

/// Writes what `file.descriptions` says: attributes on the root, on groups and on datasets, which
/// are all there. Where names of dimensions are given, datasets get their axes as HDF5 and netCDF-4
/// have them: the tensor of one dimension with that name and extent, or an empty dataset that only
/// says that there is such a dimension, where its name is free.
void describe(hid_t h5, const NewFile& file);

}  // namespace cairn::hdf5
