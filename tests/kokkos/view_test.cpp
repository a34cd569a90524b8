#include "kokkos/views.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Reads each box and compares it with the View's own elements.
template <class View>
void check_read(const View& view, const SliceMemory& memory) {
  using T = typename View::non_const_value_type;
  for (const auto& box : boxes_in(kokkos::extents(view))) {
    SCOPED_TRACE(box_text(box));
    const auto count = static_cast<std::size_t>(box.count());
    std::vector<T> out(count + 1, static_cast<T>(-7));
    memory.read(box, reinterpret_cast<std::byte*>(out.data()));
    for_each_index(box, [&](const Dims& at, std::int64_t i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)], element(view, at)) << shape_text(at);
    });
    EXPECT_EQ(out[count], static_cast<T>(-7)) << "written beyond the box";
  }
}

// Writes each box and compares the whole View: the box has the new values, the rest is unchanged.
template <class View>
void check_write(const View& view, SliceMemory& memory) {
  using T = typename View::non_const_value_type;
  const auto everything = Box::whole(kokkos::extents(view));
  for (const auto& box : boxes_in(everything.extent)) {
    SCOPED_TRACE(box_text(box));
    for_each_index(everything,
                   [&](const Dims& at, std::int64_t) { element(view, at) = static_cast<T>(-1); });
    std::vector<T> in;
    for (std::int64_t i = 0; i < box.count(); ++i) in.push_back(static_cast<T>(i));
    memory.write(box, reinterpret_cast<const std::byte*>(in.data()));
    std::int64_t written = 0;
    for_each_index(everything, [&](const Dims& at, std::int64_t) {
      const bool inside = box.contains({at, Dims(at.size(), 1)});
      const T expected = inside ? in[static_cast<std::size_t>(written++)] : static_cast<T>(-1);
      ASSERT_EQ(element(view, at), expected) << shape_text(at);
    });
    EXPECT_EQ(written, box.count());
  }
}

// Both ways into a View: in place, and staged as if the host could not reach it, in one piece and
// in pieces of few elements.
template <class View>
void check(const View& view) {
  using T = typename View::non_const_value_type;
  const Exec exec;
  kokkos::HostViewMemory<View, Exec> in_place(view, exec);
  kokkos::StagedViewMemory<View, Exec> staged(view, exec), in_pieces(view, exec, 5 * sizeof(T));
  SliceMemory* memories[] = {&in_place, &staged, &in_pieces};
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i == 0 ? "in place" : i == 1 ? "staged" : "staged in pieces");
    number(view);
    check_read(view, *memories[i]);
    check_write(view, *memories[i]);
    EXPECT_TRUE(memories[i]->writable());
  }
}

const Dims sizes{4, 3, 5, 2, 3, 2, 2, 3};

template <class Layout, std::size_t Rank, std::size_t... D>
Layout layout(std::int64_t halo, std::index_sequence<D...>) {
  return Layout(static_cast<std::size_t>(sizes[D] + 2 * halo)...);
}

template <class Layout, int Rank>
Kokkos::View<Data<double, Rank>, Layout, Space> make_view(std::int64_t halo = 0) {
  return Kokkos::View<Data<double, Rank>, Layout, Space>(
      "view", layout<Layout, Rank>(halo, std::make_index_sequence<Rank>()));
}

template <class View, std::size_t... D>
auto without_halo(const View& view, std::index_sequence<D...>) {
  return Kokkos::subview(
      view, Kokkos::pair<std::size_t, std::size_t>(1, static_cast<std::size_t>(sizes[D] + 1))...);
}

template <class Layout, int Rank>
void check_layout() {
  check(make_view<Layout, Rank>());
}

template <class Layout, int Rank>
void check_subview() {
  const auto halo = make_view<Layout, Rank>(1);
  const auto inner = without_halo(halo, std::make_index_sequence<Rank>());
  static_assert(kokkos::rank_of<decltype(inner)> == Rank);
  Kokkos::deep_copy(halo, -99.0);
  check(inner);
  // The margin around the subview is unchanged.
  const Box owned{Dims(Rank, 1), Dims(sizes.begin(), sizes.begin() + Rank)};
  for_each_index(Box::whole(kokkos::extents(halo)), [&](const Dims& at, std::int64_t) {
    if (!owned.contains({at, Dims(at.size(), 1)})) {
      ASSERT_EQ(element(halo, at), -99.0) << shape_text(at);
    }
  });
}

template <int Rank>
struct Of {
  static constexpr int rank = Rank;
};
template <class R>
class Views : public ::testing::Test {};
using Ranks = ::testing::Types<Of<1>, Of<2>, Of<3>, Of<4>, Of<5>, Of<6>, Of<7>, Of<8>>;
TYPED_TEST_SUITE(Views, Ranks);

