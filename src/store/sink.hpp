#pragma once
/// Bytes on their way into the data files of a save: checksums and syncs are inside.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cairn/contents.hpp"
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

  /// Opens the entry's file if it is not open, and sets the offset.
  void begin(StoredTensor& entry);
  /// If the bytes stay as they are until the file is finished, they are written behind the caller's
  /// back, and those on page boundaries from where they are.
  void append(std::span<const std::byte> bytes, bool stay = false);
  /// Sets the checksum, but of strings, which have one of another kind. Returns that of the bytes.
  std::uint32_t end(StoredTensor& entry) const;
  void finish();

 private:
  void put(std::span<const std::byte> bytes, bool stay);
  void write_gathered();

  const Draft* draft_;
  std::map<int, std::int64_t> sizes_;  // of the files, if they are known
  commit::PartFile file_;
  int number_ = -1;
  std::int64_t end_ = 0;             // of all that was put
  std::vector<std::byte> gathered_;  // the last of it, not yet written
  std::size_t most_gathered_;
  std::uint32_t crc_ = 0;
};

}  // namespace cairn
