#pragma once
#include "io/file_system.hpp"

namespace cairn::io {

/// The path that a caller means: file:///run/ckpt is /run/ckpt. Throws unsupported for an address
/// of another kind (s3://bucket/run); as a path it would name a directory "s3:" here.
Path local_path(const Path&);

}  // namespace cairn::io
