// DualViews, DynRankViews, Views of structs, pools of random generators, ScatterViews.
#include <cairn/kokkos/dual_view.hpp>
#include <cairn/kokkos/dyn_rank_view.hpp>
#include <cairn/kokkos/opaque.hpp>
#include <cairn/kokkos/random.hpp>
#include <cairn/kokkos/scatter_view.hpp>
#include <optional>

#include "cairn/checkpoint_manager.hpp"
#include "kokkos/views.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Cell {
  double mass = 0;
  std::int32_t kind = 0;
  bool operator==(const Cell& other) const { return mass == other.mass && kind == other.kind; }
};

class MoreOfKokkos : public ::testing::Test {
 protected:
  MoreOfKokkos() {
    options_.keep.last = 0;
    manager_.emplace(serial_group(), "/run", options_);
  }
  void save(std::int64_t step, const State& state) {
    if (step % 2 == 0) return void(manager_->save(step, state));
    manager_->save_async(step, state);
    manager_->wait();
  }
  ManagerOptions options_ = on_disk();
  std::optional<CheckpointManager> manager_;
};

TEST_F(MoreOfKokkos, ADualViewGivesItsNewerSideAndGetsTheHosts) {
  Kokkos::DualView<double**> u("u", 3, 4);
  const auto fill = [&](double first) {  // on the host
    u.sync_host();
    u.modify_host();
    for (std::size_t i = 0; i < 12; ++i) {
      u.view_host()(i / 4, i % 4) = first + static_cast<double>(i);
    }
  };
  State state;
  state.add("value", whole(u)).add("address", slice(&u, {3, 4}, {0, 0}));
  for (std::int64_t step = 1; step <= 4; ++step) {
    fill(100.0 * static_cast<double>(step));
    if (step > 2) {  // the device's side is newer
      u.sync_device();
      u.modify_device();
      Kokkos::deep_copy(u.view_device(), static_cast<double>(step));
    }
    const bool needs_host = u.need_sync_host(), needs_device = u.need_sync_device();
    save(step, state);
    EXPECT_EQ(u.need_sync_host(), needs_host) << "a save changes neither side";
    EXPECT_EQ(u.need_sync_device(), needs_device);
  }
  for (std::int64_t step = 1; step <= 4; ++step) {
    u.sync_host();
    u.modify_device();  // what a kernel has done is replaced
    manager_->restore(step, state);
    EXPECT_FALSE(u.need_sync_host());
    u.sync_device();
    const auto seen = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), u.view_device());
    for (std::size_t i = 0; i < 12; ++i) {
      const auto on_host = 100.0 * static_cast<double>(step) + static_cast<double>(i);
      EXPECT_EQ(seen(i / 4, i % 4), step > 2 ? static_cast<double>(step) : on_host);
    }
  }
  Kokkos::resize(u, 2, 2);  // its address may be another one
  State sized;
  sized.add("u", whole(&u));
  u = Kokkos::DualView<double**>("u", 1, 5);
  save(5, sized);
  EXPECT_EQ(manager_->open(5).find("u")->shape, (Dims{1, 5}));
}

TEST_F(MoreOfKokkos, WhatIsNotRestoredOfADualViewStaysThatOfItsNewerSide) {
  Kokkos::DualView<double*> u("u", 6);
  Kokkos::deep_copy(u.view_host(), 1.0);
  u.modify_host();
  u.sync_device();
  Kokkos::deep_copy(u.view_device(), 2.0);
  u.modify_device();
  const std::vector<double> restored(2, 7.0);
  const auto tensor = whole(u);
  tensor.slices.at(0).memory->write({{1}, {2}},
                                    reinterpret_cast<const std::byte*>(restored.data()));
  tensor.slices.at(0).memory->write({{5}, {1}},
                                    reinterpret_cast<const std::byte*>(restored.data()));
  u.sync_device();
  const auto seen = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), u.view_device());
  const std::vector<double> all(seen.data(), seen.data() + 6);
  EXPECT_THAT(all, ElementsAre(2, 7, 7, 2, 2, 7));
}

