// Copies of asynchronous saves when Kokkos ends: a program of its own, since Kokkos ends only once
// in a process.
#include <gmock/gmock.h>

#include <cairn/kokkos.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "io/temporary_directory.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;

// The events that Kokkos Tools and this test record, in order.
std::vector<std::string> events;
std::optional<SaveHandle> last_save;

void on_allocation(Kokkos::Tools::SpaceHandle, const char* label, const void*, std::uint64_t) {
  if (std::string(label).starts_with("cairn::copy")) events.push_back("allocated");
}
void on_deallocation(Kokkos::Tools::SpaceHandle, const char* label, const void*, std::uint64_t) {
  if (!std::string(label).starts_with("cairn::copy")) return;
  const bool written = last_save && last_save->stage() == SaveStage::written;
  events.push_back(written ? "freed, all is written" : "freed too early");
}

// Tasks wait until the door is open.
class Door : public TaskQueue {
 public:
  void run(std::function<void()> task) override {
    queue_->run([this, task = std::move(task)] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return open_; });
      task();
    });
  }
  void drain() override { queue_->drain(); }
  void open(bool how) {
    const std::scoped_lock lock(mutex_);
    open_ = how;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::shared_ptr<TaskQueue> queue_ = thread_queue();
};

// A View that is staged, as if the host could not reach it.
template <class View>
LocalTensor staged(const View& view) {
  auto tensor = whole(view);
  tensor.slices.at(0).memory =
      std::make_shared<kokkos::StagedViewMemory<View, typename View::execution_space>>(
          view, typename View::execution_space());
  return tensor;
}

TEST(Lifetime, TheCopyGoesWhenKokkosEndsAndNotBeforeItIsWritten) {
  const test::TemporaryDirectory directory;
  const auto door = std::make_shared<Door>();
  ManagerOptions options;
  options.async.queue = door;
  CheckpointManager manager(serial_group(), directory.path() / "early", options);
  using Memory = kokkos::SpaceMemory<kokkos::PinnedSpace>;
  EXPECT_THAT([] { Memory::instance()->take(1); },
              ::testing::ThrowsMessage<Error>(test::Says("memory of Kokkos, which does not run")));

  Kokkos::initialize();
  Kokkos::Tools::Experimental::set_allocate_data_callback(on_allocation);
  Kokkos::Tools::Experimental::set_deallocate_data_callback(on_deallocation);
  {
    const Kokkos::View<double**, Kokkos::LayoutLeft, Kokkos::DefaultExecutionSpace> view("u", 4, 5);
    State state;
    state.add("u", staged(view));
    for (int step = 1; step <= 3; ++step) {
      Kokkos::deep_copy(view, step);
      manager.save_async(step, state);
    }
    manager.wait();
    EXPECT_THAT(events, ElementsAre("allocated")) << "the Views want it, and all saves share it";
    EXPECT_GT(manager.statistics().pool_bytes, 0);
    Kokkos::deep_copy(view, 4);
    door->open(false);
    last_save = manager.save_async(4, state);
    Kokkos::deep_copy(view, -1);
  }
  // The last hook is called first: when this one runs, Kokkos is ending and nothing is written yet.
  Kokkos::push_finalize_hook([&] {
    events.push_back("finalize");
    door->open(true);
  });
  Kokkos::finalize();
  EXPECT_THAT(events, ElementsAre("allocated", "finalize", "freed, all is written"));
  EXPECT_EQ(manager.statistics().pool_bytes, 0);
  manager.wait();

  // Host memory needs no Kokkos: the pending save commits, and more can be saved.
  std::vector<double> host(20);
  State on_host;
  on_host.add("u", whole(host.data(), {4, 5}));
  manager.restore(4, on_host);
  EXPECT_EQ(host, std::vector<double>(20, 4.0));
  manager.save_async(5, on_host);
  manager.wait();
  EXPECT_EQ(manager.steps().back().step, 5);

  // A named memory of Kokkos is refused on all ranks, and nothing is broken.
  options.async.memory = Memory::instance();
  CheckpointManager late(serial_group(), directory.path() / "late", options);
  EXPECT_THAT(
      [&] { late.save_async(1, on_host); },
      ::testing::ThrowsMessage<Error>(test::Says("memory of Kokkos after Kokkos::finalize")));
  late.save(2, on_host);
  EXPECT_THAT(late.steps(), ElementsAre(::testing::Field(&StepInfo::step, 2)));
}

}  // namespace
}  // namespace cairn
