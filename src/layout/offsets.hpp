#pragma once
/// Where bytes lie in a data file. Only here, and in a few rooms that tests/house/check_tree.py
/// names, are offsets of pieces computed: so all writers and readers agree on them.
#include <algorithm>
#include <cstdint>

#include "cairn/contents.hpp"

namespace cairn {

/// Large slices begin on a page, so that whole pages are copied on the way to the disk and back;
/// the gap before such a slice reads as zeros.
constexpr std::int64_t page_bytes = 4096, aligned_from_bytes = std::int64_t{64} << 10;

constexpr std::int64_t next_page(std::int64_t offset) {
  return (offset + page_bytes - 1) / page_bytes * page_bytes;
}
/// Where a piece of so many bytes begins, if the piece before it ends at `end_of_last`.
constexpr std::int64_t entry_begin(std::int64_t end_of_last, std::int64_t bytes) {
  return bytes >= aligned_from_bytes ? next_page(end_of_last) : end_of_last;
}
/// The same for a piece whose size is known only when it is written.
constexpr std::int64_t entry_begin(std::int64_t end_of_last) { return end_of_last; }

/// Lays a piece, whose size is known, after the other pieces of its file. Returns where it ends.
inline std::int64_t lay_behind(std::int64_t end_of_last, Piece& piece) {
  piece.offset = entry_begin(end_of_last, piece.stored_bytes);
  return piece.offset + piece.stored_bytes;
}
/// Moves a piece, which was laid out from 0, into a range of its file that begins at `begin`.
inline void move_by(std::int64_t begin, Piece& piece) { piece.offset += begin; }
/// The offset in the file of a byte of the piece; `byte` counts from the piece's first.
inline std::int64_t place_of(const Piece& piece, std::int64_t byte) { return piece.offset + byte; }
inline std::int64_t end_of(const Piece& piece) { return piece.offset + piece.stored_bytes; }
/// The size of the piece in its file or, if that is more, decoded.
inline std::int64_t most_bytes(const Piece& piece) {
  return std::max(piece.stored_bytes, piece.raw_bytes);
}
/// Whether a file of this size has all of the piece. The piece's end may overflow, so it is not
/// computed.
inline bool lies_within(const Piece& piece, std::int64_t file_bytes) {
  return piece.offset <= file_bytes && piece.stored_bytes <= file_bytes - piece.offset;
}

}  // namespace cairn
