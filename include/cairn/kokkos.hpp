#pragma once
/// Kokkos Views as slices of a State. Link Cairn::kokkos; with CUDA or HIP call
/// cairn_kokkos_sources(TARGET) in CMake. Kokkos 3.4 to 5.x.
///
/// Views may have rank 0 to 8, LayoutRight, LayoutLeft or LayoutStride (subviews, so that halos
/// stay out), any memory space, managed or not. A View of const elements is for saving only. Of a
/// View given by value the State keeps a copy, and with it the allocation: let both go before
/// Kokkos::finalize. A View that is swapped or resized between saves is given by its address.
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

/// The common part of what is below: what is wrong is thrown by State::add, with the key.
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

/// This rank's box of a global tensor: `view` holds the elements from `start` on, its extents are
/// the box's. global_shape and start have one entry a dimension of the View: what is wrong with
/// them is thrown by State::add, with the key. Not collective. The View is the one that it is now:
/// a program that swaps or resizes Views gives them by reference, as below.
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

/// The same of the View at this address, whichever it is at each save and restore: after std::swap,
/// Kokkos::resize or an assignment the new one. It must stay at its address as long as the state is
/// used; the state owns no part of its allocation. The box's extents are the View's then; for
/// another start or shape, and for subviews, give a function (each_time).
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

/// The same of the View at this address, of the extents that it has at each save and restore.
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
/// ids: the View given, or the one at this address then. A restore does not resize it. Of a View
/// that is not row-major in the host's memory, a copy there is made while the rows move.
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
