#pragma once
/// The encodings of this build, as HDF5's registered filters have them.
#include <span>

#include "layout/codec.hpp"

namespace cairn {

/// What a codec is called, and the package that a build needs for it.
struct CodecName {
  Codec codec;
  const char* name;
  const char* package;  ///< on Debian
};
std::span<const CodecName> codec_names();

/// Those whose library this build has.
std::span<const Encoding> built_encodings();

/// How hard each of them tries. HDF5 notes it in the filter's values, for information.
inline constexpr int encoding_level = 1;

}  // namespace cairn