TYPED_TEST(Views, LayoutRight) { check_layout<Kokkos::LayoutRight, TypeParam::rank>(); }
TYPED_TEST(Views, LayoutLeft) { check_layout<Kokkos::LayoutLeft, TypeParam::rank>(); }
TYPED_TEST(Views, SubviewOfLayoutRight) { check_subview<Kokkos::LayoutRight, TypeParam::rank>(); }
TYPED_TEST(Views, SubviewOfLayoutLeft) { check_subview<Kokkos::LayoutLeft, TypeParam::rank>(); }

// Each dimension has its own stride, in any order, with gaps.
TYPED_TEST(Views, LayoutStride) {
  constexpr int rank = TypeParam::rank;
  Kokkos::LayoutStride strided;
  std::size_t step = 2;
  for (int n = 0; n < rank; ++n) {
    const int slot = n % 2 == 0 ? n / 2 : rank - 1 - n / 2;
    strided.dimension[slot] = static_cast<std::size_t>(sizes[static_cast<std::size_t>(slot)]);
    strided.stride[slot] = step;
    step = step * strided.dimension[slot] + 1;
  }
  std::vector<double> buffer(step, -99.0);
  const Kokkos::View<Data<double, rank>, Kokkos::LayoutStride, Space,
                     Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      view(buffer.data(), strided);
  check(view);
  const auto gaps = std::count(buffer.begin(), buffer.end(), -99.0);
  EXPECT_EQ(gaps, static_cast<std::ptrdiff_t>(buffer.size() - view.size()));
}

TEST(View, RankZero) { check(make_view<Kokkos::LayoutRight, 0>()); }

TEST(View, StaticExtents) {
  check(Kokkos::View<int* [3][2], Kokkos::LayoutLeft, Space>("view", 5));
  check(Kokkos::View<short[4], Space>("view"));
}

TEST(View, RankReducingSubviews) {
  const auto view = make_view<Kokkos::LayoutLeft, 4>();
  check(Kokkos::subview(view, Kokkos::ALL(), 1, Kokkos::make_pair(1, 4), 0));
  check(Kokkos::subview(view, 2, Kokkos::ALL(), Kokkos::ALL(), 1));
  check(Kokkos::subview(view, 3, 2, Kokkos::ALL(), 1));
  check(Kokkos::subview(view, 3, 2, 1, 0));
}

TEST(View, AtomicAndUnmanagedTraits) {
  std::vector<float> buffer(12);
  check(Kokkos::View<float**, Kokkos::LayoutLeft, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
      buffer.data(), 3, 4));
  const Kokkos::View<int**, Kokkos::LayoutRight, Space> plain("view", 3, 4);
  number(plain);
  const Kokkos::View<int**, Kokkos::LayoutRight, Space, Kokkos::MemoryTraits<Kokkos::Atomic>>
      atomic(plain);
  check_read(plain, *whole(atomic).slices[0].memory);
}

TEST(View, EmptyOnesMoveNothing) {
  const Kokkos::View<double**, Kokkos::LayoutLeft, Space> none("none", 0, 5), unset;
  for (const auto& view : {none, unset}) {
    const Exec exec;
    check(view);
    auto tensor = slice(view, {7, 5}, {7, 0}, exec);
    tensor.slices[0].memory->read(tensor.slices[0].box.relative_to({7, 0}), nullptr);
    tensor.slices[0].memory->write(tensor.slices[0].box.relative_to({7, 0}), nullptr);
    kokkos::StagedViewMemory<Kokkos::View<double**, Kokkos::LayoutLeft, Space>, Exec> staged(view,
                                                                                             exec);
    staged.read(Box::whole(kokkos::extents(view)), nullptr);
    staged.write(Box::whole(kokkos::extents(view)), nullptr);
  }
}

TEST(View, ConstOnesAreForSavingOnly) {
  const auto view = make_view<Kokkos::LayoutLeft, 2>();
  number(view);
  const Kokkos::View<const double**, Kokkos::LayoutLeft, Space> constant(view);
  const auto tensor = whole(constant);
  auto& memory = *tensor.slices[0].memory;
  check_read(view, memory);
  EXPECT_FALSE(memory.writable());
  EXPECT_EQ(memory.contiguous_writable(), nullptr);
  std::byte bytes[8]{};
  EXPECT_THAT(
      [&] {
        memory.write({{0, 0}, {1, 1}}, bytes);
      },
      ThrowsMessage<Error>(HasSubstr("const")));
  kokkos::StagedViewMemory<Kokkos::View<const double**, Kokkos::LayoutLeft, Space>, Exec> staged(
      constant, Exec());
  check_read(view, staged);
  EXPECT_FALSE(staged.writable());
  EXPECT_THAT(
      [&] {
        staged.write({{0, 0}, {1, 1}}, bytes);
      },
      ThrowsMessage<Error>(test::Says("const View (it was given for saving only)")));
}

