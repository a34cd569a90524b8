#pragma once
/// Cuts a box into chunks, without a list of them.
#include <cstdint>
#include <functional>
#include <span>

#include "exchange/exchange.hpp"

namespace cairn::plan {

/// The chunks of cut_into_chunks, by number. Throws the same errors. A chunk is always a box: if
/// only thousands of rows together make up whole pages, rows are cut without regard to pages.
class ChunkCut {
 public:
  ChunkCut() = default;
  /// `equal`: all chunks but the last ones along the cut are equal, without regard to alignment.
  ChunkCut(const Box& box, std::int64_t element_bytes, std::int64_t chunk_bytes,
           std::int64_t align_bytes = 1, bool equal = false);

  std::int64_t count() const { return count_; }
  Chunk chunk(std::int64_t number) const;
  /// Calls take(number, common) for each chunk that has elements of this box, ascending. The time
  /// depends on the number of these chunks only.
  void each_in(const Box& box, const std::function<void(std::int64_t, Box)>& take) const;

 private:
  std::int64_t part_of(std::int64_t index) const;  // the part of an index along the cut
  std::int64_t first_of(std::int64_t part) const;  // a part's first index, from the box's start

  Box box_;
  std::size_t dim_ = 0;  // of the cut; those before it have one index each
  bool whole_ = false;   // the box is one chunk
  // Bytes of one index along the cut; indices of a unit, which is never cut; units along the cut;
  // parts into which they are dealt; chunks, which is the parts times the indices of the dimensions
  // before; bytes of the box.
  std::int64_t row_ = 1, unit_ = 1, units_ = 0, parts_ = 0, count_ = 0, total_ = 0;
};

}  // namespace cairn::plan
