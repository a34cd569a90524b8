#pragma once
#include <cstdint>

#include "io/file_system.hpp"

namespace cairn {

/// Throws data_loss if these bytes of the file do not end as an index does. Called before an index
/// is read, so that a long file that is no index takes no memory.
void require_index_end(const io::File&, std::int64_t offset, std::int64_t bytes);

}  // namespace cairn
