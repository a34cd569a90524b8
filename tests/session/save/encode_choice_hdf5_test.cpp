// Saves as HDF5 that learn whether to encode (StoreCodec::automatic), also if each has a new plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/resizable.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/memory_run.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

constexpr std::int64_t own_chunks = 8, chunk_length = 8192;  // of one rank; a row is one

// What lies beside the field in the state, and how it is saved.
struct Beside {
  bool string, grows, async;
};

class LearnsToEncode : public testing::TestWithParam<Beside> {
 protected:
  LearnsToEncode() {
    options_.write.file_system = files_;
    options_.write.chunk_bytes = chunk_length * 8;
    options_.store.format = Format::hdf5;
    options_.store.codec = StoreCodec::automatic;
  }

  struct Rank {
    explicit Rank(const Group& group, const Beside& beside)
        : first(own_chunks * group.rank()), field(own_chunks * chunk_length) {
      state.add("field", slice(field.data(), {own_chunks * group.size(), chunk_length}, {first, 0},
                               {own_chunks, chunk_length}));
      if (beside.string) state.add("word", word);
      if (beside.grows) state.add("history", resizable(history));
    }
    void set(std::int64_t step) {
      for (std::size_t i = 0; i < field.size(); ++i) {
        field[i] = static_cast<double>(step + first + static_cast<std::int64_t>(i) / 5);
      }
      history.push_back(static_cast<double>(step));
    }
    std::int64_t first;
    std::vector<double> field, history;
    std::string word = "always the same";
    State state;
  };

  // How many chunks of the field went through the codec.
  std::int64_t encoded(const std::string& prefix) const {
    const auto stored = read_contents(*files_, prefix);
    const auto* field = stored.find("field");
    return std::count_if(field->slices.begin(), field->slices.end(),
                         [](const auto& piece) { return piece.codec != Codec::none; });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_ = test::on_disk();
};

INSTANTIATE_TEST_SUITE_P(Beside, LearnsToEncode,
                         testing::Values(Beside{false, false, false}, Beside{true, false, false},
                                         Beside{true, false, true}, Beside{false, true, false},
                                         Beside{true, true, true}),
                         [](const auto& info) {
                           return cat(info.param.string ? "String" : "",
                                      info.param.grows ? "Growing" : "",
                                      info.param.async ? "Async" : "Blocking");
                         });

// Only the first two saves do not depend on the time that they took.
TEST_P(LearnsToEncode, TheSecondSaveTriesTheOtherWay) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    Rank rank(*group, GetParam());
    for (const std::int64_t step : {1, 2, 3}) {
      rank.set(step);
      GetParam().async ? (void)manager.save_async(step, rank.state)
                       : (void)manager.save(step, rank.state);
      manager.wait();
      const auto field = rank.field, history = rank.history;
      rank.field.assign(rank.field.size(), -1);
      manager.restore(step, rank.state);
      EXPECT_TRUE(rank.field == field) << step;
      EXPECT_EQ(rank.history, history);
    }
  });
  EXPECT_EQ(encoded("/run/ckpt-1"), 3 * own_chunks);
  EXPECT_EQ(encoded("/run/ckpt-2"), 0);
}

// Each name has an engine of its own.
TEST_P(LearnsToEncode, AlsoUnderOtherNames) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    Rank rank(*group, GetParam());
    CheckpointOptions options;
    options.store = options_.store;
    options.write = options_.write;
    Checkpoint checkpoint(group, rank.state, options);
    for (const auto* name : {"/run/a", "/run/b", "/elsewhere/c"}) {
      rank.set(7);
      checkpoint.write(name);
    }
  });
  EXPECT_EQ(encoded("/run/a"), 2 * own_chunks);
  EXPECT_EQ(encoded("/run/b"), 0);
  EXPECT_EQ(encoded("/elsewhere/c"), 2 * own_chunks) << "another directory may be on another disk";
}

}  // namespace
}  // namespace cairn
