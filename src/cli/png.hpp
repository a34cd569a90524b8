#pragma once
#include <string>

#include "tools/image.hpp"

namespace cairn::cli {

/// The bytes of a PNG file of this image, or a PPM file, by the ending of the name. Throws
/// invalid_argument for another ending, unsupported for PNG where the tool was built without
/// libpng.
std::string encode_image(const Image&, const std::string& file);

}  // namespace cairn::cli
