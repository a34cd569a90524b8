// How much a comparison of replicas reads, and when.
#include <algorithm>
#include <map>
#include <random>

#include "cairn/checkpoint.hpp"
#include "session/save/replicas.hpp"
#include "session/save/replicas_kit.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::Replicas;
using testing::ElementsAre;
using testing::HasSubstr;

class ReplicaReads : public Replicas {};

// Counts what a holder reads of its memory.
class Counted : public SliceMemory {
 public:
  Counted(std::vector<float>& values, Dims extent, std::int64_t& count, bool is_bad = false)
      : values_(values), extent_(std::move(extent)), count_(count), is_bad_(is_bad) {}
  void read(const Box& part, std::byte* out) const override {
    if (is_bad_) throw Error(Code::io, "the device is lost");
    count_ += part.count();
    host_memory(DType::float32, values_.data(), nullptr, extent_, {})->read(part, out);
  }
  void write(const Box&, const std::byte*) override {}
  bool writable() const override { return false; }

 private:
  std::vector<float>& values_;
  Dims extent_;
  std::int64_t& count_;
  bool is_bad_;
};

// Cuts each slice in columns, so that no piece is contiguous in the slice.
class Columns : public ShardingCallback {
 public:
  std::string description() const override { return "columns"; }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    Shard shard;
    for (const auto& tensor : tensors) {
      for (std::int64_t at = 0; at < tensor.slice.extent[1]; at += 50) {
        auto box = tensor.slice;
        box.start[1] += at;
        box.extent[1] = std::min<std::int64_t>(50, box.extent[1] - at);
        add_to(shard, piece_of(tensor, box));
      }
    }
    return {shard};
  }
};

TEST_F(ReplicaReads, WritersReadOnceWhatTheyWriteInRuns) {
  constexpr std::int64_t all = 300 * 200;
  const Dims shape{300, 200};
  const auto reads = [&](std::size_t changed = 0) {
    std::vector<std::int64_t> counts(3);
    const auto text = save(3, [&](int rank, State& state) {
      auto u = std::make_shared<std::vector<float>>(all, 1.0f);
      if (rank == 1 && changed) (*u)[changed] = 2;
      auto tensor = nothing(DType::float32, shape);
      tensor.slices.push_back(
          {Box::whole(shape),
           std::make_shared<Counted>(*u, shape, counts[static_cast<std::size_t>(rank)])});
      state.add("u", tensor);
      return u;
    });
    if (changed) {
      EXPECT_THAT(text, HasSubstr(cat("in rows ", changed / 200, "..", changed / 200, " × ")));
    } else {
      EXPECT_EQ(text, "");
    }
    std::sort(counts.begin(), counts.end());
    return counts;
  };
  EXPECT_THAT(reads(), ElementsAre(all, all, all));
  options_.store.replicas.check = ReplicaCheck::none;
  EXPECT_THAT(reads(), ElementsAre(0, 0, all));
  options_.store.replicas.check = ReplicaCheck::all;
  options_.store.policy = std::make_shared<MaxShardSizePolicy>(8000);
  EXPECT_THAT(reads(), ElementsAre(all, all, all));
  reads(123 * 200 + 199);
  options_.store.policy = std::make_shared<Columns>();
  EXPECT_THAT(reads(), ElementsAre(all, all, 2 * all));
  reads(123 * 200 + 199);
  options_.store.policy = nullptr;
  options_.store.replicas = {.check = ReplicaCheck::sample, .sample_of = 4};
  // 240,000 bytes make four parts of 75 rows, and the writer looks at its own once more.
  EXPECT_THAT(reads(), ElementsAre(all / 4, all / 4, all + all / 4));
}

TEST_F(ReplicaReads, AHolderThatCannotBeReadIsAnErrorOfAll) {
  const auto text = save(4, [&](int rank, State& state) {
    struct Memory {
      std::vector<float> u = std::vector<float>(4, 1.0f);
      std::int64_t count = 0;
    };
    auto memory = std::make_shared<Memory>();
    auto tensor = nothing(DType::float32, {4});
    tensor.slices.push_back(
        {Box::whole({4}), std::make_shared<Counted>(memory->u, Dims{4}, memory->count, rank == 3)});
    state.add("u", tensor);
    return memory;
  });
  EXPECT_THAT(text, test::Says("3: the device is lost"));
}

