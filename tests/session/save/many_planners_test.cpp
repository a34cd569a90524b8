// Saves and restores of so many slices that several ranks share the planning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "exchange/by_key.hpp"
#include "exchange/coverage.hpp"
#include "exchange/divisions.hpp"
#include "io/file_system.hpp"
#include "layout/bundle/index.hpp"
#include "session/save/formats/save_bundle.hpp"
#include "session/save/prove.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/rounds.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::Sample;

constexpr int tensors = 24, slices = 600, width = 3;

Sample sample_of(int tensor) {
  return {cat("layer/", tensor, "/weights"),
          tensor % 3 ? DType::float64 : DType::int8,
          {slices, width}};
}

std::vector<Box> boxes_of(int tensor, int rank, int ranks) {
  // Each tensor is dealt differently; of every fourth, two ranks hold the first hundred slices.
  std::vector<Box> boxes;
  for (int i = 0; i < slices; ++i) {
    const bool mine = (i / 7 + tensor) % ranks == rank;
    const bool also = tensor % 4 == 0 && i < 100 && (i / 7 + tensor + 1) % ranks == rank;
    if (mine || also) boxes.push_back({{i, 0}, {1, width}});
  }
  return boxes;
}

LocalTensor stored(LocalTensor tensor, Storage storage) {
  tensor.storage = storage;
  return tensor;
}

class ManyPlanners : public testing::Test {
 protected:
  ManyPlanners() { options_.write.file_system = files_; }

  void fill(test::SampleState& mine, int rank, int ranks) const {
    for (int t = 0; t < tensors; ++t) {
      mine.add(sample_of(t), boxes_of(t, rank, ranks), t % 3, [&](LocalTensor tensor) {
        return stored(std::move(tensor), t % 5 ? Storage::sliced : Storage::dense);
      });
    }
    mine.add_string("notes", {"one", "two"});
    mine.fill();
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_F(ManyPlanners, SaveAndRestoreOnOtherRanks) {
  for (const int ranks : test::sanitized ? std::vector<int>{5} : std::vector<int>{2, 5}) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      EXPECT_GT(key_planners(*group, static_cast<std::size_t>(tensors * slices / ranks)).planners,
                ranks > 2 ? 1 : 0);
      test::SampleState mine(static_cast<std::uint64_t>(ranks));
      fill(mine, group->rank(), ranks);
      CheckpointManager(group, "/run", options_).save(ranks, mine.state());
    });
    const auto contents = read_contents(*files_, io::Path(cat("/run/ckpt-", ranks)));
    for (int t = 0; t < tensors; ++t) {
      const auto* tensor = contents.find(sample_of(t).key);
      ASSERT_TRUE(tensor);
      EXPECT_EQ(tensor->slices.size(), t % 5 ? std::size_t{slices} : 1u);
    }
    const auto verified = verify_checkpoint({*files_, io::Path(cat("/run/ckpt-", ranks))});
    EXPECT_EQ(verified.verdict(), Verdict::whole);
    for (const int readers : test::sanitized ? std::vector<int>{3} : std::vector<int>{1, 3, 4}) {
      run_threads(readers, [&](std::shared_ptr<Group> group) {
        test::SampleState mine(static_cast<std::uint64_t>(ranks));
        fill(mine, group->rank(), readers);
        mine.poison();
        ASSERT_TRUE(CheckpointManager(group, "/run", options_).restore_latest(mine.state()));
        EXPECT_EQ(mine.check(static_cast<std::uint64_t>(ranks)), "");
      });
    }
  }
}

TEST_F(ManyPlanners, RefuseWithTheErrorOfTheFirstTensor) {
  constexpr int ranks = 4;
  // One rank leaves out a row of tensors 7 and 20, another holds too much of tensor 13. The first
  // of these keys is "layer/13/…".
  const auto given = [](int tensor, int rank) {
    auto boxes = boxes_of(tensor, rank, ranks);
    if (rank == 2 && (tensor == 7 || tensor == 20)) boxes.pop_back();
    if (rank == 0 && tensor == 13) boxes.front() = {{boxes.front().start[0] - 1, 0}, {2, width}};
    return boxes;
  };
  std::string expected;
  std::vector<Declaration> all;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int t = 0; t < tensors; ++t) {
      const auto sample = sample_of(t);
      all.push_back({sample.key, sample.dtype, sample.shape, rank, given(t, rank)});
    }
  }
  try {
    check_coverage(std::move(all));
  } catch (const Error& error) {
    expected = error.what();
  }
  ASSERT_THAT(expected, testing::HasSubstr("layer/13/"));
  std::mutex mutex;
  std::multiset<std::string> thrown;
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    for (int t = 0; t < tensors; ++t) mine.add(sample_of(t), given(t, group->rank()), 0);
    CheckpointManager manager(group, "/run", options_);
    try {
      manager.save(1, mine.state());
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      thrown.insert(error.what());
      EXPECT_EQ(error.rank(), 0);
    }
  });
  EXPECT_EQ(thrown.size(), std::size_t{ranks});
  EXPECT_EQ(thrown.count(expected), std::size_t{ranks}) << *thrown.begin();
}

