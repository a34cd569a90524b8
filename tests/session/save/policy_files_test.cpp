// Sharding policies and the choice of writers: what is saved under them is restored to the same
// bits on any number of ranks, from files of the right sizes.
#include <gtest/gtest.h>

#include <map>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "examples/sharding_policies/policies.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using Shards = std::vector<Shard>;

TEST(Writers, StringsCountInTheBalance) {
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::string a(8000, 'a'), b(8000, 'b');
    std::vector<double> few(20);
    State state;
    state.add("few", few).add("a", a).add("b", b);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    const auto contents = manager.open(1);
    EXPECT_NE(contents.find("a")->slices[0].file, contents.find("b")->slices[0].file);
  });
}

// Each of four ranks holds the same 4 MiB and writes a quarter: in slices, or as a part of one
// plain entry for a dtype that TensorFlow cannot assemble.
TEST(Writers, HoldersOfALargeReplicaShareTheWork) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  const test::Sample w{"w", DType::float32, {1024, 1024}}, h{"h", DType::float16, {2048, 1024}};
  const auto add = [&](test::SampleState& mine, const test::Sample& sample, Storage storage) {
    mine.add(sample, {Box::whole(sample.shape)}, 0,
             [&](LocalTensor tensor) { return stored(storage, std::move(tensor)); });
  };
  const auto save = [&](std::int64_t step, const test::Sample& sample, Storage storage) {
    run_threads(4, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(5);
      add(mine, sample, storage);
      mine.fill();
      CheckpointManager(group, "/run", options).save(step, mine.state());
    });
    run_threads(3, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(5);
      add(mine, sample, Storage::automatic);
      CheckpointManager(group, "/run", options).restore(step, mine.state());
      EXPECT_EQ(mine.check(5), "");
    });
    auto reading = options;
    reading.read_only = true;
    return CheckpointManager(serial_group(), "/run", reading).open(step);
  };
  auto contents = save(1, w, Storage::automatic);
  const auto& slices = contents.find("w")->slices;
  ASSERT_EQ(slices.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(slices[i].stored_bytes, 1 << 20);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(slices[i].file, slices[j].file);
  }
  EXPECT_EQ(save(2, w, Storage::sliced).find("w")->slices.size(), 1u);
  contents = save(3, h, Storage::automatic);
  EXPECT_FALSE(contents.find("h")->sliced);
  EXPECT_EQ(contents.find("h")->slices.size(), 1u);
}

// Only the box of a piece tells its size.
TEST(Pieces, ArePackedByTheirOwnSize) {
  struct Halves : ShardingCallback {
    std::string description() const override { return "halves, with the bytes of the whole"; }
    Shards operator()(const std::vector<ShardableTensor>& tensors) const override {
      Shards shards(1);
      for (auto tensor : tensors) {
        tensor.slice.extent[0] = 1000;
        add_to(shards[0], tensor);
        tensor.slice = {{1000}, {tensor.shape[0] - 1000}};
        add_to(shards[0], tensor);
      }
      return shards;
    }
  };
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.policy = std::make_shared<Halves>();
  std::vector<std::uint8_t> large(65536);  // large enough to begin on a page
  State state;
  state.add("large", large);
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  const auto contents = manager.open(1);
  EXPECT_EQ(contents.find("large")->slices.at(1).offset, 1000);
}

/// Cuts and groups at random, differently on each rank.
class RandomPolicy : public ShardingCallback {
 public:
  explicit RandomPolicy(unsigned seed) : seed_(seed) {}
  std::string description() const override { return "random"; }
  Shards operator()(const std::vector<ShardableTensor>& tensors) const override {
    boxes::Random random(seed_ + static_cast<unsigned>(tensors.front().task.task));
    Shards shards(static_cast<std::size_t>(boxes::draw(random, 1, 5)));
    for (const auto& tensor : tensors) {
      std::vector<Box> pieces{tensor.slice};
      if (tensor.dtype != DType::string && !tensor.slice.empty())
        pieces = boxes::guillotine(random, tensor.slice,
                                   static_cast<std::size_t>(boxes::draw(random, 1, 5)));
      for (auto& piece : pieces) {
        add_to(shards[random() % shards.size()], piece_of(tensor, std::move(piece)));
      }
    }
    return shards;
  }

 private:
  unsigned seed_;
};

std::shared_ptr<const ShardingCallback> some_policy(unsigned seed, std::int64_t& limit) {
  boxes::Random random(seed);
  limit = 0;
  switch (seed % 4) {
    case 0:
      limit = boxes::draw(random, 16, 700);
      return std::make_shared<MaxShardSizePolicy>(limit);
    case 1:
      return std::make_shared<ParameterPolicy>(static_cast<int>(boxes::draw(random, 1, 5)));
    case 2:
      return std::make_shared<RandomPolicy>(seed);
    default:
      limit = boxes::draw(random, 16, 64);
      return std::make_shared<MaxShardSizePolicy>(limit);
  }
}

/// Only a data file with a single tensor, which may not be cut or is dense, may be above the limit.
void expect_files_within(const CheckpointContents& contents, std::int64_t limit) {
  struct File {
    std::int64_t bytes = 0;
    int entries = 0;
    bool may_be_cut = false;
  };
  std::map<int, File> files;
  for (const auto& tensor : contents.tensors) {
    for (const auto& one : tensor.slices) {
      files[one.file].bytes += one.stored_bytes;
      files[one.file].entries += one.stored_bytes > 0;
      files[one.file].may_be_cut |= dtype_assembles_in_tensorflow(tensor.dtype);
    }
  }
  for (const auto& [number, file] : files) {
    EXPECT_TRUE(file.bytes <= limit || (!file.may_be_cut && file.entries == 1))
        << "file " << number << " has " << file.bytes << " bytes of " << file.entries;
  }
}

class PolicyNToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(PolicyNToM, WhatIsSavedIsRestoredToTheSameBits) {
  set_log_sink({});
  const auto [n, m] = GetParam();
  for (unsigned turn = 0; turn < static_cast<unsigned>(test::rounds(4)); ++turn) {
    const unsigned seed = 4 * static_cast<unsigned>(7 * n + m) + turn;
    SCOPED_TRACE(cat("seed ", seed));
    const test::NToMCase one(n, m, seed);
    ManagerOptions options;
    options.write.file_system = std::make_shared<io::MemoryFileSystem>();
    std::int64_t limit = 0;
    options.store.policy = some_policy(seed, limit);
    run_threads(n, [&](auto group) { one.save(group, "/run", options); });
    options.store.policy = nullptr;
    run_threads(m, [&](auto group) { EXPECT_EQ(one.restore(group, "/run", options), ""); });
    if (limit > 0) {
      options.read_only = true;
      expect_files_within(CheckpointManager(serial_group(), "/run", options).open(7), limit);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, PolicyNToM,
                         testing::Combine(testing::ValuesIn(test::rank_counts()),
                                          testing::ValuesIn(test::rank_counts())),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

}  // namespace
}  // namespace cairn
