#pragma once
/// Writes bytes into the data files of a save, with checksums and syncs.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/codec.hpp"
#include "store/draft.hpp"
#include "store/unchanged_blocks.hpp"

namespace cairn {

/// The sizes that data files will have, from all entries that will be written to them.
class FileSizes {
 public:
  FileSizes() = default;
  FileSizes(const std::vector<StoredTensor>& entries) {
    for (const auto& entry : entries) add(entry);
  }
  /// In the order in which they will be written.
  void add(const StoredTensor& entry);
  const std::map<int, std::int64_t>& all() const { return sizes_; }

 private:
  std::map<int, std::int64_t> sizes_;
};

/// Writes data files of a save, one after the other. Each is synced when it is complete.
class Sink {
 public:
  /// Small slices are gathered into writes of this size: a system call for each slice would cost
  /// more than the copy.
  static constexpr std::int64_t gathered_bytes = std::int64_t{256} << 10;

  /// The draft outlives it. With `sizes` no file takes more space than it needs.
  explicit Sink(const Draft&, const FileSizes& sizes = {},
                std::int64_t gathered_bytes = Sink::gathered_bytes);

  /// Opens the entry's file if it is not open, and sets the entry's offset: an encoded piece begins
  /// where the last piece ends.
  void begin(StoredTensor& entry);
  /// Appends bytes, as they are in memory. `stay`: they do not change until the file is finished;
  /// then bytes that are not encoded are written in the background, and those on page boundaries
  /// without a copy.
  void append(std::span<const std::byte> bytes, bool stay = false);
  /// Sets what is known of the piece only now: the stored length of encoded bytes, and their
  /// checksum (except for strings, which have a checksum of another kind). Returns the checksum of
  /// the appended bytes.
  std::uint32_t end(StoredTensor& entry);
  void finish();

 private:
  void put(std::span<const std::byte> bytes, bool stay, bool padding = false);
  std::optional<std::uint32_t> put_block(std::span<const std::byte> bytes, bool stay);
  void write(std::span<const std::byte> bytes, bool stay);
  void write_gathered();
  void pass(std::int64_t bytes);
  bool encodes(const StoredTensor&) const;

  const Draft* draft_;
  const Encoding* layout_encodes_;     // null: nothing is encoded
  std::map<int, std::int64_t> sizes_;  // of the files, if known in advance
  commit::PartFile file_;
  int number_ = -1;
  std::int64_t end_ = 0;                        // of all bytes that were put
  std::unique_ptr<UnchangedBlocks> unchanged_;  // null: all bytes are written
  std::int64_t at_ = 0;                         // end of what was written or gathered
  std::vector<std::byte> gathered_;             // the last bytes, not written yet
  std::size_t most_gathered_;
  std::uint32_t crc_ = 0;  // of the bytes appended to the present piece
  FiniteCheck look_;       // for numbers in it that are not finite
  // How the present piece is encoded; null: it is not.
  const Encoding* encoding_ = nullptr;
  std::size_t item_ = 1;            // bytes of an element of the piece
  std::vector<std::byte> encoded_;  // a chunk of the piece
  std::uint32_t stored_crc_ = 0;
};

}  // namespace cairn
