// Views in the memory of the default device, through whole() and slice() as programs use them. If
// the device is the host they are read in place; with CUDA or HIP these tests cover the way through
// the device.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <thread>
#include <utility>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/redistribute.hpp"
#include "io/temporary_directory.hpp"
#include "kokkos/views.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using Device = Kokkos::DefaultExecutionSpace;
using Memory = Device::memory_space;

template <class Layout>
using Field = Kokkos::View<double***, Layout, Memory>;
constexpr std::size_t extent[] = {5, 6, 7};

Kokkos::pair<std::size_t, std::size_t> inner(std::size_t d) { return {1, extent[d] - 1}; }

// The part without the halo, which has another layout: strides with gaps.
template <class View>
auto without_halo(const View& view) {
  return Kokkos::subview(view, inner(0), inner(1), inner(2));
}

// A View on the device and its copy on the host; of both, the part that is a slice.
template <class Layout, class Cut>
void check_device(const Cut& cut) {
  const Field<Layout> view("view", extent[0], extent[1], extent[2]);
  const auto host = Kokkos::create_mirror_view(view);
  const auto part = cut(view);
  const auto host_part = cut(host);
  const Device device;
  const auto tensor = whole(part, device);
  auto& memory = *tensor.slices.at(0).memory;

  number(host);
  Kokkos::deep_copy(view, host);
  for (const auto& box : boxes_in(kokkos::extents(part))) {
    SCOPED_TRACE(box_text(box));
    std::vector<double> out(static_cast<std::size_t>(box.count()) + 1, -7);
    memory.read(box, reinterpret_cast<std::byte*>(out.data()));
    for_each_index(box, [&](const Dims& at, std::int64_t i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)], element(host_part, at)) << shape_text(at);
    });
    EXPECT_EQ(out.back(), -7) << "written beyond the box";
  }
  for (const auto& box : boxes_in(kokkos::extents(part))) {
    SCOPED_TRACE(box_text(box));
    Kokkos::deep_copy(view, -1.0);
    std::vector<double> in;
    for (std::int64_t i = 0; i < box.count(); ++i) in.push_back(static_cast<double>(i));
    memory.write(box, reinterpret_cast<const std::byte*>(in.data()));
    Kokkos::deep_copy(host, view);
    for_each_index(box, [&](const Dims& at, std::int64_t i) {
      ASSERT_EQ(element(host_part, at), in[static_cast<std::size_t>(i)]) << shape_text(at);
    });
    std::int64_t changed = 0;
    for_each_index(Box::whole(kokkos::extents(host)),
                   [&](const Dims& at, std::int64_t) { changed += element(host, at) != -1.0; });
    EXPECT_EQ(changed, box.count()) << "written beside the box";
  }
}

const auto uncut = [](const auto& view) { return view; };
const auto halo_cut = [](const auto& view) { return without_halo(view); };
const auto first_plane = [](const auto& view) {
  return Kokkos::subview(view, 3, inner(1), inner(2));
};
const auto last_plane = [](const auto& view) {
  return Kokkos::subview(view, inner(0), inner(1), 3);
};

TEST(Device, LayoutRight) { check_device<Kokkos::LayoutRight>(uncut); }
TEST(Device, LayoutLeft) { check_device<Kokkos::LayoutLeft>(uncut); }
TEST(Device, SubviewsOfLayoutRight) { check_device<Kokkos::LayoutRight>(halo_cut); }
TEST(Device, SubviewsOfLayoutLeft) { check_device<Kokkos::LayoutLeft>(halo_cut); }
TEST(Device, PlanesHaveStrides) {
  check_device<Kokkos::LayoutRight>(last_plane);
  check_device<Kokkos::LayoutLeft>(first_plane);
  using OfRight = decltype(last_plane(Field<Kokkos::LayoutRight>()));
  using OfLeft = decltype(first_plane(Field<Kokkos::LayoutLeft>()));
  static_assert(std::is_same_v<OfRight::array_layout, Kokkos::LayoutStride>);
  static_assert(std::is_same_v<OfLeft::array_layout, Kokkos::LayoutStride>);
}

TEST(Device, LayoutStride) {
  const Kokkos::View<int*, Memory> buffer("buffer", 60);
  const Kokkos::View<int**, Kokkos::LayoutStride, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      view(buffer.data(), Kokkos::LayoutStride(4, 13, 5, 2));
  const auto host = Kokkos::create_mirror_view(buffer);
  Kokkos::deep_copy(buffer, -1);
  std::array<int, 20> in, out;
  for (int i = 0; i < 20; ++i) in[static_cast<std::size_t>(i)] = 100 + i;
  const auto tensor = whole(view, Device());
  auto& memory = *tensor.slices.at(0).memory;
  memory.write(Box::whole({4, 5}), reinterpret_cast<const std::byte*>(in.data()));
  memory.read(Box::whole({4, 5}), reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, in);
  Kokkos::deep_copy(host, buffer);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) {
      EXPECT_EQ(host(static_cast<std::size_t>(13 * i + 2 * j)), 100 + 5 * i + j);
    }
  }
  int gaps = 0;
  for (std::size_t i = 0; i < 60; ++i) gaps += host(i) == -1;
  EXPECT_EQ(gaps, 40);
}

