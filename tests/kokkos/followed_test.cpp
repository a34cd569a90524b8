// Views that are given by reference or by functions: swapped, resized and assigned between saves.
#include <optional>

#include "cairn/checkpoint_manager.hpp"
#include "kokkos/views.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

template <class Layout>
using Plane = Kokkos::View<double**, Layout, Kokkos::DefaultExecutionSpace>;

template <class View>
void count_from(const View& view, double first) {
  const auto host = Kokkos::create_mirror_view(view);
  for_each_index(Box::whole(kokkos::extents(view)), [&](const Dims& at, std::int64_t i) {
    element(host, at) = first + static_cast<double>(i);
  });
  Kokkos::deep_copy(view, host);
}

// The values of a whole View, row-major.
template <class View>
std::vector<double> values_of(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  std::vector<double> all;
  for_each_index(Box::whole(kokkos::extents(view)),
                 [&](const Dims& at, std::int64_t) { all.push_back(element(host, at)); });
  return all;
}

class FollowedViews : public ::testing::Test {
 protected:
  FollowedViews() {
    options_.write.file_system = std::make_shared<io::MemoryFileSystem>();
    options_.write.owner_wait_seconds = 0;
    options_.keep.last = 0;
    manager_.emplace(serial_group(), "/run", options_);
  }
  void save(std::int64_t step, const State& state, bool async) {
    if (async) {
      manager_->save_async(step, state);
    } else {
      manager_->save(step, state);
    }
  }
  // The values on disk.
  std::vector<double> stored(std::int64_t step, const std::string& key, const Dims& shape) {
    std::vector<double> seen(static_cast<std::size_t>(element_count(shape)), -1);
    State back;
    back.add(key, whole(seen.data(), shape));
    manager_->restore(step, back);
    return seen;
  }
  ManagerOptions options_;
  std::optional<CheckpointManager> manager_;
};

template <class View>
std::vector<double> counted(const View& view, double first) {
  std::vector<double> all;
  for (std::size_t i = 0; i < view.size(); ++i) all.push_back(first + static_cast<double>(i));
  return all;
}

TEST_F(FollowedViews, SwappedOnesAreSavedByTheSamePlan) {
  Plane<Kokkos::LayoutRight> u("u", 3, 4), w("w", 3, 4);
  Plane<Kokkos::LayoutLeft> v("v", 5, 4), x("x", 5, 4);
  State state;
  state.add("u", slice(&u, {3, 4}, {0, 0})).add("v", whole(&v));
  state.add("inner", [&] { return whole(Kokkos::subview(v, std::pair(1, 4), std::pair(1, 3))); });
  for (std::int64_t step = 1; step <= 6; ++step) {
    count_from(w, 100.0 * static_cast<double>(step));
    count_from(x, 1000.0 * static_cast<double>(step));
    std::swap(u, w);
    std::swap(v, x);
    save(step, state, step <= 3);
    Kokkos::deep_copy(u, -1.0);
    Kokkos::deep_copy(v, -1.0);
    manager_->wait();
    EXPECT_EQ(manager_->statistics().last.back().plan_reused, step != 1) << step;
  }
  for (std::int64_t step = 1; step <= 6; ++step) {
    const auto thousands = 1000.0 * static_cast<double>(step);
    EXPECT_EQ(stored(step, "u", {3, 4}), counted(u, 100.0 * static_cast<double>(step)));
    EXPECT_EQ(stored(step, "v", {5, 4}), counted(v, thousands));
    EXPECT_EQ(stored(step, "inner", {3, 2}),
              (std::vector<double>{thousands + 5, thousands + 6, thousands + 9, thousands + 10,
                                   thousands + 13, thousands + 14}));
  }
  std::swap(u, w);
  State apart;  // "inner" and "v" share memory
  apart.add("u", slice(&u, {3, 4}, {0, 0})).add("v", whole(&v));
  manager_->restore(2, apart);
  EXPECT_EQ(values_of(u), counted(u, 200));
  EXPECT_EQ(values_of(v), counted(v, 2000));
  EXPECT_EQ(values_of(w), std::vector<double>(12, -1)) << "what is not given now is left alone";
}

