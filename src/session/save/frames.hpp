#pragma once
/// How the bytes of shards travel between ranks: in frames of bounded size.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// Frames of entries that have one slice each. Sender and receiver cut alike, since everything
/// follows from the entries.
struct Frames {
  /// A part of an entry that is contiguous in it.
  struct Part {
    std::size_t entry;
    Box box;  ///< of numbers, in global coordinates
    std::int64_t offset, bytes;
    std::int64_t at;  ///< where it lies in all that travels
  };
  /// Consecutive parts that travel in one message; none where they have no bytes.
  struct Frame {
    std::size_t first, end;  ///< parts
    std::int64_t begin, bytes;
  };
  std::vector<Part> parts;
  std::vector<Frame> frames;
  std::int64_t largest = 0;

  Frames() = default;
  /// `at`: where each entry lies in what travels, ascending; none: one behind the other. No frame
  /// has more bytes than the limit, those between entries included.
  Frames(const std::vector<StoredTensor>& entries, std::int64_t limit,
         std::span<const std::int64_t> at = {});

 private:
  void cut(const StoredTensor& entry, std::size_t e, std::int64_t at, std::int64_t limit);
};

/// data_loss of bytes that a rank has sent to its io rank, with both checksums.
Error changed_on_the_way(const std::string& key, int sender, int io_rank, std::uint32_t sent,
                         std::uint32_t arrived);

}  // namespace cairn
