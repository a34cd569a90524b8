#pragma once
/// Draws how a stored tensor is cut: its slices, coloured by the data file that holds them.
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// An SVG image of a tensor of 1 to 3 dimensions: a bar; a plane (rows downwards); or several
/// planes, one for each range of indices of the first dimension in which the cuts are the same.
/// When a slice is pointed at, the image shows its box, file, offset and size. With `names`, a
/// slice's `file` is an index into them, whatever they name, and no offset is shown. Throws
/// invalid_argument for another number of dimensions, for a tensor without elements, and above 64
/// planes or 100,000 rectangles, which nobody could see.
std::string slice_map(const StoredTensor&, const std::string& title,
                      const std::vector<std::string>& names = {});

/// The same for a tensor of a checkpoint. In an HDF5 file a tensor is one run of bytes, so the
/// slices of the tasks that held it are drawn, if the file records them. May read the file.
std::string draw_slices(const OpenCheckpoint&, const StoredTensor&, const std::string& title);

}  // namespace cairn
