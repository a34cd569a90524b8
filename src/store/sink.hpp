#pragma once
/// Bytes on their way into the data files of a save: checksums and syncs are inside.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/codec.hpp"
#include "store/draft.hpp"

namespace cairn {

/// Writes data files of a save, one after the other; each is synced when it is full.
class Sink {
 public:
  /// Small slices go to the file so many bytes at a time: a system call for each costs more than
  /// a copy.
  static constexpr std::int64_t gathered_bytes = std::int64_t{256} << 10;

  /// The draft outlives it. With the entries that are to be written, no file takes more space than
  /// it needs.
  explicit Sink(const Draft&, const std::vector<StoredTensor>& entries = {},
                std::int64_t gathered_bytes = Sink::gathered_bytes);

  /// Opens the entry's file if it is not open, and sets the offset: what the layout encodes begins
  /// where the last piece ends.
  void begin(StoredTensor& entry);
  /// Bytes as they are in memory. If they stay as they are until the file is finished, and are not
  /// encoded, they are written behind the caller's back, and those on page boundaries from where
  /// they are.
  void append(std::span<const std::byte> bytes, bool stay = false);
  /// Sets what is known of the piece only now: how many bytes are stored of what is encoded, and
  /// the checksum of those, but of strings, which have one of another kind. Returns that of the
  /// bytes that were appended.
  std::uint32_t end(StoredTensor& entry);
  void finish();

 private:
  void put(std::span<const std::byte> bytes, bool stay);
  void write_gathered();
  bool encodes(const StoredTensor&) const;

  const Draft* draft_;
  const Encoding* layout_encodes_;     // null: with none
  std::map<int, std::int64_t> sizes_;  // of the files, if they are known
  commit::PartFile file_;
  int number_ = -1;
  std::int64_t end_ = 0;             // of all that was put
  std::vector<std::byte> gathered_;  // the last of it, not yet written
  std::size_t most_gathered_;
  std::uint32_t crc_ = 0;  // of what was appended to the piece
  FiniteCheck look_;       // at it
  // Of a piece that is encoded; null: it is not.
  const Encoding* encoding_ = nullptr;
  std::vector<std::byte> encoded_;  // a chunk of it
  std::uint32_t stored_crc_ = 0;
};

}  // namespace cairn
