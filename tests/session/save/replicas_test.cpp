// Replicas on several ranks must be the same, to the bit.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cairn/checkpoint.hpp"
#include "cairn/sharded_save.hpp"
#include "session/save/replicas_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::expect_thrown;
using test::Replicas;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr auto no_change = [](int, auto&) {};

TEST_F(Replicas, OneElementOfALargeOneIsFoundAndNothingIsCommitted) {
  EXPECT_EQ(save_whole<double>(3, {600, 500}, no_change), "");
  const auto text = save_whole<double>(3, {600, 500}, [](int rank, auto& u) {
    if (rank == 2) u[412 * 500 + 77] += 1;
  });
  EXPECT_EQ(
      text,
      "disagreement u 2: replicas of tensor 'u' [600 500] are not the same (rank 2 differs "
      "from ranks 0, 1, the majority, in rows 412..412 × 0..124). Nothing was committed. Look "
      "for a missing broadcast or reduction, for different tensors under one name, or for bad "
      "memory; "
      "ReplicaOptions::divergence_is_error = false makes this a warning.");
  EXPECT_EQ(save_whole<double>(3, {600, 500}, no_change), "");
  EXPECT_THAT(steps(), ElementsAre(1, 3));
}

TEST_F(Replicas, AreComparedOnAnyNumberOfRanks) {
  for (int ranks = 2; ranks <= 7; ++ranks) {
    for (int bad = 0; bad < ranks; ++bad) {
      const auto text = save_whole<std::int32_t>(ranks, {1000}, [&](int rank, auto& u) {
        if (rank == bad) u[999] ^= 1 << 30;
      });
      // Two replicas have no majority: the other one is compared with the first.
      const int named = ranks == 2 ? 1 : bad;
      EXPECT_THAT(text, testing::StartsWith(cat("disagreement u ", named, ": ")));
      EXPECT_THAT(text, HasSubstr(cat("(rank ", named, " differs from rank")));
      EXPECT_EQ(text.find("the majority") != std::string::npos, ranks > 2) << text;
      EXPECT_THAT(text, test::Says("in rows 999..999)"));
    }
  }
}

TEST_F(Replicas, RangesThatTouchAreOne) {
  const auto text = save_whole<std::int64_t>(2, {32, 32}, [](int rank, auto& u) {
    for (std::size_t i = 0; i < u.size(); ++i) {
      const auto row = i / 32, column = i % 32;
      const bool block = row >= 3 && row < 9 && column >= 4 && column < 8;
      if (rank == 1 && (block || row == 20 || i == 0 || i == 1023 || i == 31 * 32)) u[i] = -1;
    }
  });
  EXPECT_THAT(
      text,
      test::Says("in rows 0..0 × 0..0, rows 3..8 × 4..7, rows 20..20 × 0..31 and 2 more ranges)"));
}

TEST_F(Replicas, ScalarsAndStringsAreCompared) {
  const auto scalar = save(4, [](int rank, State& state) {
    auto time = std::make_shared<double>(rank == 1 ? 0.5 : 0.25);
    state.add("time", *time);
    return time;
  });
  EXPECT_THAT(scalar, test::Says("replicas of tensor 'time' [] are not the same (rank 1 differs "
                                 "from ranks 0, 2, 3, the majority, in the scalar)"));
  const auto words = [](int bad, std::string instead) {
    return [=](int rank, State& state) {
      auto list = std::make_shared<std::vector<std::string>>(
          std::vector<std::string>{"", "one", std::string(300, 'x'), "ab", "c"});
      if (rank == bad) (*list)[3] = instead;
      state.add("words", *list);
      return list;
    };
  };
  EXPECT_EQ(save(4, words(3, "ab")), "");
  EXPECT_THAT(save(4, words(3, "aB")), test::Says("'words' [5] are not the same (rank 3 differs "
                                                  "from ranks 0..2, the majority, in rows 3..3)"));
  EXPECT_THAT(save(3, words(0, "abc")), test::Says("(rank 0 differs from ranks 1, 2,"));
}

