#pragma once
/// The bytes of shards travel between ranks in frames of bounded size.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// Cuts entries that have one slice each into frames. Sender and receiver compute the same frames,
/// since they depend on the entries only.
struct Frames {
  /// A contiguous part of an entry.
  struct Part {
    std::size_t entry;
    Box box;  ///< in global coordinates; for tensors of numbers only
    std::int64_t offset, bytes;
    std::int64_t at;  ///< its position among all bytes that travel
  };
  /// Consecutive parts that travel in one message. A frame without bytes is not sent.
  struct Frame {
    std::size_t first, end;  ///< indices of parts
    std::int64_t begin, bytes;
  };
  std::vector<Part> parts;
  std::vector<Frame> frames;
  std::int64_t largest = 0;

  Frames() = default;
  /// `at`: the position of each entry among the bytes that travel, ascending; if it is empty,
  /// entries follow each other. No frame has more than `limit` bytes, including the gaps between
  /// entries.
  Frames(const std::vector<StoredTensor>& entries, std::int64_t limit,
         std::span<const std::int64_t> at = {});

 private:
  void cut(const StoredTensor& entry, std::size_t e, std::int64_t at, std::int64_t limit);
};

/// The data_loss error for bytes that changed between a rank and its io rank; names both checksums.
Error changed_on_the_way(const std::string& key, int sender, int io_rank, std::uint32_t sent,
                         std::uint32_t arrived);

}  // namespace cairn
