#pragma once
/// Copies that leave the processor's caches to the application.
#include <cstddef>

namespace cairn {

/// Like memcpy, for large copies that are not read again soon. If the processor has stores that
/// bypass its caches, the target is not fetched before it is overwritten. memcpy does that too, but
/// only for copies as large as the largest cache, which may be hundreds of MiB.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);

/// The same for many copies. Their stores are ordered with other stores, such as one that tells
/// another thread of the copies, only after order_copies_past_caches() in the same thread.
void copy_past_caches_unordered(std::byte* to, const std::byte* from, std::size_t bytes);
void order_copies_past_caches();

}  // namespace cairn
