// Checkpoints of TensorFlow, restored by path, by the variables' names, and by name alone.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "support/says.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GoldenObjects : public testing::TestWithParam<int> {
 protected:
  GoldenObjects() { set_log_sink({}); }

  template <class F>
  void job(const std::string& folder, const std::string& name, F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, std::filesystem::path(CAIRN_GOLDEN_DIR) / folder,
                                {.name = name, .read_only = true});
      body(*group, manager);
    });
  }

  // This rank's rows of a [4, 3] matrix, under some key.
  struct SavedRows {
    SavedRows(const Group& group, State& state, const std::string& key)
        : first(4 * group.rank() / group.size()),
          count(4 * (group.rank() + 1) / group.size() - first) {
      values.resize(static_cast<std::size_t>(3 * count));
      state.add(key, slice(values.data(), {4, 3}, {first, 0}, {count, 3}));
    }
    bool are(const std::vector<float>& whole) const {
      return std::equal(values.begin(), values.end(), whole.begin() + 3 * first);
    }
    std::int64_t first, count;
    std::vector<float> values;
  };
};

TEST_P(GoldenObjects, KerasByPathAndByName) {
  job("keras_adam", "ckpt", [](Group& group, CheckpointManager& manager) {
    const std::string key = "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE";
    std::vector<float> whole(12);
    State by_key;
    by_key.add(key, cairn::whole(whole.data(), {4, 3}));
    auto report = manager.restore(1, by_key);
    EXPECT_EQ(report.unused_keys.size(), 14u);  // of 17, less itself and the bookkeeping
    EXPECT_THAT(whole[3], testing::FloatNear(0.8746827f, 1e-7f));

    State state;
    std::vector<SavedRows> rows;
    rows.reserve(4);
    for (const std::string path :
         {"optimizer/_trainable_variables/0", "model/_functional/_operations/1/_kernel",
          "model/optimizer/_trainable_variables/0", "sequential/hidden/kernel"}) {
      rows.emplace_back(group, state, path);
    }
    std::int64_t step = 0;
    std::vector<float> velocity(2);
    state.add("step", step).add("optimizer/_velocities/3", velocity);
    manager.restore(1, state);
    for (const auto& one : rows) EXPECT_TRUE(one.are(whole));
    EXPECT_EQ(step, 3);

    std::vector<float> same(2);
    State by_name;
    by_name.add("v", same).name("v", "adam/sequential_out_bias_velocity");
    manager.restore(1, by_name);
    EXPECT_EQ(same, velocity);
  });
}

TEST_P(GoldenObjects, SlotsOfCompatV1) {
  job("v1_adam_slots", "ckpt", [](Group&, CheckpointManager& manager) {
    std::vector<float> slot(1), named(1), keyed(1);
    State state;
    state.add(slot_path("opt", "net/w", "m"), slot);
    state.add("Variable/Adam_2", named);
    state.add("net/w/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE", keyed);
    manager.restore(1, state);
    EXPECT_NE(slot[0], 0.0f);
    EXPECT_EQ(named, slot);
    EXPECT_EQ(keyed, slot);

    State several;
    several.add("Variable", slot);
    try {
      manager.restore(1, several);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), test::Says("key 'Variable' means several tensors"));
      EXPECT_THAT(error.what(), HasSubstr("'net/v/.ATTRIBUTES/VARIABLE_VALUE', "
                                          "'net/w/.ATTRIBUTES/VARIABLE_VALUE'"));
    }
  });
}

TEST_P(GoldenObjects, OddNames) {
  job("objects", "ckpt", [](Group&, CheckpointManager& manager) {
    float dot = 0, by_key = 0;
    std::vector<double> slash(2);
    std::vector<std::string> text(2);
    std::int32_t first = 0;
    State state;
    state.add("a.b", dot).add("a..b/.ATTRIBUTES/VARIABLE_VALUE", by_key);
    state.add("a/b", slash).add("text", text).add("list/0", first);
    manager.restore(1, state);
    EXPECT_NE(dot, 0.0f);
    EXPECT_EQ(std::memcmp(&dot, &by_key, sizeof dot), 0);
    EXPECT_NE(slash[0], 0.0);
    EXPECT_NE(first, 0);
    EXPECT_THAT(text, ElementsAre("x", "yy"));
  });
}

TEST_P(GoldenObjects, NameBasedCheckpoints) {
  job("v1_saver", "model", [](Group&, CheckpointManager& manager) {
    std::vector<float> emb(30), b(4), same(4);
    std::int64_t step = 0;
    State state;
    state.add("emb", whole(emb.data(), {10, 3})).add("scope/b:0", b).add("global_step", step);
    state.add("net/layer/bias", same).name("net/layer/bias", "scope/b");
    const auto report = manager.restore(7, state);
    EXPECT_THAT(report.unused_keys, IsEmpty());
    EXPECT_NE(b[0], 0.0f);
    EXPECT_EQ(same, b);
    EXPECT_FALSE(manager.open(7).graph);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GoldenObjects, testing::Values(1, 3, 5));

}  // namespace
}  // namespace cairn
