#pragma once
/// Views of structs: elements without pointers that no DType describes. Their bytes are stored as
/// uint8 with one more dimension, whose extent is sizeof the element. The layout is this
/// compiler's: only programs with the same struct, padding included, can restore such a checkpoint.
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "cairn/kokkos.hpp"
#include "cairn/kokkos/kept.hpp"

namespace cairn {

namespace kokkos {

/// The bytes of a View's elements, in the order of their dimensions.
template <class View>
auto bytes_of(const View& view) {
  using Element = typename View::value_type;
  using Byte = std::conditional_t<std::is_const_v<Element>, const std::uint8_t, std::uint8_t>;
  constexpr auto rank = rank_of<View>;
  static_assert(std::is_trivially_copyable_v<Element> && !std::is_pointer_v<Element>,
                "elements are stored as bytes: they may hold no pointers and need no constructors");
  static_assert(rank < 8, "a View of opaque elements has 7 dimensions at most");
  constexpr auto size = static_cast<std::int64_t>(sizeof(Element));
  auto extent = extents(view);
  auto stride = strides(view);
  for (auto& one : stride) one *= size;
  extent.push_back(size);
  stride.push_back(1);
  return ViewAt<Byte, rank + 1, typename View::device_type>(reinterpret_cast<Byte*>(view.data()),
                                                            layout_of<rank + 1>(extent, stride));
}

}  // namespace kokkos

/// This rank's box of a tensor of structs, [global_shape..., sizeof]; global_shape and start are as
/// for slice() of a View.
template <class Data, class... Properties>
LocalTensor opaque(const Kokkos::View<Data, Properties...>& view, Dims global_shape, Dims start) {
  const auto bytes = kokkos::bytes_of(view);
  global_shape.push_back(static_cast<std::int64_t>(bytes.extent(bytes.rank - 1)));
  start.push_back(0);
  return kokkos::keeping(view, slice(bytes, std::move(global_shape), std::move(start)));
}

/// All of it on this rank.
template <class Data, class... Properties>
LocalTensor opaque(const Kokkos::View<Data, Properties...>& view) {
  auto shape = kokkos::extents(view);
  Dims start(shape.size(), 0);
  return opaque(view, std::move(shape), std::move(start));
}

/// The same for the View at this address, looked at anew at each save and restore.
template <class Data, class... Properties>
LocalTensor opaque(const Kokkos::View<Data, Properties...>* view, Dims global_shape, Dims start) {
  return each_time([=] { return opaque(*view, global_shape, start); });
}
template <class Data, class... Properties>
LocalTensor opaque(const Kokkos::View<Data, Properties...>* view) {
  return each_time([=] { return opaque(*view); });
}

}  // namespace cairn