TEST_F(MoreOfKokkos, ADynRankViewHasTheRankItHasThen) {
  using Dyn = Kokkos::DynRankView<int, Kokkos::LayoutLeft>;
  Dyn scalar("scalar"), plane("plane", 3, 4), deep("deep", 2, 3, 2, 1, 2, 2, 3), part("part", 2, 4);
  const auto fill = [](const Dyn& view, int first) {
    const auto host = Kokkos::create_mirror_view(view);
    for (std::size_t i = 0; i < view.size(); ++i) host.data()[i] = first + static_cast<int>(i);
    Kokkos::deep_copy(view, host);
  };
  const auto on_host = [](const Dyn& view) {
    const auto host = Kokkos::create_mirror_view(view);
    Kokkos::deep_copy(host, view);
    return host;
  };
  fill(scalar, 7), fill(plane, 100), fill(deep, 1000), fill(part, 50);
  State state;
  state.add("scalar", whole(scalar)).add("plane", whole(plane)).add("deep", whole(&deep));
  state.add("part", patches({slice(part, {4, 4}, {0, 0}), slice(part, {4, 4}, {2, 0})}));
  save(1, state);
  EXPECT_EQ(manager_->open(1).find("deep")->shape, (Dims{2, 3, 2, 1, 2, 2, 3}));
  // In the order of indices, whatever the layout.
  std::vector<int> seen(12);
  State back;
  back.add("plane", whole(seen.data(), {3, 4}));
  manager_->restore(1, back);
  const auto given = on_host(plane);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(seen[std::size_t(i)], given(i / 4, i % 4));
  for (const auto& view : {scalar, plane, deep}) Kokkos::deep_copy(view, -1);
  State again;
  again.add("scalar", whole(scalar)).add("plane", whole(plane)).add("deep", whole(&deep));
  manager_->restore(1, again);
  EXPECT_EQ(on_host(scalar)(), 7);
  EXPECT_EQ(on_host(plane).data()[11], 111);
  EXPECT_EQ(on_host(deep).data()[deep.size() - 1], 1000 + static_cast<int>(deep.size()) - 1);
  EXPECT_THAT(
      [&] {
        State().add("x", slice(plane, {3, 4, 5}, {0, 0, 0}));
      },
      ::testing::ThrowsMessage<Error>(test::Says("same number of dimensions")));
  deep = Dyn("other", 4);
  save(2, again);
  EXPECT_EQ(manager_->open(2).find("deep")->shape, Dims{4});
}

TEST_F(MoreOfKokkos, StructsAreStoredAsTheirBytes) {
  Kokkos::View<Cell**, Kokkos::LayoutLeft, Space> cells("cells", 4, 3);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) cells(i, j) = {i + j / 8.0, 10 * i + j};
  }
  const auto inner = Kokkos::subview(cells, std::pair(1, 3), Kokkos::ALL());
  const Kokkos::View<const Cell**, Kokkos::LayoutLeft, Space> fixed = cells;
  State state;
  state.add("all", opaque(cells)).add("by address", opaque(&cells));
  state.add("inner", opaque(inner, {2, 3}, {0, 0})).add("fixed", opaque(fixed));
  save(1, state);
  const auto contents = manager_->open(1);
  EXPECT_EQ(contents.find("all")->dtype, DType::uint8);
  EXPECT_EQ(contents.find("inner")->shape, (Dims{2, 3, sizeof(Cell)}));
  Kokkos::View<Cell**, Kokkos::LayoutRight, Space> back("back", 4, 3);
  Kokkos::View<Cell**, Kokkos::LayoutRight, Space> part("part", 2, 3);
  State into;
  into.add("all", opaque(&back)).add("inner", opaque(part));
  manager_->restore(1, into);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(back(i, j), cells(i, j));
      if (i < 2) {
        EXPECT_EQ(part(i, j), cells(i + 1, j));
      }
    }
  }
  State wrong;
  wrong.add("fixed", opaque(fixed));
  expect_error(Code::invalid_argument, HasSubstr("const"), [&] { manager_->restore(1, wrong); });
  Kokkos::View<double*, Space> smaller("smaller", 4);
  State other;
  other.add("all", opaque(smaller));
  expect_error(Code::invalid_argument, AllOf(HasSubstr("uint8 [4 3 16]"), HasSubstr("[4 8]")),
               [&] { manager_->restore(1, other); });
}

