#pragma once
/// An index that serves several saves, between which little but checksums changes. No I/O. Rank 0
/// keeps one from save to save (session/save/cached_merge.hpp).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/bundle/index.hpp"

namespace cairn::bundle {

/// Bytes in a data file.
struct Extent {
  std::int32_t file = 0;
  std::int64_t offset = 0, size = 0;
};

/// Keeps the entries of an index and, after the first write(), its bytes. A steady save then
/// replaces the checksums in these bytes, instead of encoding and sorting all entries again.
class CachedIndex {
 public:
  /// `pieces`: the places of all bytes that the entries refer to, in any order. Returns nothing if
  /// the bytes of an entry are not made of whole pieces, or a piece is not of exactly one entry.
  static std::optional<CachedIndex> of(std::vector<IndexEntry> entries,
                                       const std::vector<Extent>& pieces);

  /// Sets the checksums of all pieces, in the order in which the pieces were given.
  void put(std::vector<std::uint32_t> crc32c);
  std::size_t pieces() const { return pieces_; }

  /// Returns the bytes of the EncodedIndex of these entries and of `more`, plain entries of other
  /// keys. As long as num_files and the keys and lengths of `more` stay the same, it only replaces
  /// values and checksums in the bytes of the last call.
  const std::string& write(int num_files, std::vector<IndexEntry> more);

 private:
  // One piece of the bytes of an entry.
  struct Part {
    std::uint32_t piece;
    std::int64_t size;
  };
  // The place of a checksum.
  struct Checksum {
    std::uint32_t entry;
    bool of_slice;             // in IndexEntry::slices, else in its value
    std::size_t at;            // offset in that text
    std::uint32_t first_part;  // in parts_
    std::uint32_t parts;
    std::size_t in_text = 0;
  };
  // The index that was written last.
  struct Text {
    std::string bytes;
    int num_files = 0;
    std::vector<IndexEntry> more;
    std::vector<std::size_t> values_of_more;  // offsets of their values
    std::size_t block_bytes = 0;              // of the only data block
  };

  bool add(std::uint32_t entry, bool of_slice, std::string_view text, std::string_view value,
           const std::vector<Extent>& pieces, const std::vector<std::uint32_t>& ascending);
  std::uint32_t masked(const Checksum&) const;
  void write_anew(int num_files, std::vector<IndexEntry> more);
  bool find_in(Text&);  // whether all places were found

  std::vector<IndexEntry> entries_;  // ascending; checksums may be older ones
  std::vector<Checksum> checksums_;
  std::vector<Part> parts_;
  // How many pieces of() was given; as many checksums come with each put().
  std::size_t pieces_ = 0;
  std::vector<std::uint32_t> crc32c_;  // of the pieces
  std::optional<Text> text_;           // nothing if it cannot serve again
  std::string once_;                   // its bytes in that case
};

}  // namespace cairn::bundle
