#include "model/runs.hpp"

namespace cairn {

std::optional<std::int64_t> run_at(const Box& part, const Dims& extent) {
  return run_in_box(part, Dims(part.rank()), extent);
}

// One run: after the first dimension in which the part has several indices, it is whole in all
// others.
std::optional<std::int64_t> run_in_box(const Box& part, const Dims& start, const Dims& extent) {
  std::size_t d = 0;
  while (d < part.rank() && part.extent[d] == 1) ++d;
  for (std::size_t e = d + 1; e < part.rank(); ++e) {
    if (part.extent[e] != extent[e]) return std::nullopt;
  }
  // Unsigned, as in row_major_strides(), since strides of a large shape may overflow.
  std::uint64_t at = 0, stride = 1;
  for (auto i = part.rank(); i-- > 0;) {
    at += static_cast<std::uint64_t>(part.start[i] - start[i]) * stride;
    stride *= static_cast<std::uint64_t>(extent[i]);
  }
  return static_cast<std::int64_t>(at);
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
