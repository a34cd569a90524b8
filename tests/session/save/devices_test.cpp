// Devices of a task: how policies see them, and in which data files they end up; and what else
// policies see of a state.
#include <gmock/gmock.h>

#include <mutex>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Records its calls, and answers as another policy does.
class Watching : public ShardingCallback {
 public:
  explicit Watching(std::shared_ptr<const ShardingCallback> policy = nullptr)
      : policy_(policy ? std::move(policy) : std::make_shared<ShardByTaskPolicy>()) {}
  std::string description() const override { return policy_->description(); }
  std::optional<std::string> parameters() const override { return policy_->parameters(); }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    const std::lock_guard guard(mutex_);
    calls_.push_back(tensors);
    return (*policy_)(tensors);
  }

  /// Returns and forgets the calls, ascending by task: "key on /job:…, key on …".
  std::vector<std::string> take() {
    const std::lock_guard guard(mutex_);
    std::sort(calls_.begin(), calls_.end(), [](const auto& a, const auto& b) {
      return to_string(a.front().task) < to_string(b.front().task);
    });
    std::vector<std::string> texts;
    for (const auto& call : calls_) {
      auto& text = texts.emplace_back();
      for (const auto& tensor : call) {
        text += cat(text.empty() ? "" : ", ", tensor.key, " on ", to_string(tensor.task));
      }
    }
    calls_.clear();
    return texts;
  }
  const std::vector<std::vector<ShardableTensor>>& calls() const { return calls_; }

 private:
  std::shared_ptr<const ShardingCallback> policy_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<ShardableTensor>> calls_;
};

LocalTensor on(const char* type, std::optional<int> index, LocalTensor tensor) {
  tensor.device_type = type;
  tensor.device_index = index;
  return tensor;
}

class Devices : public testing::Test {
 protected:
  Devices() { options_.write.file_system = files_; }

  // Three rows on each rank: on its CUDA:0, on its CUDA:1, and on a device without a name.
  void save(std::int64_t step) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      const auto rank = group->rank();
      std::vector<float> a(4, 1.f + static_cast<float>(rank)), b(4, 3.f), c(4, 4.f), d(4, 5.f);
      const auto row = [&](std::vector<float>& data) {
        return slice(data.data(), {2, 4}, {rank, 0}, {1, 4});
      };
      State state;
      state.add("unnamed", on("CUDA", std::nullopt, row(c)));
      state.add("second", on("CUDA", 1, row(b)));
      state.add("first", on("CUDA", 0, row(a)));
      state.add("host", row(d));
      CheckpointManager(group, "/run", options_).save(step, state);
    });
    contents_ = CheckpointManager(serial_group(), "/run", reading()).open(step);
  }
  ManagerOptions reading() const {
    auto options = options_;
    options.store.policy = nullptr;
    options.read_only = true;
    return options;
  }
  // "host,second" for each data file.
  std::vector<std::string> keys_of_files() const {
    std::map<int, std::string> files;
    for (const auto& tensor : contents_.tensors) {
      for (const auto& one : tensor.slices) {
        auto& keys = files[one.file];
        keys += cat(keys.empty() ? "" : ",", tensor.key);
      }
    }
    std::vector<std::string> all;
    for (auto& [file, keys] : files) all.push_back(std::move(keys));
    return all;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  CheckpointContents contents_;
};

constexpr const char* first_task = "/job:worker/replica:0/task:";

// The ranks are on one node, so a device without a number is rank 1's CUDA:1.
TEST_F(Devices, NumberZeroIsANumber) {
  const auto policy = std::make_shared<Watching>();
  options_.store.policy = policy;
  save(1);
  const auto call = [](int rank) {
    const auto device = cat(first_task, rank, "/device:");
    return cat("unnamed on ", device, "CUDA:", rank, ", second on ", device, "CUDA:1, first on ",
               device, "CUDA:0, host on ", device, "CPU:0");
  };
  EXPECT_THAT(policy->take(), ElementsAre(call(0), call(1)));
}

