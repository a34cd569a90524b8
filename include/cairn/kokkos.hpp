#pragma once
/// Kokkos Views as slices of a State. Link Cairn::kokkos; with CUDA or HIP call
/// cairn_kokkos_sources(TARGET) in CMake. Kokkos 3.4 to 5.x.
///
/// Views may have rank 0 to 8, LayoutRight, LayoutLeft or LayoutStride (subviews, so that halos
/// stay out), any memory space, managed or not. A View of const elements is for saving only. The
/// State keeps a copy of a View given by value, and with it the allocation: destroy both before
/// Kokkos::finalize. Give a View that is swapped or resized between saves by its address.
///
/// Copies are queued on one execution-space instance and end with a labelled fence of that
/// instance; nothing else is fenced. Without an instance, the default one of the View's execution
/// space is used: pass the instance that your kernels run on if it is another.
///
/// Asynchronous saves of Views that the host cannot reach keep their copy in pinned_memory(), which
/// is freed when Kokkos::finalize begins.
#include <Kokkos_Core.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "cairn/background.hpp"
#include "cairn/error.hpp"
#include "cairn/indexed.hpp"
#include "cairn/kokkos/compat.hpp"
#include "cairn/kokkos/followed_view.hpp"
#include "cairn/kokkos/pinned.hpp"
#include "cairn/kokkos/view_memory.hpp"
#include "cairn/state.hpp"

namespace cairn {

namespace kokkos {

/// The common part of the functions below. State::add throws the errors, with the key.
template <class View, class Make>
LocalTensor slice_of(const View& view, Dims global_shape, Dims start, const Make& make_memory) {
  using Layout = typename View::array_layout;
  using Value = typename View::non_const_value_type;
  static_assert(Element<Value>, "no DType is known for the View's elements: see cairn::dtype_of");
  static_assert(std::is_same_v<Layout, Kokkos::LayoutRight> ||
                    std::is_same_v<Layout, Kokkos::LayoutLeft> ||
                    std::is_same_v<Layout, Kokkos::LayoutStride>,
                "a View needs LayoutRight, LayoutLeft or LayoutStride");
  const auto extent = extents(view);
  LocalTensor tensor;
  tensor.dtype = dtype_of<Value>::value;
  tensor.device_type = device_type<typename View::memory_space>();
  try {
    if (start.size() != extent.size() || global_shape.size() != extent.size()) {
      throw Error(Code::invalid_argument,
                  "View '" + view.label() + "' of extent " + shape_text(extent) +
                      " is given as the slice at " + shape_text(start) + " of a tensor of shape " +
                      shape_text(global_shape),
                  "all three need the same number of dimensions");
    }
    tensor.shape = std::move(global_shape);
    tensor.slices.push_back({Box{std::move(start), extent}, nullptr});
    make_memory(tensor);
  } catch (const Error& error) {
    tensor.slices.clear();
    tensor.refused = std::make_shared<const Error>(error);
  }
  return tensor;
}

template <class View, class Exec>
LocalTensor followed(const View* view, bool is_whole, Dims global_shape, Dims start,
                     const Exec& exec) {
  return slice_of(*view, std::move(global_shape), std::move(start), [&](LocalTensor& tensor) {
    tensor.source = std::make_shared<FollowedView<View, Exec>>(view, is_whole, exec);
    tensor.source->refresh(tensor);
  });
}

}  // namespace kokkos

/// This rank's box of a global tensor: it begins at `start` and has the extents of `view`, which
/// holds its elements. global_shape and start have one entry per dimension of the View; State::add
/// throws what is wrong with them, with the key. Not collective. The state keeps the View of this
/// call: a program that swaps or resizes Views gives them by address, as below.
template <class Data, class... Properties, class Exec>
LocalTensor slice(const Kokkos::View<Data, Properties...>& view, Dims global_shape, Dims start,
                  const Exec& exec) {
  using View = Kokkos::View<Data, Properties...>;
  return kokkos::slice_of(
      view, std::move(global_shape), std::move(start), [&](LocalTensor& tensor) {
        tensor.slices[0].memory = std::make_shared<kokkos::ViewMemory<View, Exec>>(view, exec);
      });
}

template <class Data, class... Properties>
LocalTensor slice(const Kokkos::View<Data, Properties...>& view, Dims global_shape, Dims start) {
  using Exec = typename Kokkos::View<Data, Properties...>::execution_space;
  return slice(view, std::move(global_shape), std::move(start), Exec());
}

/// The same for the View at this address, looked at anew at each save and restore: after std::swap,
/// Kokkos::resize or an assignment it is the new View. The View must stay at its address as long as
/// the state is used; the state owns no part of its allocation. The box has the extents of the View
/// at that time; if start or shape change, and for subviews, give a function (each_time).
template <class Data, class... Properties, class Exec>
LocalTensor slice(const Kokkos::View<Data, Properties...>* view, Dims global_shape, Dims start,
                  const Exec& exec) {
  return kokkos::followed(view, false, std::move(global_shape), std::move(start), exec);
}

template <class Data, class... Properties>
LocalTensor slice(const Kokkos::View<Data, Properties...>* view, Dims global_shape, Dims start) {
  using Exec = typename Kokkos::View<Data, Properties...>::execution_space;
  return slice(view, std::move(global_shape), std::move(start), Exec());
}

/// The whole tensor on this rank, with the View's extents. If several ranks give it, they are
/// replicas, of which one is written.
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

/// The same for the View at this address, with the extents that it has at each save and restore.
template <class Data, class... Properties, class Exec>
LocalTensor whole(const Kokkos::View<Data, Properties...>* view, const Exec& exec) {
  auto shape = kokkos::extents(*view);
  Dims start(shape.size(), 0);
  return kokkos::followed(view, true, std::move(shape), std::move(start), exec);
}

template <class Data, class... Properties>
LocalTensor whole(const Kokkos::View<Data, Properties...>* view) {
  return whole(view, typename Kokkos::View<Data, Properties...>::execution_space());
}

/// Rows by global id (cairn/indexed.hpp) in a View whose first extent is the number of this rank's
/// ids: this View, or the View at this address at each save and restore. A restore does not resize
/// it. While rows move, a View that is not row-major in the host's memory has a copy there.
template <class Data, class... Properties>
LocalTensor indexed(Ids ids, const Kokkos::View<Data, Properties...>& rows) {
  return indexed(std::move(ids), whole(rows));
}
template <class Data, class... Properties>
LocalTensor indexed(Ids ids, const Kokkos::View<Data, Properties...>* rows) {
  return indexed(std::move(ids), whole(rows));
}

/// A View of integers of rank 1 as ids, in any memory.
template <class Data, class... Properties>
Ids ids(const Kokkos::View<Data, Properties...>& list, IdOptions options = {}) {
  return ids(whole(list), std::move(options));
}
template <class Data, class... Properties>
Ids ids(const Kokkos::View<Data, Properties...>* list, IdOptions options = {}) {
  return ids(whole(list), std::move(options));
}

/// For AsyncOptions::memory: host memory that Kokkos' device can copy to by itself; without a
/// device, page_memory(). States with Views in a device's memory use it by default.
inline std::shared_ptr<StagingMemory> pinned_memory() {
  if constexpr (std::is_same_v<kokkos::PinnedSpace, Kokkos::HostSpace>) {
    return page_memory();
  } else {
    return kokkos::SpaceMemory<kokkos::PinnedSpace>::instance();
  }
}

}  // namespace cairn
