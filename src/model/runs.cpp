#include "model/runs.hpp"

namespace cairn {

std::optional<std::int64_t> run_at(const Box& part, const Dims& extent) {
  std::size_t d = 0;
  while (d < part.rank() && part.extent[d] == 1) ++d;
  for (std::size_t e = d + 1; e < part.rank(); ++e) {
    if (part.extent[e] != extent[e]) return std::nullopt;
  }
  const auto strides = row_major_strides(extent);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < part.rank(); ++i) at += part.start[i] * strides[i];
  return at;
}

Dims index_at(std::int64_t position, const Dims& extent) {
  Dims index;
  for (const auto stride : row_major_strides(extent)) {
    index.push_back(position / stride);
    position %= stride;
  }
  return index;
}

}  // namespace cairn
