#pragma once
#include <string>

#include "tools/image.hpp"

namespace cairn::cli {

/// The bytes of a PNG or PPM file of this image; the ending of the name decides which. Throws
/// invalid_argument for another ending, unsupported for PNG if the tool was built without libpng.
std::string encode_image(const Image&, const std::string& file);

}  // namespace cairn::cli
