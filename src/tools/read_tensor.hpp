#pragma once
/// A box of one stored tensor, read by one process that holds no part of it: for tools.
#include <string>
#include <vector>

#include "contents/contents_reader.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// The elements of `wanted`, row-major and little-endian. Each stored slice that shares an element
/// with it is read and checked whole, in chunks of a few MiB. Throws data_loss when one is damaged
/// or stored slices leave a part out, invalid_argument when the box is not in the tensor or the
/// tensor holds strings, unsupported for variants.
std::string read_numbers(io::FileSystem&, const CheckpointContents&, const StoredTensor&,
                         const Box& wanted, const Progress& = {});

/// The same for a string tensor.
std::vector<std::string> read_string_box(io::FileSystem&, const CheckpointContents&,
                                         const StoredTensor&, const Box& wanted,
                                         const Progress& = {});

}  // namespace cairn