template <class Pool>
std::vector<std::uint64_t> draw(const Pool& pool, int generators, int count) {
  std::vector<std::uint64_t> all;
  for (int i = 0; i < generators; ++i) {
    auto generator = pool.get_state(i);
    for (int k = 0; k < count; ++k) all.push_back(generator.urand64());
    pool.free_state(generator);
  }
  return all;
}

// A pool with so many generators. Kokkos 5 has no init(), and earlier versions have no such
// constructor.
template <class Pool>
Pool pool_of(std::uint64_t seed, int generators) {
  if constexpr (requires(Pool pool) { pool.init(seed, generators); }) {
    Pool pool;
    pool.init(seed, generators);
    return pool;
  } else {
    return Pool(seed, static_cast<std::uint64_t>(generators));
  }
}

template <class Pool>
class Pools : public MoreOfKokkos {};
using PoolDevice = Kokkos::Device<Exec, Space>;
using PoolTypes = ::testing::Types<Kokkos::Random_XorShift64_Pool<PoolDevice>,
                                   Kokkos::Random_XorShift1024_Pool<PoolDevice>>;
TYPED_TEST_SUITE(Pools, PoolTypes);

TYPED_TEST(Pools, GoOnBitForBit) {
  const auto pool = pool_of<TypeParam>(12345, 5);
  draw(pool, 5, 7);
  State state;
  state.add("random", random_pool(pool, 5));
  for (const std::int64_t step : {1, 2}) {
    this->save(step, state);
    const auto expected = draw(pool, 5, 100);
    const auto other = pool_of<TypeParam>(999, 5);
    State into;
    into.add("random", random_pool(other, 5));
    this->manager_->restore(step, into);
    EXPECT_EQ(draw(other, 5, 100), expected);
    this->manager_->restore(step, state);
    EXPECT_EQ(draw(pool, 5, 100), expected);
  }
  // There are as many generators as threads, unless the program says otherwise.
  const TypeParam usual(3);
  EXPECT_EQ(random_pool(usual).shape[0], Exec().concurrency());
  // With another number of threads there are other generators.
  const auto larger = pool_of<TypeParam>(999, 6);
  const auto before = draw(larger, 6, 2);
  State wrong;
  wrong.add("random", random_pool(larger, 6));
  expect_error(Code::invalid_argument, AllOf(HasSubstr("uint8 [5 "), HasSubstr("uint8 [6 ")),
               [&] { this->manager_->restore(1, wrong); });
  const auto untouched = pool_of<TypeParam>(999, 6);
  draw(untouched, 6, 2);
  EXPECT_EQ(draw(larger, 6, 2), draw(untouched, 6, 2));
}

std::vector<double> values_of(const Kokkos::View<double*, Space>& view) {
  const auto seen = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {seen.data(), seen.data() + seen.size()};
}

template <class View>
struct Scattered {
  View to;
  double value;
  KOKKOS_FUNCTION void operator()(int i) const { to.access()(i % 4) += value; }
};