// Patches of one tensor that is so large that its regions have planners of their own.
constexpr std::int64_t patches_a_side = 130, patch = 2;
const Dims patched{patches_a_side * patch, patches_a_side* patch};

std::vector<Box> patches_of(int rank, int ranks) {
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < patches_a_side; ++i) {
    for (std::int64_t j = 0; j < patches_a_side; ++j) {
      const auto block = static_cast<int>(i / 3 * 7 + j / 5);
      const bool also = i == 40 && (block + 1) % ranks == rank;
      if (block % ranks == rank || also) {
        boxes.push_back({{i * patch, j * patch}, {patch, patch}});
      }
    }
  }
  return boxes;
}

Declaration declared(const char* key, int rank, int ranks) {
  return {key, DType::int16, patched, rank, patches_of(rank, ranks)};
}

struct Patched {
  Patched(const char* key, Storage storage, int rank, int ranks) : boxes(patches_of(rank, ranks)) {
    values.resize(boxes.size() * patch * patch);
    auto tensor = nothing(DType::int16, patched);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      auto one = slice(values.data() + i * patch * patch, patched, boxes[i].start, boxes[i].extent);
      tensor.slices.push_back(std::move(one.slices[0]));
    }
    state.add(key, stored(std::move(tensor), storage));
  }
  template <class Visit>
  void each_value(const Visit& visit) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::int64_t e = 0; e < patch * patch; ++e) {
        const auto row = boxes[i].start[0] + e / patch, column = boxes[i].start[1] + e % patch;
        visit(values[i * patch * patch + static_cast<std::size_t>(e)],
              static_cast<std::int16_t>(row * 331 + column));
      }
    }
  }
  std::vector<Box> boxes;
  std::vector<std::int16_t> values;
  State state;
};

TEST_F(ManyPlanners, DivideATensorOfVeryManySlices) {
  for (const auto storage : {Storage::sliced, Storage::automatic}) {
    if (test::sanitized && storage == Storage::automatic) continue;
    constexpr int ranks = 4;
    const int first = storage == Storage::sliced ? 1 : 3;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      {
        const std::vector<Declaration> all{declared("u", rank, ranks)};
        SliceCounts counts(all);
        group->all_reduce(counts.values(), Group::Op::sum);
        const auto divided = divide(*group, all, counts, key_planners_for(*group, counts.all()));
        ASSERT_EQ(divided.find("u"), 0);
        EXPECT_GT(divided[0].regions.count(), 1);
        EXPECT_GT(divided[0].runs.count(), 1);
      }
      Patched mine("u", storage, rank, ranks);
      mine.each_value([](auto& value, auto expected) { value = expected; });
      CheckpointManager manager(group, "/run", options_);
      for (int step = 0; step < 2; ++step) manager.save(first + step, mine.state);
    });
    const io::Path prefix(cat("/run/ckpt-", first + 1));
    EXPECT_EQ(verify_checkpoint({*files_, prefix}).verdict(), Verdict::whole);
    const auto contents = read_contents(*files_, prefix);
    const auto* tensor = contents.find("u");
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->slices.size(),
              storage == Storage::sliced ? patches_a_side * patches_a_side : 1u);
    // The same entries in the same order as if one rank had joined all.
    auto tensors = contents.tensors;
    tensors.insert(tensors.end(), contents.own.begin(), contents.own.end());
    EXPECT_EQ(io::read_file(*files_, prefix.string() + ".index", 1 << 26),
              bundle::build_index(contents.num_files, tensors));
    run_threads(3, [&](std::shared_ptr<Group> group) {
      Patched mine("u", storage, group->rank(), 3);
      ASSERT_TRUE(CheckpointManager(group, "/run", options_).restore_latest(mine.state));
      int wrong = 0;
      mine.each_value([&](auto value, auto expected) { wrong += value != expected; });
      EXPECT_EQ(wrong, 0);
    });
  }
}