TEST_F(Replicas, BitsAreComparedNotValues) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto other_nan = std::bit_cast<double>(std::bit_cast<std::uint64_t>(nan) ^ 1);
  ASSERT_TRUE(std::isnan(other_nan));
  EXPECT_EQ(save_whole<double>(3, {5}, [&](int, auto& u) { u[2] = nan; }), "");
  EXPECT_THAT(
      save_whole<double>(3, {5}, [&](int rank, auto& u) { u[2] = rank == 1 ? other_nan : nan; }),
      test::Says("rank 1 differs from ranks 0, 2, the majority, in rows 2..2)"));
  EXPECT_THAT(save_whole<double>(2, {5}, [&](int rank, auto& u) { u[4] = rank ? -0.0 : 0.0; }),
              test::Says("in rows 4..4)"));
}

// Halos belong to no slice.
TEST_F(Replicas, OfStridedMemoryOnlyTheSliceIsCompared) {
  const auto field = [](std::size_t changed) {
    return [=](int rank, State& state) {
      auto u = std::make_shared<std::vector<float>>(12 * 12, 1.0f);
      if (rank == 1) (*u)[changed] = 2;
      state.add("u", slice(u->data() + 13, {20, 10}, {rank == 2 ? 10 : 0, 0}, {10, 10}, {12, 1}));
      return u;
    };
  };
  for (const std::size_t halo : {0, 11, 12 * 5, 12 * 5 + 11, 12 * 11 + 3}) {
    EXPECT_EQ(save(3, field(halo)), "");
  }
  EXPECT_THAT(save(3, field(12 * 4 + 7)),
              test::Says("rank 1 differs from rank 0 in rows 3..3 × 6..6)"));
}

TEST_F(Replicas, AllSidesAndSeveralTensorsAreNamed) {
  const auto text = save(7, [](int rank, State& state) {
    auto values = std::make_shared<std::vector<std::int32_t>>(9, 0);
    const int sides[] = {1, 1, 2, 2, 3, 1, 2};
    for (int i = 0; i < 3; ++i) (*values)[static_cast<std::size_t>(i)] = sides[rank];
    for (int i = 0; i < 9; ++i) state.add(cat("t", i), (*values)[static_cast<std::size_t>(i)]);
    for (int i = 3; i < 8; ++i) (*values)[static_cast<std::size_t>(i)] = rank == 6;
    return values;
  });
  EXPECT_THAT(text, testing::StartsWith("disagreement t0 2: "));
  EXPECT_THAT(text, test::Says("(ranks 2, 3, 6 differ from ranks 0, 1, 5 in the scalar, rank 4 in "
                               "the scalar; tensor 't1' []: "));
  EXPECT_THAT(text, test::Says("; tensor 't3' []: rank 6 differs from ranks 0..5, the majority, in "
                               "the scalar; and so do 4 more slices)"));
  const auto many = save(12, [](int rank, State& state) {
    auto value = std::make_shared<int>(rank / 2 * 2 == 4 ? 4 : rank);
    state.add("t", *value);
    return value;
  });
  EXPECT_THAT(many, test::Says("(rank 0 differs from ranks 4, 5 in the scalar, rank 1 in the "
                               "scalar, rank 2 in the scalar, "));
  EXPECT_THAT(many, test::Says(", and 3 more groups of ranks differ)"));
}

TEST_F(Replicas, DenseTensorsAndLayoutsAreComparedToo) {
  // The bytes of a dense tensor travel to the ranks that write them; the holder of the wrong bytes
  // is named.
  for (const std::size_t bad : {0, 1, 2, 3}) {
    const auto dense = [&](bool differs) {
      return [=](int rank, State& state) {
        auto u = std::make_shared<std::vector<std::uint16_t>>(300 * 100, std::uint16_t{7});
        if (differs && static_cast<std::size_t>(rank) == bad) (*u)[150 * 100 + 3] = 8;
        state.add("u", stored(Storage::dense,
                              slice(u->data(), {600, 100}, {rank / 2 * 300, 0}, {300, 100})));
        return u;
      };
    };
    EXPECT_EQ(save(4, dense(false)), "");
    EXPECT_THAT(save(4, dense(true)),
                HasSubstr(cat("in rows ", bad < 2 ? 150 : 450, "..", bad < 2 ? 150 : 450, " × ")));
  }
  const Mesh mesh({{"x", 2}, {"y", 3}});
  const Layout layout({"x", unsharded}, mesh);
  const auto on_mesh = [&](int bad) {
    return [&, bad](int rank, State& state) {
      auto u = std::make_shared<std::vector<double>>(50, rank / 3 + 0.5);
      if (rank == bad) u->at(7) = 0;
      state.add("w", slice(u->data(), {10, 10}, layout, rank));
      return u;
    };
  };
  EXPECT_EQ(save(6, on_mesh(-1)), "");
  EXPECT_THAT(save(6, on_mesh(4)),
              test::Says("(rank 4 differs from ranks 3, 5, the majority, in rows 5..5 × 7..7)"));
}