TEST_F(ReplicaReads, AnyRowOfSamplesComparesEverything) {
  options_.keep.last = 0;  // no run here lets another's checkpoints go, and is warned of that
  options_.store.replicas = {
      .check = ReplicaCheck::sample, .sample_of = 4, .divergence_is_error = false};
  const Dims shapes[] = {{100000}, {3, 40000}, {7, 11, 13, 17}};  // 391, 469 and 67 KiB
  std::mt19937 random(20);
  for (int round = 0; round < (test::sanitized ? 3 : 12); ++round) {
    const auto t = static_cast<std::size_t>(round) % 3;
    const auto at = random() % static_cast<std::size_t>(element_count(shapes[t]));
    int found = 0;
    for (int round = 0; round < 4; ++round) {
      warnings_.clear();
      // The manager is another one each time: the count goes on after a restart.
      EXPECT_EQ(save(3,
                     [&](int rank, State& state) {
                       auto u = std::make_shared<std::vector<std::vector<float>>>(3);
                       for (std::size_t i = 0; i < 3; ++i) {
                         (*u)[i].assign(static_cast<std::size_t>(element_count(shapes[i])), 1.0f);
                         if (i == t && rank == 2) (*u)[i][at] = 0;
                         state.add(cat("t", i), whole((*u)[i].data(), shapes[i]));
                       }
                       return u;
                     }),
                "");
      found += !warnings_.empty();
      for (const auto& text : warnings_) EXPECT_THAT(text, HasSubstr(cat("tensor 't", t, "'")));
    }
    EXPECT_EQ(found, 1) << "round " << round << ", element " << at;
  }
}

TEST_F(ReplicaReads, AfterADivergenceTheNextSaveOfASampleComparesEverything) {
  options_.store.replicas = {.check = ReplicaCheck::sample, .sample_of = 8};
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    std::vector<float> u(1 << 17, 1.0f);
    std::vector<float> v(1 << 17, 1.0f);
    float scalar = 0;
    State state;
    state.add("u", u).add("v", v).add("w", scalar);
    auto saves = [&, step = std::int64_t{0}]() mutable {
      try {
        manager.save(++step, state);
        return true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::disagreement);
        return false;
      }
    };
    u[70000] = v[12345] = static_cast<float>(group->rank());
    int first = 1;
    while (saves()) ++first;
    EXPECT_LE(first, 8);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(saves());
    u[70000] = 0;
    EXPECT_FALSE(saves());  // v still differs
    v[12345] = 0;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(saves());
    scalar = static_cast<float>(group->rank());
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(saves());
  });
}

TEST(ReplicaSamples, OfSomeTurnsMakeUpEachSliceOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<CoveredTensor> tensors;
    for (int t = 0; t < 4; ++t) {
      CoveredTensor one{cat("t", t), DType::float64, {}, {}};
      const auto rank = 1 + random() % 4;
      for (std::size_t d = 0; d < rank; ++d) {
        one.shape.push_back(1 + static_cast<std::int64_t>(random() % (rank == 1 ? 400000 : 90)));
      }
      one.slices.push_back({Box::whole(one.shape), {{0, 0}, {1, 0}}});
      tensors.push_back(std::move(one));
    }
    Writers writers(4, std::vector<int>{1});
    const int sample_of = 1 + static_cast<int>(random() % 20);
    const auto first = static_cast<std::int64_t>(random() % 1000);
    std::map<std::string, std::vector<Box>> boxes;
    for (auto round = first; round < first + sample_of; ++round) {
      for (const auto& one : choose_comparisons(tensors, tensors, writers,
                                                {ReplicaCheck::sample, sample_of, round})) {
        EXPECT_THAT(one.stored, ElementsAre(std::pair(Box::whole(one.shape), 1)));
        boxes[one.key].push_back(one.box);
      }
    }
    for (const auto& tensor : tensors) {
      const auto& mine = boxes[tensor.key];
      const auto whole = Box::whole(tensor.shape);
      if (whole.count() * 8 <= small_replica_bytes) {
        EXPECT_EQ(mine, std::vector<Box>(static_cast<std::size_t>(sample_of), whole));
        continue;
      }
      EXPECT_FALSE(find_overlap(mine)) << "seed 7, round " << round;
      EXPECT_FALSE(find_gap(whole, mine)) << "seed 7, round " << round;
    }
  }
}

// Calls of write() with one prefix after the other count as consecutive saves, too.
TEST_F(ReplicaReads, WritesToManyPrefixesTakeSamplesInTurn) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<float> u(1 << 17, 1.0f);
    u[100000] = static_cast<float>(group->rank());
    State state;
    state.add("u", u);
    Checkpoint checkpoint(group, state,
                          {.store = {.replicas = {.check = ReplicaCheck::sample, .sample_of = 4}},
                           .write = {.file_system = files_}});
    int failed = 0;
    for (int i = 0; i < 4 && failed == 0; ++i) {
      try {
        checkpoint.write(cat("/run/at-", i));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::disagreement);
        ++failed;
      }
    }
    EXPECT_EQ(failed, 1);
  });
}

}  // namespace
}  // namespace cairn