TEST_F(ManyPlanners, RefuseADividedTensorWithTheErrorOfOneRank) {
  constexpr int ranks = 4;
  using Change = std::function<void(Declaration&)>;
  const std::vector<std::pair<std::string, Change>> changes{
      {"held by no rank", [](auto& one) { one.boxes.erase(one.boxes.begin() + 1000); }},
      {"in differing slices", [](auto& one) { ++one.boxes[2000].extent[1]; }},
      {"differing dtypes", [](auto& one) { one.dtype = DType::int8; }},
      {"outside of it", [](auto& one) { one.boxes[5].start[0] += 1000; }},
      {"in two ways", [](auto& one) { one.storage = Storage::dense; }},
      {"given twice", [](auto& one) { one.boxes.push_back(one.boxes[70]); }},
  };
  for (const auto& [text, change] : changes) {
    const auto declared_by = [&, &change = change](int rank) {
      auto one = declared("u", rank, ranks);
      one.storage = Storage::sliced;
      if (rank == 2) change(one);
      return one;
    };
    std::string expected;
    std::vector<Declaration> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(declared_by(rank));
    try {
      check_coverage(std::move(all));
    } catch (const Error& error) {
      expected = error.what();
    }
    ASSERT_THAT(expected, testing::HasSubstr(text));
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      try {
        // A tensor that comes later is wrong, too.
        Declaration other{"v", DType::int8, {2}, group->rank(), {}};
        prove_together(*group, {declared_by(group->rank()), other}, BundleSave());
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), expected);
        EXPECT_EQ(error.rank(), 0);
      }
    });
  }
}

TEST(ByKey, EveryPlannerIsARank) {
  for (const int ranks : {1, 2, 3, 8, 9, 100}) {
    for (const int planners : {1, ranks / 2, ranks > 8 ? ranks - 1 : ranks}) {
      if (planners < 1) continue;
      const KeyPlanners all{ranks, planners};
      std::set<int> used;
      for (int key = 0; key < 5000; ++key) used.insert(all.of(cat("key", key)));
      EXPECT_EQ(used.size(), static_cast<std::size_t>(planners));
      EXPECT_GE(*used.begin(), 0);
      EXPECT_LT(*used.rbegin(), ranks);
      EXPECT_EQ(*used.begin() > 0, planners > 1 && ranks > 8) << "rank 0 has enough to do";
    }
  }
}

TEST(ByKey, TheErrorOfTheLeastTensorIsThrownOnAll) {
  run_threads(5, [](std::shared_ptr<Group> group) {
    std::optional<Error> mine;
    const int rank = group->rank();
    if (rank > 1) {
      mine.emplace(Code::coverage, cat("rank ", rank));
      mine->of_tensor(rank == 3 ? "a" : "b");
    }
    try {
      agree_on_least(*group, mine);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "rank 3");
      EXPECT_EQ(error.rank(), 0);
    }
    EXPECT_NO_THROW(agree_on_least(*group, std::nullopt));
  });
}

TEST(ByKey, RootTakesWhatThereIsAscendingByRank) {
  for (const int ranks : {1, 4, 130}) {
    std::string taken;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      to_root(*group, rank % 3 ? cat("of ", rank, ";") : "",
              [&](const std::string& one) { taken += one; });
    });
    std::string expected;
    for (int rank = 0; rank < ranks; ++rank) expected += rank % 3 ? cat("of ", rank, ";") : "";
    EXPECT_EQ(taken, expected);
  }
}

TEST(ByKey, WhatRootThrowsReachesAll) {
  run_threads(4, [](std::shared_ptr<Group> group) {
    try {
      to_root(*group, "x", [](const std::string&) { throw Error(Code::internal, "no"); });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "no");
    }
  });
}

