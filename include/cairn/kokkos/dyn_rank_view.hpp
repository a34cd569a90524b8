#pragma once
/// DynRankViews, which have 0 to 7 dimensions: the number is chosen when they are made.
#include <Kokkos_Core.hpp>
#include <Kokkos_DynRankView.hpp>

#include <cstdint>
#include <utility>

#include "cairn/kokkos.hpp"
#include "cairn/kokkos/kept.hpp"

namespace cairn {

namespace kokkos {

template <class View>
Dims extents_now(const View& view) {
  Dims out;
  for (std::size_t d = 0; d < std::size_t(view.rank()); ++d) {
    out.push_back(static_cast<std::int64_t>(view.extent(d)));
  }
  return out;
}

/// Calls `use` with a View of the same elements that has the DynRankView's number of dimensions.
template <std::size_t Rank = 0, class View, class Use>
LocalTensor with_rank(const View& view, const Use& use) {
  if constexpr (Rank < 7) {
    if (std::size_t(view.rank()) > Rank) return with_rank<Rank + 1>(view, use);
  }
  std::size_t stride[9] = {};
  view.stride(stride);
  Dims strides(Rank);
  for (std::size_t d = 0; d < strides.size(); ++d) {
    strides[d] = static_cast<std::int64_t>(stride[d]);
  }
  return use(ViewAt<typename View::value_type, Rank, typename View::device_type>(
      view.data(), layout_of<Rank>(extents_now(view), strides)));
}

}  // namespace kokkos

/// This rank's box of a global tensor, as for a View (cairn/kokkos.hpp): global_shape and start
/// have as many entries as the DynRankView has dimensions now.
template <class Data, class... Properties>
LocalTensor slice(const Kokkos::DynRankView<Data, Properties...>& view, Dims global_shape,
                  Dims start) {
  return kokkos::with_rank(view, [&](const auto& same) {
    return kokkos::keeping(view, slice(same, global_shape, start));
  });
}

/// All of it on this rank.
template <class Data, class... Properties>
LocalTensor whole(const Kokkos::DynRankView<Data, Properties...>& view) {
  auto shape = kokkos::extents_now(view);
  Dims start(shape.size(), 0);
  return slice(view, std::move(shape), std::move(start));
}

/// The same for the DynRankView at this address, looked at anew at each save and restore, with the
/// number of dimensions that it has then.
template <class Data, class... Properties>
LocalTensor slice(const Kokkos::DynRankView<Data, Properties...>* view, Dims global_shape,
                  Dims start) {
  return each_time([=] { return slice(*view, global_shape, start); });
}
template <class Data, class... Properties>
LocalTensor whole(const Kokkos::DynRankView<Data, Properties...>* view) {
  return each_time([=] { return whole(*view); });
}

}  // namespace cairn