TEST(View, ContiguousOnesLendTheirAddress) {
  const auto right = make_view<Kokkos::LayoutRight, 3>();
  const auto left = make_view<Kokkos::LayoutLeft, 3>();
  const auto line = make_view<Kokkos::LayoutLeft, 1>();
  const auto rows = Kokkos::subview(right, Kokkos::make_pair(1, 3), Kokkos::ALL(), Kokkos::ALL());
  const auto address = [](const auto& view) {
    return reinterpret_cast<const double*>(whole(view).slices[0].memory->contiguous());
  };
  EXPECT_EQ(address(right), right.data());
  EXPECT_EQ(address(left), nullptr);
  EXPECT_EQ(address(line), line.data());
  EXPECT_EQ(address(rows), right.data() + 15);
  EXPECT_EQ(reinterpret_cast<double*>(whole(right).slices[0].memory->contiguous_writable()),
            right.data());
}

TEST(Slice, TakesTheBoxFromTheView) {
  const auto view = make_view<Kokkos::LayoutRight, 2>();
  State state;
  state.add("u", slice(view, {10, 20}, {6, 17}));
  state.add("all", whole(view, Exec()));
  const auto& u = *state.find("u");
  EXPECT_EQ(u.dtype, DType::float64);
  EXPECT_EQ(u.shape, (Dims{10, 20}));
  EXPECT_EQ(u.slices.at(0).box, (Box{{6, 17}, {4, 3}}));
  EXPECT_EQ(u.device_type, "CPU");
  EXPECT_EQ(state.find("all")->slices.at(0).box, Box::whole({4, 3}));
  EXPECT_THAT(
      [&] {
        state.add("v", slice(view, {10, 20}, {7, 17}));
      },
      ThrowsMessage<Error>(test::Says("is outside of it")));
  EXPECT_THAT(
      [&] {
        state.add("v", slice(view, {10}, {0, 0}));
      },
      ThrowsMessage<Error>(test::Says("tensor 'v': View 'view' of extent [4 3]")));
  EXPECT_THAT(
      [&] {
        state.add("v", slice(view, {10, 20}, {0}, Exec()));
      },
      ThrowsMessage<Error>(test::Says("same number of dimensions")));
}

TEST(Slice, KeepsTheAllocation) {
  auto view = make_view<Kokkos::LayoutLeft, 2>();
  number(view);
  EXPECT_EQ(view.use_count(), 1);
  auto tensor = whole(view);
  EXPECT_GE(view.use_count(), 2);
  view = {};
  double out = 0;
  tensor.slices[0].memory->read({{3, 2}, {1, 1}}, reinterpret_cast<std::byte*>(&out));
  EXPECT_EQ(out, 11);
}

TEST(Slice, MovesBytesAtAnyAddress) {
  const auto view = make_view<Kokkos::LayoutLeft, 2>();
  number(view);
  kokkos::StagedViewMemory<Kokkos::View<double**, Kokkos::LayoutLeft, Space>, Exec> staged(view,
                                                                                           Exec());
  const auto tensor = whole(view);
  for (SliceMemory* memory : {tensor.slices[0].memory.get(), static_cast<SliceMemory*>(&staged)}) {
    std::vector<std::byte> out(12 * sizeof(double) + 1);
    memory->read(Box::whole({4, 3}), out.data() + 1);
    double last = 0;
    std::memcpy(&last, out.data() + 1 + 11 * sizeof(double), sizeof(double));
    EXPECT_EQ(last, 11);
    memory->write(Box::whole({4, 3}), out.data() + 1);
    EXPECT_EQ(view(1, 2), 5);
  }
}

// In the memory of the default device: uses whole(), as programs do.
TEST(Device, ViewsAndSubviewsReadAndWrite) {
  using Device = Kokkos::DefaultExecutionSpace;
  const Kokkos::View<double**, Device> view("view", 6, 7);
  const auto host = Kokkos::create_mirror_view(view);
  number(host);
  Kokkos::deep_copy(view, host);
  const Kokkos::pair<int, int> rows(1, 5), columns(2, 6);
  const auto inner = Kokkos::subview(view, rows, columns);
  const auto host_inner = Kokkos::subview(host, rows, columns);
  const Device device;
  const auto all = whole(view, device), part = whole(inner, device);
  check_read(host, *all.slices[0].memory);
  check_read(host_inner, *part.slices[0].memory);
  const std::vector<double> in(16, 1.5);
  part.slices[0].memory->write(Box::whole({4, 4}), reinterpret_cast<const std::byte*>(in.data()));
  for_each_index(Box::whole({4, 4}),
                 [&](const Dims& at, std::int64_t) { element(host_inner, at) = 1.5; });
  check_read(host, *all.slices[0].memory);
}

}  // namespace
}  // namespace cairn::test