// ScatterViews with a copy for each thread, and with the target alone.
template <class Kind>
class Scatters : public MoreOfKokkos {
 protected:
  using Duplication = Kind;
  using Contribution =
      std::conditional_t<std::is_same_v<Kind, Kokkos::Experimental::ScatterDuplicated>,
                         Kokkos::Experimental::ScatterNonAtomic,
                         Kokkos::Experimental::ScatterAtomic>;
  using Sum = Kokkos::View<double*, Space>;
  static auto scatter_into(const Sum& sum) {
    return Kokkos::Experimental::create_scatter_view(Kokkos::Experimental::ScatterSum(),
                                                     Duplication(), Contribution(), sum);
  }
  // Adds twice the value to each element.
  template <class Scatter>
  static void add(const Scatter& scatter, double value) {
    Kokkos::parallel_for("scatter", Kokkos::RangePolicy<Exec>(0, 8),
                         Scattered<Scatter>{scatter, value});
    Exec().fence();
  }
  std::vector<double> saved(std::int64_t step) {
    std::vector<double> seen(4);
    State back;
    back.add("sum", whole(seen.data(), {4}));
    this->manager_->restore(step, back);
    return seen;
  }
};
using Duplications = ::testing::Types<Kokkos::Experimental::ScatterDuplicated,
                                      Kokkos::Experimental::ScatterNonDuplicated>;
TYPED_TEST_SUITE(Scatters, Duplications);

TYPED_TEST(Scatters, ASaveHasWhatWasScattered) {
  typename TestFixture::Sum sum("sum", 4);
  auto scatter = TestFixture::scatter_into(sum);
  State state;
  state.add("sum", scattered(sum, scatter));
  for (const std::int64_t step : {1, 2}) {  // in the background, and blocking
    TestFixture::add(scatter, step == 1 ? 1 : 10);
    this->save(step, state);
  }
  EXPECT_THAT(this->saved(1), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(this->saved(2), ElementsAre(22, 22, 22, 22));
  // The program's own contribution adds only what is new.
  TestFixture::add(scatter, 100);
  Kokkos::Experimental::contribute(sum, scatter);
  scatter.reset_except(sum);
  EXPECT_THAT(values_of(sum), ElementsAre(222, 222, 222, 222));
}

TYPED_TEST(Scatters, ARestoreLeavesNothingToBeAdded) {
  typename TestFixture::Sum sum("sum", 4);
  auto scatter = TestFixture::scatter_into(sum);
  State state;
  state.add("sum", scattered(&sum, &scatter, {4}, {0}));
  TestFixture::add(scatter, 1);
  this->save(2, state);
  TestFixture::add(scatter, 50);  // of a step that is taken back
  this->manager_->restore(2, state);
  Kokkos::Experimental::contribute(sum, scatter);
  scatter.reset_except(sum);
  EXPECT_THAT(values_of(sum), ElementsAre(2, 2, 2, 2));
  // Their addresses may be other ones.
  sum = typename TestFixture::Sum("other", 4);
  scatter = TestFixture::scatter_into(sum);
  TestFixture::add(scatter, 3);
  this->save(4, state);
  EXPECT_THAT(this->saved(4), ElementsAre(6, 6, 6, 6));
}

// ScatterViews of other operations, and of more dimensions in both layouts.
TEST_F(MoreOfKokkos, AScatterViewOfMaxima) {
  namespace scatters = Kokkos::Experimental;
  Kokkos::View<int**, Kokkos::LayoutLeft, Space> most("most", 3, 2);
  auto scatter = scatters::create_scatter_view(
      scatters::ScatterMax(), scatters::ScatterDuplicated(), scatters::ScatterNonAtomic(), most);
  State state;
  state.add("most", scattered(most, scatter));
  for (const int value : {5, 3}) {
    auto access = scatter.access();
    access(1, 1).update(value);
    this->save(value, state);
  }
  std::vector<int> seen(6);
  State back;
  back.add("most", whole(seen.data(), {3, 2}));
  manager_->restore(3, back);
  EXPECT_THAT(seen, ElementsAre(0, 0, 0, 5, 0, 0));
}

}  // namespace
}  // namespace cairn::test
