// A View with halos: the owned part goes to a state, and comes out of it element by element.
#include <cairn/kokkos.hpp>

#include <cstdio>
#include <utility>
#include <vector>

struct Fill {
  Kokkos::View<double**> view;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (int j = 0; j < static_cast<int>(view.extent(1)); ++j) view(i, j) = 10.0 * i + j;
  }
};

int main(int argc, char** argv) {
  Kokkos::initialize(argc, argv);
  int status = 0;
  {
    Kokkos::View<double**> field("field", 6, 5);
    Kokkos::parallel_for("fill", Kokkos::RangePolicy<>(0, 6), Fill{field});
    const auto owned = Kokkos::subview(field, std::make_pair(1, 5), std::make_pair(1, 4));
    cairn::State state;
    state.add("u", cairn::slice(owned, {4, 3}, {0, 0}));
    std::vector<double> seen(12);
    state.find("u")->slices[0].memory->read(cairn::Box::whole({4, 3}),
                                            reinterpret_cast<std::byte*>(seen.data()));
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j)
        if (seen[3 * i + j] != 10.0 * (i + 1) + j + 1) status = 1;
  }
  Kokkos::finalize();
  if (status == 0) std::puts("kokkos works");
  return status;
}
