// Rows by global id in Views of any layout, which may be replaced by others.
#include "cairn/checkpoint_manager.hpp"
#include "kokkos/views.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::test {
namespace {

template <class Layout>
class IndexedViews : public ::testing::Test {};
using Layouts = ::testing::Types<Kokkos::LayoutRight, Kokkos::LayoutLeft>;
TYPED_TEST_SUITE(IndexedViews, Layouts);

template <class View>
auto on_host(const View& view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

TYPED_TEST(IndexedViews, GoAndComeByTheirIds) {
  using Rows = Kokkos::View<double* [3], TypeParam>;
  constexpr std::int64_t rows = 101;
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.write.owner_wait_seconds = 0;
  const auto value = [](std::int64_t id, std::size_t k) {
    return static_cast<double>(id * 10) + static_cast<double>(k);
  };
  for (const bool asynchronous : {false, true}) {
    Kokkos::View<std::int64_t*> list("list", 0);
    Rows field("field", 0);
    State state;
    state.add("field", indexed(ids(&list), &field));
    // Every id, each rank in its own order.
    Kokkos::resize(list, rows);
    Kokkos::resize(field, rows);
    const auto fill = [&](std::int64_t stride, bool with_values) {
      auto numbers = on_host(list);
      auto values = on_host(field);
      for (std::size_t i = 0; i < numbers.extent(0); ++i) {
        numbers(i) = static_cast<std::int64_t>(i) * stride % rows;
        for (std::size_t k = 0; k < 3; ++k) values(i, k) = with_values ? value(numbers(i), k) : -1;
      }
      Kokkos::deep_copy(list, numbers);
      Kokkos::deep_copy(field, values);
    };
    fill(7, true);
    CheckpointManager manager(serial_group(), asynchronous ? "/one" : "/other", options);
    if (asynchronous) {
      manager.save_async(1, state);
      fill(7, false);
      manager.wait();
    } else {
      manager.save(1, state);
    }
    EXPECT_EQ(manager.open(1).find("field")->shape, (Dims{rows, 3}));
    Kokkos::resize(list, 40);  // others, of which there are fewer, in other Views
    field = Rows("field", 40);
    fill(13, false);
    manager.restore(1, state);
    const auto numbers = on_host(list);
    const auto values = on_host(field);
    for (std::size_t i = 0; i < 40; ++i) {
      for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(values(i, k), value(numbers(i), k));
    }
    Kokkos::resize(list, 41);
    EXPECT_THAT([&] { manager.restore(1, state); },
                ::testing::ThrowsMessage<Error>(
                    test::Says("'field' has 40 rows on rank 0, and its ids are 41")));
  }
}

TYPED_TEST(IndexedViews, GivenByValueTheyStay) {
  Kokkos::View<int*> list("list", 4);
  Kokkos::View<float*, TypeParam> field("field", 4);
  const auto numbers = on_host(list);
  const auto values = on_host(field);
  for (int i = 0; i < 4; ++i) numbers(i) = 3 - i, values(i) = static_cast<float>(i);
  Kokkos::deep_copy(list, numbers);
  Kokkos::deep_copy(field, values);
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.write.owner_wait_seconds = 0;
  State state;
  state.add("field", indexed(ids(list), field));
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  std::vector<float> stored(4);
  State plain;
  plain.add("field", stored);
  manager.restore(1, plain);
  EXPECT_THAT(stored, ::testing::ElementsAre(3, 2, 1, 0));
  Kokkos::deep_copy(field, -1);
  manager.restore(1, state);
  const auto restored = on_host(field);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(restored(i), static_cast<float>(i));
}

}  // namespace
}  // namespace cairn::test