TEST_F(Replicas, NoneLooksAtNothing) {
  options_.store.replicas.check = ReplicaCheck::none;
  EXPECT_EQ(save_whole<double>(3, {50}, [](int rank, auto& u) { u[7] = rank; }), "");
  EXPECT_THAT(warnings_, ElementsAre());
}

TEST_F(Replicas, AWarningSaysWhatIsStoredAndTheSaveGoesOn) {
  options_.store.replicas.divergence_is_error = false;
  EXPECT_EQ(save_whole<double>(3, {50}, [](int rank, auto& u) { u[7] = rank; }), "");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0],
              testing::StartsWith("in /run/ckpt-1: replicas of tensor 'u' [50] are not the same "
                                  "(rank 1 differs from rank 0 in rows 7..7, rank 2 in rows 7..7; "
                                  "stored is what rank "));
  {
    std::vector<double> u(50);
    State state;
    state.add("u", u);
    CheckpointManager manager(serial_group(), "/run", options_);
    ASSERT_TRUE(manager.restore_latest(state));
    EXPECT_THAT(warnings_[0], EndsWith(cat("stored is what rank ", u[7], " has)")));
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-1"}).verdict(), Verdict::whole);
  }
  // All holders of a large replica write parts of it; the one that wrote the differing row is
  // named.
  for (const std::size_t row : {3, 500, 900}) {
    warnings_.clear();
    EXPECT_EQ(
        save_whole<double>(3, {1000, 1000}, [&](int rank, auto& v) { v[row * 1000 + 5] = rank; }),
        "");
    std::vector<double> v(1000 * 1000);
    State large;
    large.add("u", whole(v.data(), {1000, 1000}));
    CheckpointManager again(serial_group(), "/run", options_);
    ASSERT_TRUE(again.restore_latest(large));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_THAT(warnings_[0], EndsWith(cat("stored is what rank ", v[row * 1000 + 5], " has)")));
  }
}

// For any state, replicas that agree are never an error, and one that differs always is. Sanitizers
// test the code, not the states, so they take fewer seeds.
#ifdef CAIRN_SANITIZED
constexpr unsigned seeds = 12;
#else
constexpr unsigned seeds = 40;
#endif