TEST_F(FollowedViews, ResizedAndAssignedOnesAreSavedAsTheyAre) {
  Plane<Kokkos::LayoutLeft> u("u", 2, 3);
  Kokkos::View<double, Kokkos::DefaultExecutionSpace> scalar("scalar");
  State state;
  state.add("u", whole(&u)).add("scalar", whole(&scalar));
  std::int64_t step = 0;
  for (const bool async : {false, true}) {
    for (const std::size_t size : {4u, 4u, 7u, 1u}) {
      Kokkos::resize(u, size, 3);
      count_from(u, static_cast<double>(++step));
      scalar = Kokkos::View<double, Kokkos::DefaultExecutionSpace>("another");
      Kokkos::deep_copy(scalar, step * 2.5);
      save(step, state, async);
      Kokkos::deep_copy(u, -1.0);
      manager_->wait();
      EXPECT_EQ(stored(step, "u", {static_cast<std::int64_t>(size), 3}),
                counted(u, static_cast<double>(step)));
      EXPECT_EQ(stored(step, "scalar", {}), std::vector<double>{step * 2.5});
    }
  }
  EXPECT_THAT([&] { manager_->restore(3, state); }, ThrowsMessage<Error>(HasSubstr("[7 3]")));
  Kokkos::resize(u, 7, 3);
  manager_->restore(3, state);
  EXPECT_EQ(values_of(u), counted(u, 3));
}

TEST_F(FollowedViews, OneByValueStaysAndOneByReferenceIsNotHeld) {
  Plane<Kokkos::LayoutRight> u("u", 2, 2), w("w", 2, 2);
  State state;
  state.add("u", whole(u));
  state.add("w", whole(&w));
  state.add("function", [&] { return whole(w); });
  EXPECT_EQ(u.use_count(), 2);
  count_from(u, 10);
  count_from(w, 20);
  std::swap(u, w);
  for (std::int64_t step = 1; step <= 4; ++step) {
    save(step, state, step > 2);
    manager_->wait();
    EXPECT_EQ(u.use_count(), 1);
    EXPECT_EQ(stored(step, "u", {2, 2}), values_of(w)) << "the View that was given";
    EXPECT_EQ(stored(step, "w", {2, 2}), values_of(w)) << "the View that is there";
    EXPECT_EQ(stored(step, "function", {2, 2}), values_of(w));
  }
  manager_->restore(1, state);
  EXPECT_EQ(u.use_count(), 1);
}

TEST_F(FollowedViews, ErrorsNameTheKey) {
  Plane<Kokkos::LayoutRight> u("u", 2, 3);
  State state;
  state.add("u", slice(&u, {4, 3}, {1, 0}));
  EXPECT_THAT([&] { state.add("v", slice(&u, {4}, {1})); },
              ThrowsMessage<Error>(test::Says("tensor 'v': View 'u' of extent [2 3]")));
  EXPECT_THAT([&] { state.add("v", slice(u, {4}, {1})); },
              ThrowsMessage<Error>(test::Says("tensor 'v': View 'u' of extent [2 3]")));
  Kokkos::resize(u, 4, 3);
  for (const bool async : {false, true}) {
    EXPECT_THAT([&] { save(1, state, async); },
                ThrowsMessage<Error>(test::Says("tensor 'u' [4 3]: rows 1..4 × 0..2 is outside")));
  }
  const Plane<Kokkos::LayoutRight>::const_type constant(u);
  State read_only;
  read_only.add("u", whole(&constant));
  save(1, read_only, false);
  EXPECT_THAT([&] { manager_->restore(1, read_only); },
              ThrowsMessage<Error>(test::Says("the memory of tensor 'u' is const")));
}

}  // namespace
}  // namespace cairn::test
