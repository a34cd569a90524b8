#pragma once
/// What a rank writes into a shared file: one range of bytes, in frames of bounded size.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "session/save/shard_files.hpp"

namespace cairn {

/// Local and pure but for the memory it takes. Entries lie in the order in which they come, large
/// ones on pages, as they would in a file of their own; the gaps are zeros.
class SharedRange {
 public:
  /// The offsets of the entries become those in the range. No frame has more than `limit` bytes.
  /// `not_finite`: see Draft.
  SharedRange(Outgoing out, std::int64_t limit, NotFiniteKeys* not_finite = nullptr);

  std::int64_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_.size(); }
  /// Takes the buffer, and moves the range to its place in the file.
  void set_begin(std::int64_t begin);

  struct Bytes {
    std::int64_t offset = 0;
    std::span<const std::byte> bytes = {};
  };
  /// The next frame, to be asked for in order: where it lies in the application's memory, or
  /// packed, valid until the next call. Checksums are taken on the way. Exceptions of the slice
  /// memory are passed on.
  Bytes fill(std::size_t frame);

  /// After the last frame: the entries with their checksums, and by entry the checksum of its bytes
  /// (which is another one for strings).
  std::vector<StoredTensor> take_entries();
  const std::vector<std::uint32_t>& checksums() const { return checksums_; }

 private:
  // A part of an entry that is contiguous in it.
  struct Part {
    std::size_t entry;
    Box box;                     // relative to the slice; of strided memory only
    std::int64_t offset, bytes;  // in the entry
  };
  struct Frame {
    std::size_t first, end;     // parts
    std::int64_t begin, bytes;  // in the range
    bool in_place;              // one part that is written from where it lies
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
  std::vector<FiniteCheck> looks_;  // by entry; none where numbers are not looked at
};

}  // namespace cairn