TEST(Device, TensorsTellTheirKind) {
  const auto tensor = whole(Field<Kokkos::LayoutLeft>("view", 2, 3, 4));
  const std::string name = Device::name();
  const bool host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
  EXPECT_EQ(tensor.device_type, name == "Cuda" ? "CUDA" : name == "HIP" ? "HIP" : "CPU");
  EXPECT_EQ(tensor.slices.at(0).memory->staging() == nullptr, host);
  EXPECT_EQ(tensor.slices.at(0).memory->contiguous(), nullptr) << "columns come first";
}

TEST(Device, PinnedMemoryServesPages) {
  const auto memory = pinned_memory();
  auto* taken = memory->take(10000);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken) % 4096, 0u);
  EXPECT_TRUE(memory->has(taken));
  for (std::size_t i = 0; i < 10000; ++i) taken[i] = std::byte{3};
  memory->give_back(taken, 10000);
}

// Rows [begin, end) of a tensor of 6 x 5, in a View of this memory space.
template <class View>
LocalSlice rows_of(const View& view, std::int64_t begin) {
  return slice(view, {6, 5}, {begin, 0}).slices.at(0);
}

template <class Layout>
void check_async_n_to_m() {
  const test::TemporaryDirectory directory;
  using Left = Kokkos::View<float**, Layout, Memory>;
  CheckpointManager manager(serial_group(), directory.path());
  {
    const Left top("top", 1, 5), middle("middle", 3, 5), bottom("bottom", 2, 5);
    State state;
    LocalTensor u = slice(top, {6, 5}, {0, 0});
    u.slices.push_back(rows_of(middle, 1));
    u.slices.push_back(rows_of(bottom, 4));
    state.add("u", u);
    for (int step = 1; step <= 3; ++step) {
      std::int64_t first = 100 * step;
      for (const auto& view : {top, middle, bottom}) {
        const auto host = Kokkos::create_mirror_view(view);
        for_each_index(Box::whole(kokkos::extents(view)), [&](const Dims& at, std::int64_t) {
          element(host, at) = static_cast<float>(first++);
        });
        Kokkos::deep_copy(view, host);
      }
      manager.save_async(step, state);
      for (const auto& view : {top, middle, bottom}) Kokkos::deep_copy(view, -1.0f);
    }
    manager.wait();
  }
  const Kokkos::View<float**, Kokkos::LayoutRight, Space> all("all", 6, 5);
  const Left first("first", 4, 5), second("second", 2, 5);
  const auto first_host = Kokkos::create_mirror_view(first);
  const auto second_host = Kokkos::create_mirror_view(second);
  for (int step = 1; step <= 3; ++step) {
    State state;
    state.add("u", whole(all));
    manager.restore(step, state);
    State halves;
    LocalTensor u = slice(first, {6, 5}, {0, 0});
    u.slices.push_back(rows_of(second, 4));
    halves.add("u", u);
    manager.restore(step, halves);
    Kokkos::deep_copy(first_host, first);
    Kokkos::deep_copy(second_host, second);
    for_each_index(Box::whole({6, 5}), [&](const Dims& at, std::int64_t i) {
      const auto expected = static_cast<float>(100 * step + i);
      EXPECT_EQ(element(all, at), expected) << step << shape_text(at);
      EXPECT_EQ(at[0] < 4 ? element(first_host, at) : element(second_host, {at[0] - 4, at[1]}),
                expected)
          << step << shape_text(at);
    });
  }
}

TEST(Device, SavedWhileTheProgramGoesOnAndRestoredOnTheHostAndCutOtherwise) {
  check_async_n_to_m<Kokkos::LayoutLeft>();
  check_async_n_to_m<Kokkos::LayoutRight>();
}

// Runs tasks on other threads, and while it is held when it is drained.
class HeldTasks : public TaskQueue {
 public:
  void run(std::function<void()> task) override {
    tasks_.push_back(std::move(task));
    if (!is_held) drain();
  }
  void drain() override {
    for (const auto& task : std::exchange(tasks_, {})) std::thread(task).join();
  }
  bool is_held = false;

 private:
  std::vector<std::function<void()>> tasks_;
};

struct Numbers {
  double* to;
  double first;
  KOKKOS_FUNCTION void operator()(std::size_t i) const { to[i] = first + static_cast<double>(i); }
};

