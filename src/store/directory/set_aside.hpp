#pragma once
/// For readers that do not recover a directory: a direct save that replaces a checkpoint, or that
/// died while it did so, leaves the old one whole, but for its index, which is set aside. Lists of
/// a directory pass over such a step; who asks for it reads it here.
#include <functional>
#include <optional>

#include "store/contents/contents_reader.hpp"

namespace cairn {

/// The index of the checkpoint that is being replaced; nothing if none was set aside whose data
/// files are all there.
std::optional<IndexFile> index_set_aside(io::FileSystem&, const io::Path& prefix);

/// What `load` gives (load_index(), unless told otherwise), or where that finds no whole index the
/// one that was set aside, with a warning in the log.
IndexFile load_newest_index(io::FileSystem&, const io::Path& prefix,
                            const std::function<IndexFile()>& load = {});

}  // namespace cairn
