#pragma once
/// What a rank writes into a shared file: one range of bytes, in frames of bounded size.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "session/save/shard_files.hpp"

namespace cairn {

/// Local, without side effects except allocation. Entries keep the order in which they are given,
/// and large ones begin on pages, as in a file of their own. The gaps are zeros.
class SharedRange {
 public:
  /// The offsets of the entries become offsets in the range. No frame has more than `limit` bytes.
  /// `not_finite`: see Draft.
  SharedRange(Outgoing out, std::int64_t limit, NotFiniteKeys* not_finite = nullptr);

  std::int64_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_.size(); }
  /// Allocates the buffer, and moves the range to its place in the file.
  void set_begin(std::int64_t begin);

  struct Bytes {
    std::int64_t offset = 0;
    std::span<const std::byte> bytes = {};
  };
  /// The bytes of the next frame; ask for frames in order. They are in the application's memory, or
  /// packed and valid until the next call. Computes checksums on the way. Throws what the slice's
  /// memory throws.
  Bytes fill(std::size_t frame);

  /// To be called after the last frame. take_entries(): the entries with their checksums.
  /// checksums(): by entry the checksum of its bytes, which for strings differs from the entry's.
  std::vector<StoredTensor> take_entries();
  const std::vector<std::uint32_t>& checksums() const { return checksums_; }

 private:
  // A contiguous part of an entry.
  struct Part {
    std::size_t entry;
    Box box;                     // relative to the slice; for strided memory only
    std::int64_t offset, bytes;  // in the entry
  };
  struct Frame {
    std::size_t first, end;     // indices of parts
    std::int64_t begin, bytes;  // in the range
    bool in_place;              // one part, written without a copy
  };
  void cut(std::size_t entry, std::int64_t limit);
  void append(Part part, std::int64_t limit);
  void look_at(std::size_t entry, std::span<const std::byte> bytes);

  Outgoing out_;
  std::vector<Part> parts_;
  std::vector<Frame> frames_;
  std::int64_t bytes_ = 0, begin_ = 0, largest_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::vector<std::uint32_t> checksums_;
  NotFiniteKeys* not_finite_;
  std::vector<FiniteCheck> looks_;  // by entry; empty if numbers are not checked
};

}  // namespace cairn