// What each rank is told of a key: which ranks spoke of it, and what they said, in the order of
// ranks.
std::vector<std::string> all_said(const std::string& key,
                                  const std::vector<std::pair<int, std::string>>& said) {
  if (key == "k7") throw Error(Code::disagreement, "k7 is wrong").of_tensor(key);
  std::string all = key + ":";
  for (const auto& [rank, text] : said) all += cat(" ", rank, text);
  std::vector<std::string> answers;
  for (const auto& [rank, text] : said) answers.push_back(cat(all, " for ", rank));
  return answers;
}

TEST(ByKey, WhoAsksIsAnsweredForEachKey) {
  for (const int most : {1, 4}) {
    std::mutex mutex;
    std::set<int> who_failed, planners_used;
    run_threads(5, [&](std::shared_ptr<Group> group) {
      const KeyPlanners planners{5, most};
      std::vector<KeyedText> mine;
      // Rank 4 says nothing; two ranks speak of each key.
      for (int k = 20; k > 0 && group->rank() < 4; --k) {
        if (k % 4 != group->rank() && (k + 1) % 4 != group->rank()) continue;
        mine.push_back({cat("k", k), cat("/", group->rank() * k)});
      }
      const auto heard = ask_by_key(*group, planners, mine, all_said);
      ASSERT_EQ(heard.texts.size(), mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const int k = std::stoi(mine[i].key.substr(1));
        const int low = std::min(k % 4, (k + 1) % 4), high = std::max(k % 4, (k + 1) % 4);
        const auto all = cat("k", k, ": ", low, "/", low * k, " ", high, "/", high * k);
        EXPECT_EQ(heard.texts[i], k == 7 ? "" : cat(all, " for ", group->rank()));
      }
      const std::lock_guard guard(mutex);
      if (heard.error) who_failed.insert(group->rank());
      for (const auto& one : mine) planners_used.insert(planners.of(one.key));
    });
    EXPECT_EQ(who_failed, std::set<int>{KeyPlanners({5, most}).of("k7")});
    EXPECT_EQ(planners_used.size(), static_cast<std::size_t>(most));
  }
}

TEST_F(ManyPlanners, CountRowsByKey) {
  constexpr int keys = 3500, ranks = 3;
  const auto rows_of = [](int key, int rank) { return static_cast<std::size_t>((key + rank) % 3); };
  const auto run = [&](int on, const auto& body) {
    run_threads(on, [&](std::shared_ptr<Group> group) {
      std::vector<std::vector<std::int32_t>> values(keys);
      State state;
      for (int k = 0; k < keys; ++k) {
        state.add(cat("r", k), ragged(values[static_cast<std::size_t>(k)]));
      }
      CheckpointManager manager(group, "/run", options_);
      body(manager, group->rank(), state, values);
    });
  };
  run(ranks, [&](auto& manager, int rank, auto& state, auto& values) {
    for (int k = 0; k < keys; ++k) {
      values[static_cast<std::size_t>(k)].assign(rows_of(k, rank), 10 * k + rank);
    }
    manager.save(1, state);
    // What one rank says of the rows of a key is told to all ranks.
    std::vector<std::int64_t> wide(2);
    State other;
    for (int k = 0; k < keys; ++k) {
      other.add(cat("r", k), k == 1234 && rank == 2 ? ragged(wide)
                                                    : ragged(values[static_cast<std::size_t>(k)]));
    }
    try {
      manager.save(2, other);
      ADD_FAILURE() << "saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::disagreement);
      EXPECT_EQ(
          error.problem(),
          test::wording(
              "ragged tensor 'r1234' has rows of int32 [] on rank 0 and of int64 [] on rank 2"));
    }
  });
  run(1, [&](auto& manager, int, auto& state, auto& values) {
    manager.restore(1, state);
    for (int k = 0; k < keys; ++k) {
      std::vector<std::int32_t> expected;
      for (int rank = 0; rank < ranks; ++rank) {
        expected.insert(expected.end(), rows_of(k, rank), 10 * k + rank);
      }
      ASSERT_EQ(values[static_cast<std::size_t>(k)], expected) << k;
    }
  });
  run(ranks, [&](auto& manager, int rank, auto& state, auto& values) {
    manager.restore(1, state);
    for (int k = 0; k < keys; ++k) {
      const auto total = rows_of(k, 0) + rows_of(k, 1) + rows_of(k, 2);
      EXPECT_EQ(values[static_cast<std::size_t>(k)].size(),
                total / ranks + (static_cast<std::size_t>(rank) < total % ranks));
    }
  });
}

}  // namespace
}  // namespace cairn
