#pragma once
/// What a DType is in HDF5; docs/format-hdf5.md has the table.
#include <optional>

#include "cairn/dtype.hpp"
#include "layout/hdf5/library.hpp"

namespace cairn::hdf5 {

/// As it is stored: little-endian. Not for strings and variants.
Handle stored_type(DType dtype);

/// Floats whose highest exponent holds numbers: no float of HDF5 describes them, and h5py reads no
/// opaque type. They are bytes, and an attribute `dtype` of the dataset names them.
bool has_no_type(DType dtype);
inline constexpr const char* dtype_attribute = "dtype";
std::optional<DType> named_dtype(hid_t dataset);  ///< by that attribute

/// Elements in memory as Cairn has them, for HDF5 to convert to.
Handle memory_type(DType dtype);

/// The DType whose elements hold what is stored with this type; nothing if there is none. Byte
/// order does not matter, nor how many bits of an integer are in use; floats of an unknown kind
/// become the smallest IEEE ones that hold them.
std::optional<DType> dtype_of_type(hid_t type);

}  // namespace cairn::hdf5
