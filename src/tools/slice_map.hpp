#pragma once
/// A picture of how a stored tensor is cut: its slices, coloured by the data file that holds them.
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// An SVG image of a tensor of 1 to 3 dimensions: a bar; a plane (rows downwards); or planes, one
/// for each run of indices of the first dimension over which the cuts are the same. Each slice says
/// its box, file, offset and size when pointed at. With `names`, a slice's `file` is the number of
/// one of these, whatever they are: there is no offset then. Throws invalid_argument for another
/// number of dimensions or no elements, and above 64 planes or 100,000 rectangles, which nobody
/// could see.
std::string slice_map(const StoredTensor&, const std::string& title,
                      const std::vector<std::string>& names = {});

/// The same of a tensor of a checkpoint. In an HDF5 file a tensor is one run of bytes: its slices
/// are those of the tasks that held it, where the file tells of them. May read the file.
std::string draw_slices(const OpenCheckpoint&, const StoredTensor&, const std::string& title);

}  // namespace cairn
