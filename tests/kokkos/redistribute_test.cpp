// Redistributions between Views of different layouts.
#include <cairn/redistribute.hpp>

#include "kokkos/views.hpp"
#include "testing/threads.hpp"

namespace cairn::test {
namespace {

using ::testing::HasSubstr;

template <class View>
void number_all(const View& view, const Dims& start, const Dims& shape) {
  for_each_index(Box::whole(kokkos::extents(view)), [&](const Dims& at, std::int64_t) {
    double value = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      value = value * static_cast<double>(shape[d]) + static_cast<double>(start[d] + at[d]);
    }
    element(view, at) = value;
  });
}

template <class View>
void expect_all(const View& view, const Dims& start, const Dims& shape) {
  for_each_index(Box::whole(kokkos::extents(view)), [&](const Dims& at, std::int64_t) {
    double value = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      value = value * static_cast<double>(shape[d]) + static_cast<double>(start[d] + at[d]);
    }
    ASSERT_EQ(element(view, at), value) << shape_text(at);
  });
}

// Blocks of rows, which become blocks of columns.
template <class From, class To, class Take>
void rows_to_columns(const std::shared_ptr<Group>& group, const Take& inside) {
  const std::int64_t ranks = group->size(), rank = group->rank();
  const Dims shape{3 * ranks, 2 * ranks, 5}, from_start{3 * rank, 0, 0}, to_start{0, 2 * rank, 0};
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  From given("given", 3 + 2, size(2 * ranks) + 2, 5 + 2);
  To got("got", size(3 * ranks) + 2, 2 + 2, 5 + 2);
  Kokkos::deep_copy(got, -1.0);
  number_all(inside(given), from_start, shape);
  State from, to;
  from.add("u", [&] { return slice(inside(given), shape, from_start); });
  to.add("u", [&] { return slice(inside(got), shape, to_start); });
  Redistribution plan(group, from, to, {.chunk_bytes = 4096});
  plan.run();
  expect_all(inside(got), to_start, shape);
  EXPECT_EQ(got(0, 1, 1), -1.0) << "a halo was written";
  // Into the other View, which has its own layout, and back.
  Kokkos::deep_copy(given, -2.0);
  State back;
  back.add("u", [&] { return slice(inside(given), shape, from_start); });
  redistribute(group, to, back);
  expect_all(inside(given), from_start, shape);
  EXPECT_EQ(given(0, 1, 1), -2.0) << "a halo was written";
}

TEST(RedistributeViews, OfOtherLayouts) {
  using Right = Kokkos::View<double***, Kokkos::LayoutRight, Space>;
  using Left = Kokkos::View<double***, Kokkos::LayoutLeft, Space>;
  const auto inside = [](const auto& view) {
    const auto within = [&](int d) {
      return std::pair<std::size_t, std::size_t>(1, view.extent(d) - 1);
    };
    return Kokkos::subview(view, within(0), within(1), within(2));
  };
  for (const int ranks : {1, 2, 3}) {
    // One rank at a time: Kokkos may not be used by several threads at once.
    run_threads(ranks,
                [&](std::shared_ptr<Group> group) {
                  rows_to_columns<Right, Left>(group, inside);
                  rows_to_columns<Left, Right>(group, inside);
                  rows_to_columns<Left, Left>(group, inside);
                },
                {.seed = 1});
  }
}

TEST(RedistributeViews, WhereTheyLieIsKnown) {
  using View = Kokkos::View<double**, Kokkos::LayoutLeft, Space>;
  View both("both", 4, 6);
  const auto given = Kokkos::subview(both, Kokkos::ALL, std::pair(0, 3));
  const auto beside = Kokkos::subview(both, Kokkos::ALL, std::pair(3, 6));
  const auto across = Kokkos::subview(both, Kokkos::ALL, std::pair(2, 5));
  const auto try_into = [&](const auto& view) {
    State from, to;
    from.add("u", slice(given, {4, 3}, {0, 0}));
    to.add("u", slice(view, {4, 3}, {0, 0}));
    redistribute(serial_group(), from, to);
  };
  number_all(given, {0, 0}, {4, 3});
  try_into(beside);
  expect_all(beside, {0, 0}, {4, 3});
  EXPECT_THAT([&] { try_into(across); }, ::testing::ThrowsMessage<Error>(HasSubstr("tensor 'u'")));
  // In the same memory, and transposed there.
  const Kokkos::View<double**, Kokkos::LayoutRight, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      transposed(both.data(), 4, 3);
  EXPECT_THAT([&] { try_into(transposed); },
              ::testing::ThrowsMessage<Error>(HasSubstr("tensor 'u'")));
  try_into(given);
  // The footprint of a View that the host cannot reach.
  const kokkos::StagedViewMemory<View, Exec> staged(both, Exec());
  const auto where = staged.footprint();
  EXPECT_EQ(where.first, reinterpret_cast<const std::byte*>(both.data()));
  EXPECT_EQ(where.strides, (Dims{8, 32}));
  EXPECT_EQ(where.element_bytes, 8);
}

}  // namespace
}  // namespace cairn::test
