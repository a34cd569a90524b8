// What Kokkos Tools see of our copies: fences, and the labels of allocations and fences.
#include <cstring>
#include <set>
#include <string>

#include "kokkos/views.hpp"

namespace cairn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Fence {
  std::string label;
  std::uint32_t device;
};
std::vector<Fence> fences;
std::vector<std::string> allocations, kernels;

void on_fence(const char* label, std::uint32_t device, std::uint64_t*) {
  fences.push_back({label, device});
}
void on_allocation(Kokkos::Tools::SpaceHandle, const char* label, const void*, std::uint64_t) {
  allocations.push_back(label);
}
void on_kernel(const char* label, std::uint32_t, std::uint64_t*) { kernels.push_back(label); }

// Records from construction to destruction: either fences, or allocations and kernels, because
// Kokkos fences all devices for a tool that listens to kernels.
class Recording {
 public:
  enum What { of_fences, of_allocations_and_kernels };
  explicit Recording(What what) {
    fences.clear(), allocations.clear(), kernels.clear();
    if (what == of_fences) {
      Kokkos::Tools::Experimental::set_begin_fence_callback(on_fence);
    } else {
      Kokkos::Tools::Experimental::set_allocate_data_callback(on_allocation);
      Kokkos::Tools::Experimental::set_begin_parallel_for_callback(on_kernel);
    }
  }
  ~Recording() {
    Kokkos::Tools::Experimental::set_begin_fence_callback(nullptr);
    Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  }
};

using View = Kokkos::View<double**, Kokkos::LayoutLeft, Space>;

// Reaches the elements of a View in every way.
void touch_everything(const View& view) {
  const Exec exec;
  std::vector<double> buffer(20);
  auto* bytes = reinterpret_cast<std::byte*>(buffer.data());
  const auto all = Box::whole({4, 5});
  const auto tensor = whole(view, exec);
  tensor.slices[0].memory->read(all, bytes);
  tensor.slices[0].memory->write(all, bytes);
  const Kokkos::View<double*, Kokkos::LayoutRight, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      line(view.data(), 20);
  const auto lent = whole(line, exec);
  EXPECT_NE(lent.slices[0].memory->contiguous(), nullptr);
  EXPECT_NE(lent.slices[0].memory->contiguous_writable(), nullptr);
  kokkos::StagedViewMemory<View, Exec> staged(view, exec, 9 * sizeof(double));
  staged.read(all, bytes);
  staged.write(all, bytes);
}

TEST(Tools, AllocationsAndKernelsCarryOurPrefix) {
  const View view("view", 4, 5);
  kokkos::StagingPool<Space>::instance().clear();
  {
    const Recording recording(Recording::of_allocations_and_kernels);
    touch_everything(view);
    touch_everything(view);
  }
  EXPECT_THAT(allocations, ::testing::ElementsAre(StartsWith("cairn::"))) << "one, which is reused";
  EXPECT_THAT(kernels, ::testing::Contains("cairn::pack"));
  EXPECT_THAT(kernels, ::testing::Contains("cairn::unpack"));
}

TEST(Tools, FencesAreOfTheInstanceAndLabelled) {
  if (!kokkos::fence_has_label<Exec>) {
    GTEST_SKIP() << "Kokkos " << KOKKOS_VERSION
                 << " has no labels on fences and tells tools nothing of fences on hosts";
  }
  std::set<std::uint32_t> global, instance;
  {
    const Recording recording(Recording::of_fences);
    Kokkos::fence();
    for (const auto& one : fences) global.insert(one.device);
    fences.clear();
    Exec().fence();
    for (const auto& one : fences) instance.insert(one.device);
  }
  ASSERT_THAT(global, Not(IsEmpty()));
  ASSERT_EQ(instance.size(), 1u);
  ASSERT_FALSE(global.contains(*instance.begin())) << "the control fences cannot be told apart";

  const View view("view", 4, 5);
  touch_everything(view);  // makes the staging buffer
  {
    const Recording recording(Recording::of_fences);
    touch_everything(view);
  }
  std::size_t ours = 0;
  for (const auto& [label, device] : fences) {
    EXPECT_TRUE(instance.contains(device)) << "fence of something else: " << label;
    // Kokkos::deep_copy may fence the instance that it is given, with a label of its own.
    EXPECT_THAT(label,
                ::testing::AnyOf(StartsWith("cairn::"), HasSubstr("Kokkos::Impl::DeepCopy")));
    ours += label.starts_with("cairn::");
  }
  EXPECT_EQ(ours, 6u) << "read, write, contiguous and contiguous_writable in place; staged twice";
}

}  // namespace
}  // namespace cairn::test
