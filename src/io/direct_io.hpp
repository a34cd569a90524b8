#pragma once
/// Shared by reading and writing past the page cache: which file systems refuse it, and buffers.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "io/descriptor.hpp"

namespace cairn::io {

/// The unit of direct I/O in bytes: of addresses in memory, offsets and lengths.
inline constexpr std::size_t page = 4096;

inline bool on_page(std::int64_t offset) { return offset % static_cast<std::int64_t>(page) == 0; }
inline bool on_page(const std::byte* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % page == 0;
}

/// Opens the same file once more, with O_DIRECT. Nothing if the file system refuses it, which is
/// remembered by device, or if the path leads to another file by now.
std::optional<Descriptor> open_direct(int buffered, const std::filesystem::path&, int flags);
/// Notes that the file system accepted the opening, but refused a call.
void refuse_direct(int buffered);

// A ring is a buffer of slots of one huge page each, since the disk takes larger requests from huge
// pages. Slots that are never used take no memory.
inline constexpr std::size_t slot_bytes = std::size_t{2} << 20;
inline constexpr int ring_slots = 8;

/// Gives a ring back to the process, which may keep it for the next file.
struct GiveRing {
  void operator()(std::byte*) const;
};
using Ring = std::unique_ptr<std::byte, GiveRing>;

/// Null if there is no memory, or if this process uses four rings already; the caller then uses the
/// page cache. One free ring is kept, since the first touch of memory costs more than a copy into
/// it.
Ring take_ring();

}  // namespace cairn::io