// A View of 7 MB.
template <class Layout, class Cut>
class Leaving {
 public:
  using View = Kokkos::View<double***, Layout, Memory>;
  explicit Leaving(const Cut& cut)
      : view_("view", 12, 400, 190), part_(cut(view_)), queue_(std::make_shared<HeldTasks>()) {
    state_.add("u", whole(part_, exec_));
  }
  /// Queued on the instance of the tensor only: a save waits for it.
  void fill(double first) {
    Kokkos::parallel_for("fill", Kokkos::RangePolicy<Device>(exec_, 0, view_.span()),
                         Numbers{view_.data(), first});
  }
  ManagerOptions options() const { return {.async = {.queue = queue_}}; }
  SaveHandle save(CheckpointManager& manager, std::int64_t step) {
    queue_->is_held = true;
    return manager.save_async(step, state_, {.until = Until::released});
  }
  void write() {
    queue_->is_held = false;
    queue_->drain();
  }
  /// Whether a restore gives what fill(first) gave.
  void check(CheckpointManager& manager, std::int64_t step, double first) {
    fill(first);
    const auto right = copy();
    Kokkos::deep_copy(view_, -1.0);
    manager.restore(step, state_);
    EXPECT_TRUE(copy() == right) << step;
  }
  static constexpr bool stays = kokkos::has_own_instances<Device> || kokkos::host_reaches<View>;

 private:
  using Part = decltype(std::declval<Cut>()(std::declval<View>()));
  std::vector<double> copy() const {
    std::vector<double> out(part_.size());
    state_.tensors().at(0).second.slices.at(0).memory->read(
        Box::whole(kokkos::extents(part_)), reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  Device exec_;
  View view_;
  Part part_;
  State state_;
  std::shared_ptr<HeldTasks> queue_;
};

template <class Layout, class Cut>
void check_released(const Cut& cut) {
  const test::TemporaryDirectory directory;
  Leaving<Layout, Cut> mine(cut);
  CheckpointManager manager(serial_group(), directory.path(), mine.options());
  for (int step = 1; step <= 4; ++step) {
    mine.fill(1000 * step);
    const auto handle = mine.save(manager, step);
    EXPECT_EQ(handle.blocked_because().empty(), mine.stays) << handle.blocked_because();
    if (step % 2 == 0) mine.write();  // all, before release() is called
    handle.release();
    mine.fill(-5);
    Device().fence();
    mine.write();
    manager.wait();
  }
  for (int step = 1; step <= 4; ++step) mine.check(manager, step, 1000 * step);

  mine.fill(9);
  mine.save(manager, 9);
  mine.fill(7);
  Kokkos::fence();
  mine.write();
  if (mine.stays) {
    EXPECT_THAT([&] { manager.wait(); },
                ::testing::ThrowsMessage<Error>(test::Says("has changed")));
  } else {
    manager.wait();
    mine.check(manager, 9, 9);
  }
}

TEST(Device, StaysOnTheDeviceUntilItIsReleased) {
  check_released<Kokkos::LayoutRight>(uncut);
  check_released<Kokkos::LayoutLeft>(uncut);
  const auto inside = [](const auto& view) {
    return Kokkos::subview(view, Kokkos::make_pair(1, 11), Kokkos::make_pair(1, 399),
                           Kokkos::make_pair(1, 189));
  };
  check_released<Kokkos::LayoutRight>(inside);
  check_released<Kokkos::LayoutLeft>(inside);
}

// From the part without the halo, in one layout, to a whole View in another.
template <class From, class To>
void check_redistribution() {
  const Field<From> given("given", extent[0], extent[1], extent[2]);
  const Field<To> got("got", extent[0] - 2, extent[1] - 2, extent[2] - 2);
  const auto given_host = Kokkos::create_mirror_view(given);
  const auto got_host = Kokkos::create_mirror_view(got);
  number(given_host);
  Kokkos::deep_copy(given, given_host);
  Kokkos::deep_copy(got, -1.0);
  State from, to;
  from.add("u", whole(without_halo(given)));
  to.add("u", whole(got));
  redistribute(serial_group(), from, to);
  Kokkos::deep_copy(got_host, got);
  const auto inside = without_halo(given_host);
  for_each_index(Box::whole(kokkos::extents(got)), [&](const Dims& at, std::int64_t) {
    ASSERT_EQ(element(got_host, at), element(inside, at)) << shape_text(at);
  });
}

TEST(Device, RedistributesToAnotherLayout) {
  check_redistribution<Kokkos::LayoutLeft, Kokkos::LayoutRight>();
  check_redistribution<Kokkos::LayoutRight, Kokkos::LayoutLeft>();
  check_redistribution<Kokkos::LayoutLeft, Kokkos::LayoutLeft>();
}

}  // namespace
}  // namespace cairn::test
