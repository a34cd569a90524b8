#pragma once
/// The HDF5 type of each DType; docs/format-hdf5.md has the table.
#include <optional>

#include "cairn/dtype.hpp"
#include "layout/hdf5/library.hpp"

namespace cairn::hdf5 {

/// The type in the file, which is little-endian. Not for strings and variants.
Handle stored_type(DType dtype);

/// Whether HDF5 has no type for this dtype, a float whose highest exponent holds numbers: no HDF5
/// float describes it, and h5py reads no opaque type. It is stored as bytes, and an attribute
/// `dtype` of the dataset names it.
bool has_no_type(DType dtype);
inline constexpr const char* dtype_attribute = "dtype";
std::optional<DType> named_dtype(hid_t dataset);  ///< the dtype that this attribute names

/// The type of elements in Cairn's memory, to which HDF5 converts.
Handle memory_type(DType dtype);

/// The DType whose elements can hold values of this type; nothing if there is none. Byte order does
/// not matter. Integers of one byte that use 4 or 2 bits become int4 or int2 (uint4, uint2); of
/// others the bits in use do not matter. Floats of an unknown kind become the smallest float (of
/// one, two, four or eight bytes) that holds them.
std::optional<DType> dtype_of_type(hid_t type);

}  // namespace cairn::hdf5
