#pragma once
/// What reading and writing past the page cache share: who refuses it, and buffers for it.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "io/descriptor.hpp"

namespace cairn::io {

/// What direct I/O counts in: of memory, offset and length.
inline constexpr std::size_t page = 4096;

inline bool on_page(std::int64_t offset) { return offset % static_cast<std::int64_t>(page) == 0; }
inline bool on_page(const std::byte* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % page == 0;
}

/// The same file once more, for O_DIRECT. Nothing where the file system does not take it, which is
/// remembered by device, or where the path leads elsewhere by now.
std::optional<Descriptor> open_direct(int buffered, const std::filesystem::path&, int flags);
/// The file system took the opening, but not a call.
void refuse_direct(int buffered);

// A ring: pieces of one huge page each, since the disk takes larger requests from those. What is
// never used of it takes no memory.
inline constexpr std::size_t slot_bytes = std::size_t{2} << 20;
inline constexpr int ring_slots = 8;

struct GiveRing {
  void operator()(std::byte*) const;
};
using Ring = std::unique_ptr<std::byte, GiveRing>;

/// Null: there is no memory, or four are in use by this process; then the page cache must do. One
/// is kept, since the first touch of memory costs more than a copy into it.
Ring take_ring();

}  // namespace cairn::io
