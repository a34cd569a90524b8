#pragma once
#include <cstddef>

namespace cairn {

/// As memcpy, for much memory that is not read again soon: where the processor has stores that pass
/// its caches by, the target is not fetched before it is overwritten. memcpy does that too, but
/// only from the size of its largest cache on, which may be hundreds of MiB.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);

/// The same of many copies: their stores have an order with others, such as those that tell another
/// thread of them, only after order_copies_past_caches() of the same thread.
void copy_past_caches_unordered(std::byte* to, const std::byte* from, std::size_t bytes);
void order_copies_past_caches();

}  // namespace cairn
