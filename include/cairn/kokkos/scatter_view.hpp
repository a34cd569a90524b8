#pragma once
/// ScatterViews: when a save or restore refreshes the state, it contributes what kernels have
/// scattered into copies to the target View, so that no save misses it and no restore leaves it in
/// the copies. A hook before saves would not suffice: a restore writes the target only, and the
/// next contribution would add what was left in the copies. There is no hook before a restore, and
/// programs would forget to call a function of their own.
#include <Kokkos_Core.hpp>
#include <Kokkos_ScatterView.hpp>

#include <type_traits>
#include <utility>

#include "cairn/kokkos.hpp"

namespace cairn {

namespace kokkos {

template <class T>
struct IsScatterView : std::false_type {};
template <class... Parameters>
struct IsScatterView<Kokkos::Experimental::ScatterView<Parameters...>> : std::true_type {};

/// Afterwards the target has all contributions, and the copies hold the neutral value of the
/// operation.
template <class View, class Scatter>
void contribute(View target, Scatter scatter) {
  static_assert(IsScatterView<Scatter>::value, "the second argument is no ScatterView");
  Kokkos::Experimental::contribute(target, scatter);
  scatter.reset_except(target);
  fence(typename View::execution_space(), "cairn::scattered: fence after contributing");
}

}  // namespace kokkos

/// This rank's box of a global tensor, as for the View `target` (cairn/kokkos.hpp), into which
/// `scatter` contributes. Each save and restore, and State::add, first contributes what has been
/// scattered. So a save reads all contributions, and none is added later to what a restore wrote.
/// The program still contributes at the usual places; what a save has contributed is not
/// contributed again. Both arguments share their memory with the program's own objects: during such
/// a call no kernel may scatter, and no other thread may save them. Additions happen in another
/// order than in a run that does not save, so the last bits of floating-point sums may differ.
template <class Data, class... Properties, class Scatter>
LocalTensor scattered(const Kokkos::View<Data, Properties...>& target, const Scatter& scatter,
                      Dims global_shape, Dims start) {
  return each_time([=] {
    kokkos::contribute(target, scatter);
    return slice(target, global_shape, start);
  });
}

/// All of it on this rank.
template <class Data, class... Properties, class Scatter>
LocalTensor scattered(const Kokkos::View<Data, Properties...>& target, const Scatter& scatter) {
  auto shape = kokkos::extents(target);
  Dims start(shape.size(), 0);
  return scattered(target, scatter, std::move(shape), std::move(start));
}

/// The same for the View and the ScatterView at these addresses, looked at anew at each save and
/// restore.
template <class Data, class... Properties, class Scatter>
LocalTensor scattered(const Kokkos::View<Data, Properties...>* target, const Scatter* scatter,
                      Dims global_shape, Dims start) {
  return each_time([=] {
    kokkos::contribute(*target, *scatter);
    return slice(*target, global_shape, start);
  });
}
template <class Data, class... Properties, class Scatter>
LocalTensor scattered(const Kokkos::View<Data, Properties...>* target, const Scatter* scatter) {
  return each_time([=] {
    kokkos::contribute(*target, *scatter);
    return whole(*target);
  });
}

}  // namespace cairn