TEST_F(Devices, OfATaskShareItsShard) {
  save(1);
  const std::string all = "first,host,second,unnamed";
  EXPECT_THAT(keys_of_files(), ElementsAre(all, all));
  EXPECT_EQ(contents_.num_files, 3) << "one more for the metadata";
}

TEST_F(Devices, HaveShardsOfTheirOwnWhereThePolicySaysSo) {
  const auto watching = std::make_shared<Watching>();
  options_.store.policy = std::make_shared<PerDevicePolicy>(watching);
  save(1);
  const auto device = [](int rank) { return cat(first_task, rank, "/device:"); };
  const auto on_device = [&](int rank, const char* key, const char* name) {
    return cat(key, " on ", device(rank), name);
  };
  EXPECT_THAT(
      watching->take(),
      ElementsAre(on_device(0, "host", "CPU:0"),
                  cat(on_device(0, "unnamed", "CUDA:0"), ", first on ", device(0), "CUDA:0"),
                  on_device(0, "second", "CUDA:1"), on_device(1, "host", "CPU:0"),
                  on_device(1, "first", "CUDA:0"),
                  cat(on_device(1, "unnamed", "CUDA:1"), ", second on ", device(1), "CUDA:1")));
  EXPECT_THAT(keys_of_files(),
              ElementsAre("host", "first,unnamed", "second", "host", "first", "second,unnamed"));
  EXPECT_EQ(contents_.num_files, 7);
  EXPECT_EQ(contents_.meta->policy, "each device apart: all tensors of a task in one shard");
}

TEST_F(Devices, PatchesKeepTheirs) {
  const auto policy = std::make_shared<Watching>();
  options_.store.policy = std::make_shared<PerDevicePolicy>(policy);
  std::vector<float> low(4, 1), high(4, 2), rest(4, 3);
  const auto state_of = [&](int second) {
    State state;
    state.add("u", patches({on("CUDA", 0, slice(low.data(), {12}, {0}, {4})),
                            on("CUDA", second, slice(high.data(), {12}, {4}, {4})),
                            slice(rest.data(), {12}, {8}, {4})}));
    return state;
  };
  const auto device = [](const char* name) { return cat("u on ", first_task, "0/device:", name); };
  CheckpointManager manager(serial_group(), "/run", options_);
  manager.save(1, state_of(1));
  EXPECT_THAT(policy->take(), ElementsAre(device("CPU:0"), device("CUDA:0"), device("CUDA:1")));
  manager.save(2, state_of(1));
  EXPECT_THAT(policy->take(), IsEmpty()) << "the plan serves again";
  manager.save(3, state_of(7));
  EXPECT_THAT(policy->take(), ElementsAre(device("CPU:0"), device("CUDA:0"), device("CUDA:7")));
  const auto contents = manager.open(3);
  const auto& slices = contents.find("u")->slices;
  EXPECT_EQ(slices.at(2).file, 0);
  EXPECT_EQ(slices.at(0).file, 1);
  EXPECT_EQ(slices.at(1).file, 2);

  std::vector<std::string> asked;
  options_.store.device_of = [&](int rank, const LocalTensor& tensor) {
    asked.push_back(cat(tensor.device_type, tensor.device_index.value_or(-1), " of ",
                        tensor.slices.size(), " from ", tensor.slices.front().box.start[0]));
    return DeviceTask{.task = rank};
  };
  CheckpointManager(serial_group(), "/other", options_).save(1, state_of(1));
  EXPECT_THAT(asked, ElementsAre("CUDA0 of 3 from 0", "CUDA1 of 1 from 4", "CPU-1 of 1 from 8"));
}

