#pragma once
/// ScatterViews: what kernels have scattered into copies is contributed to the target View when a
/// save or restore refreshes the state, so that no save misses it and no restore leaves it behind.
/// A hook before saves would not do: a restore writes the target only, and the next contribution
/// would add what was left in the copies. There is no hook before a restore, and one that each
/// program has to remember is forgotten.
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

/// Afterwards the target has all of it, and the copies hold what changes no number.
template <class View, class Scatter>
void contribute(View target, Scatter scatter) {
  static_assert(IsScatterView<Scatter>::value, "the second argument is no ScatterView");
  Kokkos::Experimental::contribute(target, scatter);
  scatter.reset_except(target);
  fence(typename View::execution_space(), "cairn::scattered: fence after contributing");
}

}  // namespace kokkos

/// This rank's box of a global tensor, as of the View `target` (cairn/kokkos.hpp), into which
/// `scatter` contributes. Each save and restore, and State::add, contributes first what has been
/// scattered: so a save reads all of it, and what a restore writes is not added to later. The
/// program contributes as it did; what a save has contributed is not contributed again. Both
/// arguments share their memory with the program's own: meanwhile no kernel may scatter, and no
/// other thread save them. Additions happen in another order than in a run that does not save: the
/// last bits of sums of floating-point numbers may be others.
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

/// The same of the View and the ScatterView at these addresses, whichever they are at each save and
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
