// Every mesh that one to eight ranks allow, every layout on it, into other meshes.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/mesh.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/sample_state.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::Sample;

// Meshes of up to three dimensions, also of size 1.
std::vector<Mesh> meshes_of(int ranks) {
  std::vector<Mesh> all{Mesh({{"x", ranks}})};
  for (int x = 1; x <= ranks; ++x) {
    if (ranks % x != 0) continue;
    all.push_back(Mesh({{"x", x}, {"y", ranks / x}}));
    for (int y = 2; y < ranks / x; ++y) {
      if (x > 1 && ranks / x % y == 0) {
        all.push_back(Mesh({{"x", x}, {"y", y}, {"z", ranks / x / y}}));
      }
    }
  }
  return all;
}

std::vector<Layout> layouts_on(const Mesh& mesh, std::size_t tensor_rank) {
  std::vector<std::vector<std::string>> shardings{{}};
  for (std::size_t d = 0; d < tensor_rank; ++d) {
    std::vector<std::vector<std::string>> longer;
    for (const auto& begun : shardings) {
      auto one = begun;
      one.push_back(unsharded);
      longer.push_back(one);
      for (const auto& dimension : mesh.dimensions()) {
        if (std::find(begun.begin(), begun.end(), dimension.name) != begun.end()) continue;
        one.back() = dimension.name;
        longer.push_back(one);
      }
    }
    shardings = std::move(longer);
  }
  std::vector<Layout> all;
  for (const auto& sharding : shardings) all.emplace_back(sharding, mesh);
  return all;
}

// One tensor for each layout, uneven in both dimensions.
std::vector<std::pair<Sample, Layout>> tensors_on(const Mesh& mesh) {
  static constexpr DType dtypes[] = {DType::float32, DType::float16, DType::int64};
  std::vector<std::pair<Sample, Layout>> all;
  for (std::size_t rank = 0; rank <= 2; ++rank) {
    for (const auto& layout : layouts_on(mesh, rank)) {
      const Dims shapes[] = {{}, {7}, {7, 5}};
      all.push_back({{cat("t", all.size()), dtypes[all.size() % 3], shapes[rank]}, layout});
    }
  }
  return all;
}

void add(test::SampleState& state, const Sample& sample, const Layout& layout, int rank,
         int style) {
  state.add(sample, {layout.slice(sample.shape, rank)}, style,
            [&](LocalTensor tensor) { return laid_out(std::move(tensor), layout, rank); });
}

std::vector<std::string> specs(const StoredTensor& tensor) {
  std::vector<std::string> all;
  for (const auto& slice : tensor.slices) {
    all.push_back(to_string(SliceSpec{tensor.shape, slice.box, slice.dash, false}));
  }
  return all;
}

class Meshes : public testing::TestWithParam<int> {};

TEST_P(Meshes, AnyLayoutToAnyOther) {
  const int n = GetParam();
  std::mt19937 random(static_cast<unsigned>(n));
  for (const auto& mesh : meshes_of(n)) {
    const auto tensors = tensors_on(mesh);
    ManagerOptions options;
    options.write.file_system = std::make_shared<io::MemoryFileSystem>();
    options.write.chunk_bytes = 4096;
    run_threads(n, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(1);
      for (const auto& [sample, layout] : tensors) add(mine, sample, layout, group->rank(), 0);
      mine.fill();
      CheckpointManager(group, "/run", options).save(1, mine.state());
    });

    // As DTensor spells layouts: numbers for a dimension that is cut, "-" for one that is not;
    // replicas appear once.
    const auto contents = read_contents(*options.write.file_system, "/run/ckpt-1");
    for (const auto& [sample, layout] : tensors) {
      const auto* stored = contents.find(sample.key);
      ASSERT_TRUE(stored);
      std::set<std::string> right;
      bool cut = false;
      for (int rank = 0; rank < n; ++rank) {
        const auto box = layout.slice(sample.shape, rank);
        cut |= box != Box::whole(sample.shape);
        if (!box.empty()) {
          right.insert(to_string(SliceSpec{sample.shape, box, layout.dash(), false}));
        }
      }
      EXPECT_EQ(stored->sliced, cut) << to_string(layout);
      if (!cut) continue;
      const auto found = specs(*stored);
      EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), right) << to_string(layout);
      EXPECT_EQ(found.size(), right.size());
    }

    const int m = 1 + static_cast<int>(random() % 8);
    const auto others = meshes_of(m);
    const auto& other = others[random() % others.size()];
    std::vector<Layout> wanted;
    for (const auto& [sample, layout] : tensors) {
      const auto all = layouts_on(other, sample.shape.size());
      wanted.push_back(all[random() % all.size()]);
    }
    run_threads(m, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(1);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        add(mine, tensors[i].first, wanted[i], group->rank(), static_cast<int>(i % 3));
      }
      CheckpointManager manager(group, "/run", options);
      ASSERT_TRUE(manager.restore_latest(mine.state()));
      EXPECT_EQ(mine.check(1), "") << to_string(mesh) << " to " << to_string(other);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Meshes, testing::Range(1, 9));

TEST(Meshes, ADenseRequestWinsOverTheLayout) {
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  const Sample sample{"u", DType::float32, {4, 6}};
  run_threads(4, [&](std::shared_ptr<Group> group) {
    const Layout layout({"x", unsharded}, Mesh({{"x", 2}, {"y", 2}}));
    test::SampleState mine(1);
    mine.add(sample, {layout.slice(sample.shape, group->rank())}, 0, [&](LocalTensor tensor) {
      return stored(Storage::dense, laid_out(std::move(tensor), layout, group->rank()));
    });
    mine.fill();
    CheckpointManager manager(group, "/run", options);
    manager.save(1, mine.state());
    EXPECT_FALSE(manager.open(1).find("u")->sliced);
    mine.poison();
    ASSERT_TRUE(manager.restore_latest(mine.state()));
    EXPECT_EQ(mine.check(1), "");
  });
}

// A policy that cuts each tensor in two.
class Halves : public ShardingCallback {
 public:
  std::string description() const override { return "halves"; }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    std::vector<Shard> shards(1);
    for (const auto& tensor : tensors) {
      auto low = tensor, high = tensor;
      low.slice.extent[1] /= 2;
      high.slice.start[1] += low.slice.extent[1];
      high.slice.extent[1] -= low.slice.extent[1];
      shards[0][tensor.key][low.slice] = low;
      shards[0][tensor.key][high.slice] = high;
    }
    return shards;
  }
};

TEST(Meshes, WhatAPolicyCutsFurtherIsNoLongerWholeThere) {
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.policy = std::make_shared<Halves>();
  const Layout layout({"x", unsharded}, Mesh({{"x", 2}}));
  const Sample sample{"u", DType::float32, {2, 6}};
  run_threads(2, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    add(mine, sample, layout, group->rank(), 0);
    mine.fill();
    CheckpointManager(group, "/run", options).save(1, mine.state());
  });
  const auto contents = read_contents(*options.write.file_system, "/run/ckpt-1");
  EXPECT_EQ(specs(*contents.find("u")),
            (std::vector<std::string>{"2 6 0,1:0,3", "2 6 0,1:3,3", "2 6 1,1:0,3", "2 6 1,1:3,3"}));
}

}  // namespace
}  // namespace cairn