TEST_F(Devices, TasksOfOneRankAreCalledApart) {
  const auto policy = std::make_shared<Watching>();
  options_.store.policy = policy;
  options_.store.device_of = [](int rank, const LocalTensor& tensor) {
    DeviceTask one;
    one.task = 10 * rank + (tensor.device_type == "CPU");
    one.device_index = tensor.device_index.value_or(5);
    return one;
  };
  save(1);
  EXPECT_EQ(policy->calls().size(), 4u);
  EXPECT_THAT(keys_of_files(),
              ElementsAre("first,second,unnamed", "host", "first,second,unnamed", "host"));
}

/// Reads the state itself, as a policy that looks at memory or storage does.
class Looking : public ShardByTaskPolicy {
 public:
  explicit Looking(const State& state) : state_(&state) {}
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    seen.clear();
    for (const auto& tensor : tensors) {
      seen.push_back(cat(tensor.name, " <- ",
                         tensor.owner ? state_->tensors().at(*tensor.owner).first : "nothing"));
    }
    return ShardByTaskPolicy::operator()(tensors);
  }
  mutable std::vector<std::string> seen;

 private:
  const State* state_;
};

struct NamedState {
  double x = 1;
  std::vector<float> rows = std::vector<float>(3);
  std::vector<std::uint8_t> random = std::vector<std::uint8_t>(5);
  std::vector<std::string> words{"w"};
  State state;
  NamedState() {
    state.add("x", x).add("rows", ragged(rows)).add("words", words);
    state.add("random", rank_private(random));
    state.name("x", "the x").name("words", "some words").name("random", "dice");
  }
};

TEST(PoliciesSee, NamesAndOwnersOfTheStateAndNothingBeyondIt) {
  set_log_sink({});
  NamedState mine;
  const auto policy = std::make_shared<Looking>(mine.state);
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.policy = policy;
  {
    CheckpointManager manager(serial_group(), "/plain", options);
    manager.save(1, mine.state);
    EXPECT_THAT(policy->seen,
                ElementsAre("the x <- x", "rows <- rows", "some words <- words", "dice <- random"));
  }
  options.store.object_graph = true;
  const auto attribute = [](const char* key) { return cat(key, "/.ATTRIBUTES/VARIABLE_VALUE"); };
  {
    CheckpointManager manager(serial_group(), "/objects", options);
    manager.save(1, mine.state);
    EXPECT_THAT(policy->seen,
                ElementsAre("the x <- x", cat(attribute("rows"), " <- rows"), "some words <- words",
                            "dice <- random", cat(attribute("save_counter"), " <- nothing"),
                            "_CHECKPOINTABLE_OBJECT_GRAPH <- nothing"));
    EXPECT_TRUE(manager.restore_latest(mine.state));
  }
  for (const bool graph : {false, true}) {
    CheckpointOptions facing;
    facing.write.file_system = options.write.file_system;
    facing.store.policy = policy;
    facing.store.object_graph = graph;
    Checkpoint checkpoint(serial_group(), mine.state, facing);
    checkpoint.save(graph ? "/facing/graph" : "/facing/keys");
    const auto counter = graph ? attribute("save_counter") : std::string("save_counter");
    ASSERT_GE(policy->seen.size(), 5u);
    EXPECT_EQ(policy->seen[0], "the x <- x");
    EXPECT_EQ(policy->seen[4], cat(counter, " <- nothing"));
    EXPECT_EQ(policy->seen.size(), graph ? 6u : 5u);
  }
}

TEST(PoliciesSee, ANewNameAtTheNextSave) {
  double x = 1;
  const auto state_called = [&](const char* name) {
    State state;
    state.add("x", x).name("x", name);
    return state;
  };
  State state = state_called("first");
  const auto policy = std::make_shared<Looking>(state);
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.policy = policy;
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  EXPECT_THAT(policy->seen, ElementsAre("first <- x"));
  policy->seen.clear();
  manager.save(2, state);
  EXPECT_THAT(policy->seen, IsEmpty()) << "the plan serves again";
  manager.save(3, state_called("second"));
  EXPECT_THAT(policy->seen, ElementsAre("second <- x"));
}

}  // namespace
}  // namespace cairn
