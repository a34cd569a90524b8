#pragma once
/// Views of any rank for tests, which use their own operator() and not strides.
#include <gmock/gmock.h>

#include <cairn/error.hpp>
#include <cairn/kokkos.hpp>
#include <random>
#include <utility>
#include <vector>

namespace cairn::test {

using Exec = Kokkos::DefaultHostExecutionSpace;
using Space = Kokkos::HostSpace;

template <class T, int Rank>
struct PointerTo {
  using type = typename PointerTo<T, Rank - 1>::type*;
};
template <class T>
struct PointerTo<T, 0> {
  using type = T;
};
/// double*** for Rank 3
template <class T, int Rank>
using Data = typename PointerTo<T, Rank>::type;

template <class View, std::size_t... D>
typename View::reference_type element(const View& view, const Dims& at, std::index_sequence<D...>) {
  return view(static_cast<std::size_t>(at[D])...);
}
template <class View>
typename View::reference_type element(const View& view, const Dims& at) {
  return element(view, at, std::make_index_sequence<kokkos::rank_of<View>>());
}

/// Calls with each index of the box, row-major.
template <class Call>
void for_each_index(const Box& box, const Call& call) {
  const auto count = box.count();
  for (std::int64_t i = 0; i < count; ++i) {
    Dims at = box.start;
    std::int64_t rest = i;
    for (auto d = box.rank(); d-- > 0;) {
      at[d] += rest % box.extent[d];
      rest /= box.extent[d];
    }
    call(at, i);
  }
}

/// The whole box, an empty one, single elements, and random ones, the same in each run.
inline std::vector<Box> boxes_in(const Dims& extent) {
  std::vector<Box> boxes{Box::whole(extent)};
  if (extent.empty()) return boxes;
  std::mt19937 random(7);
  const auto below = [&random](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  for (int n = 0; n < 12; ++n) {
    Box box = Box::whole(extent);
    for (std::size_t d = 0; d < extent.size(); ++d) {
      if (extent[d] == 0) continue;
      box.start[d] = below(extent[d]);
      box.extent[d] = n == 0 ? 1 : 1 + below(extent[d] - box.start[d]);
    }
    if (n == 1) box.extent[0] = 0;
    boxes.push_back(box);
  }
  return boxes;
}

/// Values that tell their index: all different, and none is -1.
template <class View>
void number(const View& view) {
  using T = typename View::non_const_value_type;
  for_each_index(Box::whole(kokkos::extents(view)),
                 [&](const Dims& at, std::int64_t i) { element(view, at) = static_cast<T>(i); });
}

}  // namespace cairn::test
