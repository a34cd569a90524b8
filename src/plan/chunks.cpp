#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "plan/exchange.hpp"

namespace cairn::plan {

std::vector<Chunk> cut_into_chunks(const Box& box, std::int64_t element_bytes,
                                   std::int64_t chunk_bytes, std::int64_t align_bytes) {
  if (element_bytes < 1 || chunk_bytes < 1) {
    throw Error(Code::internal,
                cat("chunks of ", chunk_bytes, " bytes were asked for, of elements of ",
                    element_bytes, " bytes"));
  }
  std::int64_t total;
  if (__builtin_mul_overflow(box.count(), element_bytes, &total)) {
    throw Error(Code::invalid_argument, cat(box_text(box), " has 2^63 bytes or more"));
  }
  if (total == 0) return {};

  // The cut runs along one dimension: those after it are whole, those before it one index each.
  std::int64_t row = element_bytes;  // bytes of one index along the dimension of the cut
  std::size_t cut = box.rank();
  while (cut > 0 && row <= chunk_bytes / box.extent[cut - 1]) row *= box.extent[--cut];
  if (cut == 0) return {Chunk{0, box, 0, total, 0}};
  const auto dim = cut - 1;
  const auto most = std::max<std::int64_t>(chunk_bytes / row, 1);
  // Indices are dealt out in units, the last of which may be shorter.
  auto unit = align_bytes / std::gcd(align_bytes, row);
  if (unit > most) unit = 1;
  const auto units = (box.extent[dim] - 1) / unit + 1;
  const auto parts = (units - 1) / (most / unit) + 1;

  std::vector<Chunk> chunks;
  Box at = box;
  for (std::size_t d = 0; d < dim; ++d) at.extent[d] = 1;
  std::int64_t offset = 0;
  for (;;) {
    for (std::int64_t part = 0; part < parts; ++part) {
      // The first `extra` parts take one unit more, so that none is much smaller than the others.
      const auto extra = units % parts;
      const auto first = (part * (units / parts) + std::min(part, extra)) * unit;
      const auto length = (units / parts + (part < extra ? 1 : 0)) * unit;
      at.start[dim] = box.start[dim] + first;
      at.extent[dim] = std::min(length, box.extent[dim] - first);
      const auto bytes = at.extent[dim] * row;
      chunks.push_back({0, at, offset, bytes, 0});
      offset += bytes;
    }
    auto d = dim;
    while (d > 0 && ++at.start[d - 1] == box.end(d - 1)) {
      at.start[d - 1] = box.start[d - 1];
      --d;
    }
    if (d == 0) return chunks;
  }
}

}  // namespace cairn::plan
