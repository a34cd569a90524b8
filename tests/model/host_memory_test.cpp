// Memory in any order, with gaps, compared with copies of each element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/text.hpp"
#include "cairn/dtype.hpp"
#include "cairn/state.hpp"
#include "model/runs.hpp"

namespace cairn {
namespace {

using Bytes = std::vector<std::byte>;

// The dimensions are in memory in any order, some with a gap after them, some backwards; for
// reading only, one element may serve for a whole dimension.
struct Strided {
  Dims extent, strides;
  std::int64_t first = 0, elements = 1;  // the place of index 0, 0, ...; size of the memory
};

class DrawnLayouts {
 public:
  explicit DrawnLayouts(unsigned seed) : random_(seed) {}
  std::int64_t upto(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most + 1));
  }
  Strided layout(bool repeats) {
    Strided one;
    const auto rank = static_cast<std::size_t>(upto(6));
    for (std::size_t d = 0; d < rank; ++d) {
      one.extent.push_back(1 + upto(rank > 4 ? 2 : upto(3) ? 5 : 20));
    }
    one.strides = Dims(rank);
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (upto(3)) std::shuffle(order.begin(), order.end(), random_);
    for (auto d = rank; d-- > 0;) {
      const auto dim = order[d];
      if (repeats && upto(2) == 0) continue;
      const auto step = one.elements * (upto(3) ? 1 : 2);
      one.elements = step * (one.extent[dim] + (upto(3) ? 0 : 1));
      const bool backwards = upto(7) == 0;
      one.strides[dim] = backwards ? -step : step;
      if (backwards) one.first += step * (one.extent[dim] - 1);
    }
    return one;
  }
  Box part_of(const Dims& shape) {
    Box box = Box::whole(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (upto(1)) continue;
      box.start[d] = upto(shape[d] - 1);
      box.extent[d] = 1 + upto(shape[d] - 1 - box.start[d]);
    }
    return box;
  }
  Bytes bytes(std::int64_t count) {
    Bytes all(static_cast<std::size_t>(count));
    for (auto& one : all) one = static_cast<std::byte>(random_());
    return all;
  }

 private:
  std::mt19937 random_;
};

void check(unsigned seed, bool repeats) {
  DrawnLayouts draw(seed);
  const auto layout = draw.layout(repeats);
  const auto part = draw.part_of(layout.extent);
  constexpr DType dtypes[]{DType::uint8, DType::int16, DType::float32, DType::float64,
                           DType::complex128};
  const auto dtype = dtypes[draw.upto(4)];
  const auto item = static_cast<std::int64_t>(dtype_size(dtype));
  auto memory = draw.bytes(layout.elements * item);
  const auto in = draw.bytes(part.count() * item);
  Bytes out(in.size()), expected_out = out;
  auto expected = memory;
  for (std::int64_t i = 0; i < part.count(); ++i) {
    const auto at = index_at(i, part.extent);
    auto place = layout.first;
    for (std::size_t d = 0; d < at.size(); ++d) {
      place += (part.start[d] + at[d]) * layout.strides[d];
    }
    const auto size = static_cast<std::size_t>(item);
    std::memcpy(expected_out.data() + i * item, memory.data() + place * item, size);
    std::memcpy(expected.data() + place * item, in.data() + i * item, size);
  }
  auto* const first = memory.data() + layout.first * item;
  const auto served = host_memory(dtype, first, first, layout.extent, layout.strides);
  const auto what = cat("seed ", seed, ", ", box_text(part), " of ", shape_text(layout.extent),
                        " with strides ", shape_text(layout.strides));
  served->read(part, out.data());
  ASSERT_EQ(out, expected_out) << what;
  if (repeats) return;  // nothing says which of the elements would stay
  served->write(part, in.data());
  ASSERT_EQ(memory, expected) << what;
}

TEST(HostMemory, ReadsAndWritesEachElementWhereItIs) {
  for (unsigned seed = 0; seed < 500; ++seed) ASSERT_NO_FATAL_FAILURE(check(seed, false));
}

TEST(HostMemory, ReadsElementsThatStandForMany) {
  for (unsigned seed = 0; seed < 300; ++seed) ASSERT_NO_FATAL_FAILURE(check(seed, true));
}

}  // namespace
}  // namespace cairn
