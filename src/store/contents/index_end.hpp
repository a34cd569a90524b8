#pragma once
#include <cstdint>

#include "io/file_system.hpp"

namespace cairn {

/// Throws data_loss unless these bytes of the file end as an index does. Asked before an index is
/// read: one that is none costs no memory, however long it is.
void require_index_end(const io::File&, std::int64_t offset, std::int64_t bytes);

}  // namespace cairn
