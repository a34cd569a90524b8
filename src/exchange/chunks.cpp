#include "exchange/chunks.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::plan {

// The cut runs along one dimension. In a chunk, the dimensions after it are whole, and those before
// it have one index each.
ChunkCut::ChunkCut(const Box& box, std::int64_t element_bytes, std::int64_t chunk_bytes,
                   std::int64_t align_bytes, bool equal)
    : box_(box) {
  if (element_bytes < 1 || chunk_bytes < 1) {
    throw Error(Code::internal,
                cat("chunks of ", chunk_bytes, " bytes were asked for, of elements of ",
                    element_bytes, " bytes"));
  }
  if (__builtin_mul_overflow(box.count(), element_bytes, &total_)) {
    throw Error(Code::invalid_argument, cat(box_text(box), " has 2^63 bytes or more"));
  }
  if (total_ == 0) return;
  // Dimensions from the last one on are whole as long as they fit a chunk together.
  row_ = element_bytes;  // bytes of one index along the dimension of the cut
  std::size_t cut = box.rank();
  while (cut > 0 && row_ <= chunk_bytes / box.extent[cut - 1]) row_ *= box.extent[--cut];
  whole_ = cut == 0;
  count_ = 1;
  if (whole_) return;
  dim_ = cut - 1;
  const auto most = std::max<std::int64_t>(chunk_bytes / row_, 1);
  // Indices are dealt to parts in units, of which the last may be shorter. So many rows are the
  // fewest whose bytes are a multiple of the alignment.
  unit_ = align_bytes / std::gcd(align_bytes, row_);
  if (unit_ > most) unit_ = 1;
  if (equal) {
    const auto parts = (box.extent[dim_] - 1) / most + 1;
    unit_ = (box.extent[dim_] - 1) / parts + 1;
  }
  units_ = (box.extent[dim_] - 1) / unit_ + 1;
  parts_ = (units_ - 1) / (most / unit_) + 1;
  count_ = parts_;
  for (std::size_t d = 0; d < dim_; ++d) count_ *= box.extent[d];
}

// The first units_ % parts_ parts take one unit more, so that none is much smaller than the others.
std::int64_t ChunkCut::first_of(std::int64_t part) const {
  return (part * (units_ / parts_) + std::min(part, units_ % parts_)) * unit_;
}

std::int64_t ChunkCut::part_of(std::int64_t index) const {
  const auto unit = index / unit_, few = units_ / parts_, extra = units_ % parts_;
  const auto in_larger = extra * (few + 1);
  return unit < in_larger ? unit / (few + 1) : extra + (unit - in_larger) / few;
}

// Numbers count the parts of the first index of the dimensions before the cut, then those of the
// next index, as offsets do.
Chunk ChunkCut::chunk(std::int64_t number) const {
  if (whole_) return {0, box_, 0, total_, 0};
  Chunk chunk{0, box_, 0, 0, 0};
  const auto part = number % parts_;
  auto outer = number / parts_;
  // `outer` numbers the indices of the dimensions before the cut, row-major.
  chunk.offset = outer * box_.extent[dim_] * row_;
  for (auto d = dim_; d > 0; --d) {
    chunk.box.start[d - 1] += outer % box_.extent[d - 1];
    chunk.box.extent[d - 1] = 1;
    outer /= box_.extent[d - 1];
  }
  const auto first = first_of(part);
  const auto end = std::min(first_of(part + 1), box_.extent[dim_]);
  chunk.box.start[dim_] += first;
  chunk.box.extent[dim_] = end - first;
  chunk.offset += first * row_;
  chunk.bytes = (end - first) * row_;
  return chunk;
}

void ChunkCut::each_in(const Box& box, const std::function<void(std::int64_t, Box)>& take) const {
  if (count_ == 0) return;
  const auto common = intersect(box_, box);
  if (!common || common->empty()) return;
  if (whole_) return take(0, *common);
  const auto low = common->start[dim_] - box_.start[dim_];
  const auto first = part_of(low), last = part_of(low + common->extent[dim_] - 1);
  Box at = *common;
  for (std::size_t d = 0; d < dim_; ++d) at.extent[d] = 1;
  // Goes through the indices of the common box in the dimensions before the cut, row-major, as an
  // odometer does.
  for (;;) {
    std::int64_t outer = 0;
    for (std::size_t d = 0; d < dim_; ++d) {
      outer = outer * box_.extent[d] + (at.start[d] - box_.start[d]);
    }
    for (auto part = first; part <= last; ++part) {
      Box piece = at;
      const auto begin = std::max(common->start[dim_], box_.start[dim_] + first_of(part));
      piece.extent[dim_] =
          std::min(common->end(dim_), box_.start[dim_] + first_of(part + 1)) - begin;
      piece.start[dim_] = begin;
      take(outer * parts_ + part, std::move(piece));
    }
    auto d = dim_;
    while (d > 0 && ++at.start[d - 1] == common->end(d - 1)) {
      at.start[d - 1] = common->start[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

std::vector<Chunk> cut_into_chunks(const Box& box, std::int64_t element_bytes,
                                   std::int64_t chunk_bytes, std::int64_t align_bytes) {
  const ChunkCut cut(box, element_bytes, chunk_bytes, align_bytes);
  std::vector<Chunk> chunks;
  chunks.reserve(static_cast<std::size_t>(cut.count()));
  for (std::int64_t i = 0; i < cut.count(); ++i) chunks.push_back(cut.chunk(i));
  return chunks;
}

}  // namespace cairn::plan
