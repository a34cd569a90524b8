#include <gmock/gmock.h>

#include "cairn/error.hpp"
#include "cairn/sharding.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

DeviceTask task_of(int rank) {
  DeviceTask task;
  task.task = rank;
  return task;
}

ShardableTensor make(const std::string& key, Dims shape, Box slice, std::size_t owner,
                     std::size_t owner_slice = 0, DType dtype = DType::float32) {
  const auto bytes = slice.count() * static_cast<std::int64_t>(dtype_size(dtype));
  return {key,   key,         dtype, std::move(shape), std::move(slice), task_of(0),
          owner, owner_slice, bytes};
}

/// A matrix in two slices, a scalar, a string tensor and one without elements.
std::vector<ShardableTensor> some_tensors() {
  return {make("u", {4, 6}, {{0, 0}, {2, 6}}, 0, 0), make("u", {4, 6}, {{2, 0}, {2, 3}}, 0, 1),
          make("step", {}, {}, 1, 0, DType::int64),
          make("names", {5}, Box::whole({5}), 2, 0, DType::string),
          make("none", {0, 3}, Box::whole({0, 3}), 3)};
}

/// A callback that lets ShardByTaskPolicy work and then makes the result wrong.
template <class Spoil>
void expect_refused(Spoil spoil, const testing::Matcher<std::string>& text,
                    std::vector<ShardableTensor> given = some_tensors()) {
  auto shards = ShardByTaskPolicy()(given);
  spoil(shards);
  try {
    validate_shards(shards, given, "spoiler");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::sharding);
    EXPECT_THAT(
        std::string(error.what()),
        AllOf(StartsWith("After executing the checkpoint sharding callback 'spoiler', "), text));
    EXPECT_FALSE(error.tensor().empty());
  }
}

/// Changes one entry, and puts it into the shard where it then belongs.
template <class Change>
auto changed(const char* key, Change change) {
  return [=](std::vector<Shard>& shards) {
    auto& slices = shards[0].at(key);
    auto tensor = slices.begin()->second;
    slices.erase(slices.begin());
    change(tensor);
    shards[0][tensor.key].emplace(tensor.slice, tensor);
  };
}

const Box upper{{0, 0}, {2, 6}}, lower{{2, 0}, {2, 3}};

TEST(ShardByTaskPolicy, MakesOneShardOfAll) {
  const auto given = some_tensors();
  const auto shards = ShardByTaskPolicy()(given);
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(shards[0].size(), 4u);
  EXPECT_EQ(shards[0].at("u").size(), 2u);
  EXPECT_EQ(shards[0].at("u").at(lower).owner_slice, 1u);
  EXPECT_EQ(ShardByTaskPolicy().description(), "all tensors of a task in one shard");
  EXPECT_NO_THROW(validate_shards(shards, given, "default"));
}

