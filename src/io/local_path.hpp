#pragma once
#include "io/file_system.hpp"

namespace cairn::io {

/// The path that a caller means: file:///run/ckpt is /run/ckpt, and s3://bucket/run stays, which is
/// no path of this machine. Throws unsupported for an address of another kind (gs://bucket/run); as
/// a path it would name a directory "gs:" here.
Path local_path(const Path&);

/// Whether this is an address that no file system of this machine has: s3://bucket/run.
bool is_address(const Path&);

/// The absolute path, without "." and ".."; an address stays, but for slashes at its end.
Path absolute_path(const Path&);

}  // namespace cairn::io
