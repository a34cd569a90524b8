#pragma once
/// Whether data files are written past the operating system's page cache.

namespace cairn {

enum class DirectIo {
  /// Where the file system takes it (asked once a device, O_DIRECT) and much is written in a row.
  /// Memory that begins on a page goes to the disk as it lies; other memory through up to 16 MiB of
  /// buffers.
  automatic,
  on,  ///< each whole page, where the file system takes it
  off
};

}  // namespace cairn