TEST_F(Replicas, RandomStates) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 6);
    const test::NToMCase random(ranks, 1, seed);
    // With sample_of 1 the sample of one save is everything, read in another way.
    options_.store.replicas.check = seed % 3 == 0 ? ReplicaCheck::sample : ReplicaCheck::all;
    options_.store.replicas.sample_of = 1;
    options_.store.policy = seed % 4 ? nullptr : std::make_shared<MaxShardSizePolicy>(64);
    const auto with = [&](std::size_t sample, const Box& box, std::size_t bad) {
      return save(ranks, [&](int rank, State& state) {
        auto mine = std::make_shared<test::SampleState>(seed);
        for (std::size_t i = 0; i < random.samples.size(); ++i) {
          mine->add(random.samples[i], random.held[i][static_cast<std::size_t>(rank)],
                    static_cast<int>((seed + static_cast<unsigned>(rank)) % 3));
        }
        mine->add_string("words", random.words);
        mine->state().store(seed % 2 ? Storage::automatic : Storage::dense);
        mine->fill();
        if (static_cast<std::size_t>(rank) == bad) {
          for (const auto& slice : mine->state().tensors()[sample].second.slices) {
            if (slice.box != box) continue;
            std::mt19937 any(seed);
            Box element{Dims(box.rank(), 0), Dims(box.rank(), 1)};
            for (std::size_t d = 0; d < box.rank(); ++d) {
              element.start[d] = static_cast<std::int64_t>(any()) % box.extent[d];
            }
            std::byte bytes[16];
            slice.memory->read(element, bytes);
            bytes[0] ^= std::byte{1};
            slice.memory->write(element, bytes);
          }
        }
        state = mine->state();
        return mine;
      });
    };
    EXPECT_EQ(with(0, {}, 99), "") << "seed " << seed;
    for (std::size_t i = 0; i < random.samples.size(); ++i) {
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        if (random.held[i][rank].empty() || random.held[i][rank][0].empty()) continue;
        const auto& box = random.held[i][rank][0];
        const auto holders = std::count_if(
            random.held[i].begin(), random.held[i].end(),
            [&](const auto& held) { return std::count(held.begin(), held.end(), box) > 0; });
        if (holders < 2 && rank != 0) continue;
        const auto text = with(i, box, rank);
        if (holders > 1) {
          EXPECT_THAT(text, HasSubstr(cat("replicas of tensor '", random.samples[i].key, "' ")))
              << "seed " << seed << ", rank " << rank << " of " << ranks << ", "
              << shape_text(random.samples[i].shape) << " " << dtype_name(random.samples[i].dtype)
              << " " << box_text(box) << " held by " << holders;
        } else {
          EXPECT_EQ(text, "") << "seed " << seed;
        }
        break;
      }
    }
  }
}

// A restart does not complete a refused save that could not be removed.
TEST_F(Replicas, ARefusedSaveIsNeverRolledForward) {
  EXPECT_EQ(save_whole<double>(2, {5}, no_change), "");
  EXPECT_EQ(save_whole<double>(2, {5}, no_change), "");
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    double value = group->rank();
    State state;
    state.add("u", value);
    group->barrier();
    if (group->rank() == 0) files_->inject({Code::io, "remove", "_temp_", 0, 1000});
    group->barrier();
    EXPECT_THROW(manager.save(3, state), Error);
  });
  files_->clear_faults();
  bool debris = false;
  for (const auto& name : files_->list("/run")) debris |= name.find("_temp_") != name.npos;
  EXPECT_TRUE(debris);
  EXPECT_THAT(steps(), ElementsAre(1, 2));
}

TEST_F(Replicas, OptionsAreCheckedAndTheSameOnAllRanks) {
  options_.store.replicas.sample_of = 0;
  expect_thrown([&] { CheckpointManager(serial_group(), "/run", options_); },
                "ReplicaOptions::sample_of is 0");
  options_.store.replicas.sample_of = 3;
  run_threads(2, [&](std::shared_ptr<Group> group) {
    auto mine = options_;
    if (group->rank() == 1) mine.store.replicas.divergence_is_error = false;
    expect_thrown(
        [&] { CheckpointManager(group, "/run", mine); },
        "ranks disagree on ManagerOptions: store.replicas.divergence_is_error is true on rank 0 "
        "and false on rank 1");
  });
}

TEST_F(Replicas, CheckpointAndShardedSaveCompareThem) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    int value = group->rank();
    State state;
    state.add("u", value);
    const Mesh mesh({{"x", 2}});
    Checkpoint by_default(group, state, {.write = {.file_system = files_}});
    expect_thrown([&] { by_default.save("/one/ckpt"); }, "replicas of tensor 'u'");
    expect_thrown([&] { by_default.write("/two/ckpt"); }, "replicas of tensor 'u'");
    expect_thrown(
        [&] {
          sharded_save(group, mesh, "/three/ckpt", {"u"}, {""}, {whole(&value, {})},
                       {.write = {.file_system = files_}});
        },
        "replicas of tensor 'u'");
    Checkpoint without(
        group, state,
        {.store = {.replicas = {.check = ReplicaCheck::none}}, .write = {.file_system = files_}});
    EXPECT_EQ(without.write("/four/ckpt"), "/four/ckpt");
    EXPECT_EQ(sharded_save(group, mesh, "/five/ckpt", {"u"}, {""}, {whole(&value, {})},
                           {.store = {.replicas = {.check = ReplicaCheck::none}},
                            .write = {.file_system = files_}}),
              "/five/ckpt");
  });
}

}  // namespace
}  // namespace cairn