// Tensors of one slice each that come back unchanged pass the quick check; nothing else does.
TEST(Validate, NothingPassesAmongTensorsOfOneSliceEach) {
  const std::vector<ShardableTensor> given{make("a", {4, 6}, {{1, 0}, {2, 6}}, 0, 2),
                                           make("b", {3}, Box::whole({3}), 1),
                                           make("c", {}, {}, 2, 0, DType::int64)};
  const auto filed = [](std::vector<std::vector<ShardableTensor>> groups) {
    std::vector<Shard> shards(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (auto& one : groups[i]) shards[i][one.key].emplace(one.slice, one);
    }
    return shards;
  };
  const auto &a = given[0], &b = given[1], &c = given[2];
  EXPECT_NO_THROW(validate_shards(filed({{a, b, c}}), given, "as given"));
  EXPECT_NO_THROW(validate_shards(filed({{c, a}, {}, {b}}), given, "grouped"));
  const auto expect_thrown = [&](const std::vector<Shard>& shards, const char* text) {
    EXPECT_THAT([&] { validate_shards(shards, given, "spoiler"); },
                testing::ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect_thrown(filed({{a, b}}), "a tensor given is missing from the shards: key 'c'");
  expect_thrown(filed({{a, b}, {b, c}}), "a key and slice was found twice");
  expect_thrown(filed({{a, b}, {b}}), "a key and slice was found twice");
  const auto with = [&](auto change) {
    auto other = a;
    change(other);
    return filed({{b, c}, {other}});
  };
  expect_thrown(with([](auto& one) { one.key = "d"; }), "is not among those given");
  expect_thrown(with([](auto& one) { one.shape = {5, 6}; }), "an altered shape");
  expect_thrown(with([](auto& one) { one.dtype = DType::int32; }), "an altered dtype");
  expect_thrown(with([](auto& one) { one.owner = 1; }), "an altered owner");
  expect_thrown(with([](auto& one) { one.owner_slice = 0; }), "an altered owner");
  expect_thrown(with([](auto& one) { one.task = task_of(1); }), "an altered task");
  expect_thrown(with([](auto& one) { one.slice.extent[0] = 1; }),
                "part of a slice given is missing");
  expect_thrown(with([](auto& one) { one.slice.start[0] = 2; }), "leaves the slices given");
  auto shards = filed({{a, b, c}});
  shards[0]["a"].begin()->second.key = "b";
  expect_thrown(shards, "filed under another key");
  shards = filed({{a, b, c}});
  shards[0]["a"].begin()->second.slice.start[0] = 0;
  expect_thrown(shards, "filed under another slice");

  // Tensors that were given wrongly are refused, too.
  auto outside = given;
  outside[0].slice.start[0] = 3;
  EXPECT_THROW(validate_shards(filed({outside}), outside, "outside"), Error);
  auto twice = given;
  twice.push_back(b);
  EXPECT_THROW(validate_shards(filed({{a, b, c}, {b}}), twice, "twice"), Error);
}

TEST(ShardByTaskPolicy, NothingGivesNoShard) {
  EXPECT_TRUE(ShardByTaskPolicy()({}).empty());
  EXPECT_NO_THROW(validate_shards({}, {}, "default"));
  EXPECT_NO_THROW(validate_shards({Shard{}}, {}, "an empty shard holds nothing wrong"));
}

TEST(ShardByTaskPolicy, RefusesTheSameSliceTwice) {
  auto given = some_tensors();
  given.push_back(given[0]);
  EXPECT_THAT(
      [&] { ShardByTaskPolicy()(given); },
      testing::ThrowsMessage<Error>(test::Says("'u', slice \"4 6 0,2:0,6\" is given twice")));
}

TEST(ValidateShards, FoundTwice) {
  expect_refused(
      [](auto& shards) {
        shards.push_back({{"u", {{lower, shards[0]["u"][lower]}}}});
      },
      test::Says("a key and slice was found twice: key 'u', slice \"4 6 2,2:0,3\" (first in shard "
                 "0, again in shard 1)"));
  expect_refused(
      [](auto& shards) {
        shards.push_back({{"none", shards[0]["none"]}});
      },
      test::Says("found twice: key 'none', slice \"0 3 0,0:0,3\""));
}

TEST(ValidateShards, PiecesThatOverlap) {
  expect_refused(
      [](auto& shards) {
        auto piece = shards[0]["u"][upper];
        piece.slice = {{1, 2}, {1, 4}};
        shards.push_back({{"u", {{piece.slice, piece}}}});
      },
      test::Says("elements were found twice: key 'u', slice \"4 6 1,1:2,4\" (rows 1..1 × 2..5 are "
                 "in slice \"4 6 0,2:0,6\" of shard 0 and in slice \"4 6 1,1:2,4\" of shard 1)"));
}

TEST(ValidateShards, AKeyThatWasNotGiven) {
  expect_refused(
      [](auto& shards) {
        shards[0]["v"].emplace(upper, make("v", {4, 6}, upper, 0));
      },
      test::Says("a tensor was found that is not among those given: key 'v', slice \"4 6 0,2:0,6\" "
                 "(shard 0 has this key; none of the 4 keys given is it)"));
  expect_refused([](auto& shards) { shards[0]["v"] = shards[0]["u"]; },
                 test::Says("filed under another key than its own: key 'u', slice \"4 6 0,2:0,6\" "
                            "(shard 0 has it under 'v'; its own key is 'u')"));
}

TEST(ValidateShards, AnAlteredShape) {
  expect_refused(
      changed("u",
              [](auto& t) {
                t.shape = {4, 7};
              }),
      test::Says(
          "an altered shape: key 'u', slice \"4 7 0,2:0,6\" (given: [4 6]; returned: [4 7])"));
  expect_refused(
      changed("step",
              [](auto& t) {
                t.shape = {1}, t.slice = {{0}, {1}};
              }),
      test::Says("an altered shape: key 'step', slice \"1 0,1\" (given: []; returned: [1])"));
}

TEST(ValidateShards, APieceThatLeavesWhatWasGiven) {
  expect_refused(
      changed("u",
              [](auto& t) {
                t.slice = {{2, 2}, {2, 4}};
              }),
      test::Says("a slice was found that leaves the slices given: key 'u', slice \"4 6 2,2:2,4\" "
                 "(given: \"4 6 0,2:0,6\" and 1 more; returned also: rows 2..3 × 3..5)"));
  expect_refused(changed("u",
                         [](auto& t) {
                           t.slice = {{3, 0}, {2, 6}};
                         }),
                 test::Says("reaches out of its tensor: key 'u', slice rows 3..4 × 0..5 (the shape "
                            "is [4 6]; returned: rows 3..4 × 0..5)"));
  expect_refused(changed("u",
                         [](auto& t) {
                           t.slice = {{1}, {1, 2}};
                         }),
                 test::Says("start [1] and extent [1 2]"));
  expect_refused(
      changed("u",
              [](auto& t) {
                t.slice = {{1, 1}, {0, 2}};
              }),
      test::Says("without elements was found that is not among those given: key 'u', slice \"4 6 "
                 "1,0:1,2\" (given: \"4 6 0,2:0,6\" and 1 more; returned: \"4 6 1,0:1,2\")"));
}

TEST(ValidateShards, APieceThatJoinsTwoSlices) {
  // Only one of them could be its owner.
  expect_refused(
      [](auto& shards) {
        auto piece = shards[0]["u"][upper];
        piece.slice = {{0, 0}, {4, 3}};
        shards[0]["u"].clear();
        shards[0]["u"].emplace(piece.slice, piece);
      },
      test::Says("joins slices given apart: key 'u', slice \"4 6 0,4:0,3\" (given: \"4 6 0,2:0,6\" "
                 "and \"4 6 2,2:0,3\"; returned: \"4 6 0,4:0,3\")"));
}

TEST(ValidateShards, FiledUnderAnotherSlice) {
  expect_refused(
      [](auto& shards) { shards[0]["u"][upper].slice = lower; },
      test::Says("filed under another slice than its own: key 'u', slice \"4 6 2,2:0,3\" (shard 0 "
                 "has it under \"4 6 0,2:0,6\"; its own slice is \"4 6 2,2:0,3\")"));
}

TEST(ValidateShards, AnAlteredDtype) {
  expect_refused(
      changed("u", [](auto& t) { t.dtype = DType::float64; }),
      test::Says(
          "an altered dtype: key 'u', slice \"4 6 0,2:0,6\" (given: float32; returned: float64)"));
}

TEST(ValidateShards, AnAlteredTask) {
  expect_refused(changed("step", [](auto& t) { t.task.task = 3; }),
                 test::Says("an altered task: key 'step', slice \"\" (given: "
                            "/job:worker/replica:0/task:0/device:CPU:0; returned: "
                            "/job:worker/replica:0/task:3/device:CPU:0)"));
}

TEST(ValidateShards, AnAlteredOwner) {
  expect_refused(changed("step", [](auto& t) { t.owner = 0; }),
                 test::Says("an altered owner: key 'step', slice \"\" (given: tensor 1, slice 0 of "
                            "the state; returned: tensor 0, slice 0 of the state)"));
  expect_refused(
      changed("u", [](auto& t) { t.owner_slice = 1; }),
      test::Says(
          "(given: tensor 0, slice 0 of the state; returned: tensor 0, slice 1 of the state)"));
}

TEST(ValidateShards, TwoTasksInOneShard) {
  auto given = some_tensors();
  given[2].task = task_of(1);
  expect_refused(
      [](auto&) {},
      test::Says("tensors of different tasks are in one shard: key 'step', slice \"\" (shard 0 "
                 "begins with 'names' of /job:worker/replica:0/task:0/device:CPU:0; this one is of "
                 "/job:worker/replica:0/task:1/device:CPU:0)"),
      given);
  auto shards = ShardByTaskPolicy()(given);
  shards.push_back({{"step", shards[0]["step"]}});
  shards[0].erase("step");
  EXPECT_NO_THROW(validate_shards(shards, given, "in two shards they are fine"));
}

// As in TensorFlow's validation: a task is that of a job's replica, whatever its devices are.
TEST(ValidateShards, DevicesOfATaskMayShareAShard) {
  auto given = some_tensors();
  given[2].task.device_type = "CUDA";
  auto shards = ShardByTaskPolicy()(given);
  EXPECT_NO_THROW(validate_shards(shards, given, "all in one"));
  shards[0]["names"].begin()->second.task.device_index = 3;
  EXPECT_NO_THROW(validate_shards(shards, given, "moved within the task"));
  // It is cut, so that the full check is used.
  auto& slices = shards[0].at("u");
  const auto whole = slices.begin()->second;
  ASSERT_GT(whole.slice.extent[0], 1);
  slices.erase(whole.slice);
  auto piece = whole.slice;
  piece.extent[0] = 1;
  add_to(shards[0], piece_of(whole, piece));
  piece = whole.slice;
  piece.start[0] += 1;
  piece.extent[0] -= 1;
  add_to(shards[0], piece_of(whole, piece));
  EXPECT_NO_THROW(validate_shards(shards, given, "cut"));
  expect_refused([](auto& all) { all[0]["step"].begin()->second.task.job = "other"; },
                 test::Says("an altered task: key 'step'"), given);
  expect_refused([](auto& all) { all[0]["step"].begin()->second.task.replica = 1; },
                 test::Says("an altered task: key 'step'"), given);
}

TEST(ValidateShards, TensorsWithoutAnOwner) {
  auto given = some_tensors();
  given[2].owner.reset();
  EXPECT_NO_THROW(validate_shards(ShardByTaskPolicy()(given), given, "as they are"));
  expect_refused([](auto& all) { all[0]["step"].begin()->second.owner = 0; },
                 test::Says("(given: none, as of what a save adds of its own; returned: tensor 0, "
                            "slice 0 of the state)"),
                 given);
}

TEST(ValidateShards, Missing) {
  for (const char* key : {"step", "names", "none"}) {
    expect_refused(
        [=](auto& shards) { shards[0].erase(key); },
        AllOf(HasSubstr("a tensor given is missing from the shards: key '" + std::string(key)),
              HasSubstr("returned: nothing)")));
  }
  expect_refused([](auto& shards) { shards.clear(); }, test::Says("missing from the shards"));
  expect_refused([](auto& shards) { shards[0]["u"].erase(lower); },
                 test::Says("missing from the shards: key 'u', slice \"4 6 2,2:0,3\" (given: rows "
                            "2..3 × 0..2; returned: nothing)"));
  expect_refused(
      changed("u",
              [](auto& t) {
                t.slice = {{0, 0}, {2, 4}};
              }),
      test::Says("part of a slice given is missing from the shards: key 'u', slice \"4 6 0,2:0,6\" "
                 "(given: rows 0..1 × 0..5; not returned: rows 0..1 × 4..5)"));
}

TEST(ValidateShards, AStringTensorMayNotBeCut) {
  expect_refused(
      [](auto& shards) {
        auto piece = shards[0]["names"].begin()->second;
        shards[0]["names"].clear();
        for (const Box& box : {Box{{0}, {3}}, Box{{3}, {2}}}) {
          piece.slice = box;
          shards[0]["names"].emplace(box, piece);
        }
      },
      test::Says("a string tensor was found cut: key 'names', slice \"5 0,3\" (given: \"5 0,5\"; "
                 "returned: \"5 0,3\""));
}

TEST(ValidateShards, WhatIsGivenMustBeDisjointItself) {
  auto given = some_tensors();
  given.push_back(given[1]);
  auto refused = [&](const char* text) {
    EXPECT_THAT([&] { validate_shards({}, given, "spoiler"); },
                testing::ThrowsMessage<Error>(AllOf(
                    StartsWith("After executing the checkpoint sharding callback 'spoiler', "),
                    HasSubstr(text))));
  };
  refused("a slice turns out to have been given twice: key 'u', slice \"4 6 2,2:0,3\"");
  given.back().slice = {{1, 0}, {2, 1}};
  refused(
      "slices turn out to have been given that overlap: key 'u', slice \"4 6 1,2:0,1\" (the other "
      "one "
      "is \"4 6 0,2:0,6\")");
  given.back().slice = {{3, 5}, {2, 1}};
  refused("given outside of its tensor: key 'u', slice rows 3..4 × 5..5 (the shape is [4 6])");
  given.back() = make("u", {9, 9}, {{8, 8}, {1, 1}}, 9);
  refused("given with two shapes");
}

/// Random callbacks cut, regroup, and now and then make something wrong; the verdict is compared
/// with sets of elements.
TEST(ValidateShards, AgreesWithSetsOfElements) {
  Random random(31);
  int good = 0, bad = 0;
  for (int round = 0; round < test::rounds(3000); ++round) {
    const auto shape = boxes::random_shape(random);
    const auto slices = boxes::decompose(random, Box::whole(shape), 5);
    std::vector<ShardableTensor> given;
    for (const auto& slice : slices) given.push_back(make("u", shape, slice, 0, given.size()));
    std::vector<Shard> shards(static_cast<std::size_t>(boxes::draw(random, 1, 4)));
    std::vector<Box> returned;
    for (const auto& tensor : given) {
      for (auto& box : boxes::decompose(random, tensor.slice, 4)) {
        if (boxes::chance(random, 3)) continue;
        if (boxes::chance(random, 3)) box = boxes::random_box(random, Box::whole(shape));
        auto piece = tensor;
        piece.slice = box;
        if (shards[random() % shards.size()]["u"].emplace(box, piece).second)
          returned.push_back(box);
      }
    }
    std::size_t total = 0;
    bool cut_from_parent = true;
    for (const auto& shard : shards) {
      for (const auto& [key, pieces] : shard) {
        for (const auto& [box, piece] : pieces) {
          total += static_cast<std::size_t>(box.count());
          cut_from_parent &= slices[piece.owner_slice].contains(box);
        }
      }
    }
    const auto all = boxes::elements(slices);
    const bool fine = cut_from_parent && total == all.size() && boxes::elements(returned) == all;
    ++(fine ? good : bad);
    if (fine) {
      EXPECT_NO_THROW(validate_shards(shards, given, "random"));
    } else {
      EXPECT_THROW(validate_shards(shards, given, "random"), Error);
    }
  }
  EXPECT_GT(good, test::rounds(800));
  EXPECT_GT(bad, test::rounds(300));
}

}  // namespace
}  // namespace cairn
