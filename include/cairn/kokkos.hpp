#pragma once
/// Kokkos Views as slices of a State. Link Cairn::kokkos; with CUDA or HIP call
/// cairn_kokkos_sources(TARGET) in CMake. Kokkos 3.4 to 5.x.
///
/// Views may have rank 0 to 8, LayoutRight, LayoutLeft or LayoutStride (subviews, so that halos
/// stay out), any memory space, managed or not. A View of const elements is for saving only. The
/// State keeps a copy of the View and with it the allocation: let both go before Kokkos::finalize.
///
/// Copies are queued on one execution-space instance and end with a labelled fence of that
/// instance; nothing else is fenced. Without an instance it is the default one of the View's
/// execution space: pass the instance that your kernels run on if it is another.
///
/// Asynchronous saves of Views that the host cannot reach keep their copy in pinned_memory(), which
/// goes when Kokkos::finalize begins.
#include <Kokkos_Core.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"
#include "cairn/kokkos/pinned.hpp"
#include "cairn/kokkos/view_memory.hpp"
#include "cairn/staging.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// This rank's box of a global tensor: `view` holds the elements from `start` on, its extents are
/// the box's. global_shape and start have one entry a dimension of the View. Not collective. Throws
/// invalid_argument when they have not. That the box lies inside the shape is for State::add.
template <class Data, class... Properties, class Exec>
LocalTensor slice(const Kokkos::View<Data, Properties...>& view, Dims global_shape, Dims start,
                  const Exec& exec) {
  using View = Kokkos::View<Data, Properties...>;
  using Layout = typename View::array_layout;
  using Value = typename View::non_const_value_type;
  static_assert(Element<Value>, "no DType is known for the View's elements: see cairn::dtype_of");
  static_assert(std::is_same_v<Layout, Kokkos::LayoutRight> ||
                    std::is_same_v<Layout, Kokkos::LayoutLeft> ||
                    std::is_same_v<Layout, Kokkos::LayoutStride>,
                "a View needs LayoutRight, LayoutLeft or LayoutStride");
  const auto extent = kokkos::extents(view);
  if (start.size() != extent.size() || global_shape.size() != extent.size()) {
    throw Error(Code::invalid_argument,
                "View '" + view.label() + "' of extent " + shape_text(extent) +
                    " is given as the slice at " + shape_text(start) + " of a tensor of shape " +
                    shape_text(global_shape),
                "all three need the same number of dimensions");
  }
  LocalTensor tensor;
  tensor.dtype = dtype_of<Value>::value;
  tensor.shape = std::move(global_shape);
  tensor.slices.push_back({Box{std::move(start), extent},
                           std::make_shared<kokkos::ViewMemory<View, Exec>>(view, exec)});
  tensor.device_type = kokkos::device_type<typename View::memory_space>();
  return tensor;
}

template <class Data, class... Properties>
LocalTensor slice(const Kokkos::View<Data, Properties...>& view, Dims global_shape, Dims start) {
  using Exec = typename Kokkos::View<Data, Properties...>::execution_space;
  return slice(view, std::move(global_shape), std::move(start), Exec());
}

/// The whole tensor on this rank, of the View's extents. On several ranks: replicas, of which one
/// is written.
template <class Data, class... Properties, class Exec>
LocalTensor whole(const Kokkos::View<Data, Properties...>& view, const Exec& exec) {
  auto shape = kokkos::extents(view);
  Dims start(shape.size(), 0);
  return slice(view, std::move(shape), std::move(start), exec);
}

template <class Data, class... Properties>
LocalTensor whole(const Kokkos::View<Data, Properties...>& view) {
  return whole(view, typename Kokkos::View<Data, Properties...>::execution_space());
}

/// For AsyncOptions::memory: host memory that Kokkos' device copies to by itself, page_memory()
/// where there is no device. States with Views in a device's memory use it unasked.
inline std::shared_ptr<StagingMemory> pinned_memory() {
  if constexpr (std::is_same_v<kokkos::PinnedSpace, Kokkos::HostSpace>) {
    return page_memory();
  } else {
    return kokkos::SpaceMemory<kokkos::PinnedSpace>::instance();
  }
}

}  // namespace cairn
