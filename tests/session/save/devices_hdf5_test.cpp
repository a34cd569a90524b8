// Devices of ranks, and policies, when the checkpoint is one HDF5 file.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/read_holders.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

class DevicesHdf5 : public testing::Test {
 protected:
  DevicesHdf5() {
    options_.store.format = Format::hdf5;
    options_.write.file_system = files_;
  }
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_F(DevicesHdf5, APolicyIsNotCalledAndThatIsSaid) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  options_.store.policy = std::make_shared<MaxShardSizePolicy>(100);
  CheckpointManager(serial_group(), "/run", options_);
  set_log_sink({});
  EXPECT_THAT(warnings, testing::ElementsAre(
                            test::Says("the sharding policy 'shards of at most 100 bytes' is never "
                                       "called: a checkpoint as HDF5 is one file")));
}

// Device number 0 differs from a device without a number, and each slice has its own device.
TEST_F(DevicesHdf5, SaysWhichOfARanksDevicesHeldEachSlice) {
  const auto on_device = [](int index, LocalTensor tensor) {
    tensor.device_type = "CUDA";
    tensor.device_index = index;
    return tensor;
  };
  run_threads(2, [&](std::shared_ptr<Group> group) {
    const auto rank = group->rank();
    std::vector<float> a(4, 1), b(4, 2), c(4, 3);
    const std::int64_t first = 8 * rank;
    State state;
    state.add("u", patches({on_device(1, slice(b.data(), {16}, {first}, {4})),
                            on_device(0, slice(a.data(), {16}, {first + 4}, {4}))}));
    state.add("v", on_device(0, slice(c.data(), {8}, {4 * rank}, {4})));
    CheckpointManager(group, "/run", options_).save(1, state);
  });
  const auto holders = read_holders({*files_, read_contents(*files_, "/run/ckpt-1")});
  ASSERT_TRUE(holders);
  const auto held = [&](const char* key) {
    std::vector<std::string> all;
    for (const auto& one : holders->tensors.at(key)) {
      all.push_back(cat(one.box.start[0], " on ", holders->tasks.at(one.task)));
    }
    return all;
  };
  const auto device = [](int start, int rank, int index) {
    return cat(start, " on /job:worker/replica:0/task:", rank, "/device:CUDA:", index);
  };
  EXPECT_THAT(held("u"), testing::ElementsAre(device(0, 0, 1), device(4, 0, 0), device(8, 1, 1),
                                              device(12, 1, 0)));
  EXPECT_THAT(held("v"), testing::ElementsAre(device(0, 0, 0), device(4, 1, 0)));
}

}  // namespace
}  // namespace cairn
