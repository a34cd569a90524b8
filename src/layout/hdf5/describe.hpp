#pragma once
/// Writes descriptions of tensors as attributes and dimension scales of a file in the making.
#include "layout/hdf5/lay_out.hpp"
#include "layout/hdf5/library.hpp"

namespace cairn::hdf5 {

/// Writes `file.descriptions`: attributes of the root, of groups and of datasets, which must all
/// exist. Datasets with names of dimensions get axes in the form of HDF5 and netCDF-4. An axis is
/// the tensor of one dimension with that name and extent or, if there is none and its name is free,
/// an empty dataset that only says that there is such a dimension.
void describe(hid_t h5, const NewFile& file);

}  // namespace cairn::hdf5
