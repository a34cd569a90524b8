// Memory that two tensors would fill is an error before anything is touched, unless both have the
// same bytes.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <numeric>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;
using test::on_disk;

using Fill = std::function<void(State&)>;

// The parameter bool chooses a checkpoint, or a redistribution from memory to memory.
class Ties : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }

  // `save` fills the saving state; `restored` is called with the state to be filled.
  template <class Restored>
  void job(const Fill& save, const Restored& restored) {
    auto options = on_disk();
    run_threads(ranks(), [&](std::shared_ptr<Group> group) {
      State from;
      save(from);
      if (std::get<1>(GetParam())) {
        restored([&](State& to) { redistribute(group, from, to); }, group->rank());
        return;
      }
      CheckpointManager manager(group, "/run", options);
      manager.save(1, from);
      restored([&](State& to) { manager.restore(1, to); }, group->rank());
    });
  }
  // A restore into what `fill` adds is refused, and memory is unchanged.
  void refused(const Fill& save, const std::function<void(State&, std::vector<double>&)>& fill,
               const testing::Matcher<std::string>& text) {
    job(save, [&](const auto& restore, int) {
      std::vector<double> memory(24, -1);
      State to;
      fill(to, memory);
      expect_error(Code::invalid_argument, text, [&] { restore(to); });
      EXPECT_THAT(memory, Each(-1.0));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Ties, testing::Combine(testing::Values(1, 3), testing::Bool()),
                         [](const auto& info) {
                           return cat(std::get<1>(info.param) ? "memory_" : "checkpoint_",
                                      std::get<0>(info.param));
                         });

struct Stored {
  std::vector<double> a{1, 2, 3, 4, 5, 6}, same = a, other{1, 2, 3, 4, 5, 7};
  std::vector<float> single{1, 2, 3, 4, 5, 6};
  std::string text = "one", text_again = "one", another = "two";
};
Fill stored() {
  return [kept = std::make_shared<Stored>()](State& state) mutable {
    auto* all = kept.get();
    state.add("a", whole(all->a.data(), {6})).add("same", whole(all->same.data(), {6}));
    state.add("other", whole(all->other.data(), {6})).add("single", whole(all->single.data(), {6}));
    state.add("text", all->text).add("text_again", all->text_again).add("another", all->another);
  };
}

TEST_P(Ties, ElementsOfOneSliceShareMemory) {
  const auto never = [&](const Dims& extent, const Dims& strides) {
    std::vector<double> values{1, 2, 3, 4, 5, 6};
    refused([&](State& state) { state.add("u", whole(values.data(), extent)); },
            [&](State& state, auto& memory) {
              state.add("u", whole(memory.data() + 12, extent, strides));
            },
            AllOf(test::Says("tensor 'u': elements of its "), test::Says("share memory"),
                  test::Says("Restore into memory with a place for each element")));
  };
  never({6}, {0});
  never({2, 3}, {1, 1});
  never({2, 3}, {2, 1});
  never({3, 2}, {1, -2});
}

TEST_P(Ties, OtherStridesAreServed) {
  std::vector<double> values{1, 2, 3, 4};
  job(
      [&](State& state) {
        state.add("u", whole(values.data(), {2, 2}));
      },
      [](const auto& restore, int) {
        std::vector<double> memory(8, -1);
        State to;
        to.add("u", whole(memory.data(), {2, 2}, {3, 2}));  // no layout, but no element twice
        restore(to);
        EXPECT_THAT(memory, ElementsAre(1, -1, 2, 3, -1, 4, -1, -1));
      });
  std::vector<double> one{7};  // saved from memory that is shared
  job(
      [&](State& state) {
        state.add("u", whole(one.data(), {2, 2}, {0, 0}));
      },
      [](const auto& restore, int) {
        std::vector<double> memory(4, -1);
        State to;
        to.add("u", whole(memory.data(), {2, 2}));
        restore(to);
        EXPECT_THAT(memory, Each(7.0));
      });
}

TEST_P(Ties, KeysInOneMemoryGetTheSameBytesOrNone) {
  const auto a = [](State& state, auto& memory) { state.add("a", whole(memory.data(), {6})); };
  refused(
      stored(),
      [&](State& state, auto& memory) {
        a(state, memory);
        state.add("other", whole(memory.data(), {6}));
      },
      AllOf(test::Says("tensors 'a' and 'other' are to be restored into the same memory"),
            test::Says("their values in "), test::Says("Give each of them memory of its own")));
  refused(
      stored(),
      [&](State& state, auto& memory) {
        a(state, memory);
        state.add("same", whole(memory.data() + 5, {6}));
      },
      test::Says("they share a part of it"));
  refused(
      stored(),
      [&](State& state, auto& memory) {
        a(state, memory);
        state.add("single", whole(reinterpret_cast<float*>(memory.data()), {6}));
      },
      test::Says("tensors 'a' and 'single' are to be restored into the same memory"));
  refused(
      stored(),
      [&](State& state, auto& memory) {
        state.add("a", whole(memory.data(), {6}));
        state.add("same", slice(memory.data(), {6}, {0}, {3}));
      },
      HasSubstr("tensors 'a' and 'same'"));
  job(stored(), [](const auto& restore, int) {
    std::vector<double> memory(6, -1);
    State to;
    to.add("a", whole(memory.data(), {6})).add("same", whole(memory.data(), {6}));
    restore(to);
    EXPECT_THAT(memory, ElementsAre(1, 2, 3, 4, 5, 6));
  });
}

TEST_P(Ties, PatchesInOneMemory) {
  const auto into_one = [](std::int64_t second) {
    return [=](State& state, auto& memory) {
      state.add("u", patches({slice(memory.data(), {6}, {0}, {2}),
                              slice(memory.data(), {6}, {second}, {2})}));
    };
  };
  auto values = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4, 1, 2});
  const Fill save = [=](State& state) { state.add("u", whole(values->data(), {6})); };
  refused(
      save, into_one(2),
      test::Says("tensor 'u': rows 0..1 and rows 2..3 are to be restored into the same memory"));
  job(save, [&](const auto& restore, int) {
    std::vector<double> memory(2, -1);
    State to;
    into_one(4)(to, memory);
    restore(to);
    EXPECT_THAT(memory, ElementsAre(1, 2));
  });
}

// Each rank has another part, cut differently from the saved slices.
TEST_P(Ties, PartsThatAreStoredInOtherSlices) {
  constexpr std::int64_t n = 2000;
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), 5);
  auto other = values;
  other[n - 1] = 0;
  auto options = on_disk();
  options.write.chunk_bytes = 4096;
  const auto save = [&](std::shared_ptr<Group> group) {
    const std::int64_t rank = group->rank(), cut = n / 7;
    State state;
    const auto first = rank == 0 ? 0 : cut, count = rank == 0 ? cut : n - cut;
    if (rank < 2) state.add("a", slice(values.data() + first, {n}, {first}, {count}));
    state.add("same", whole(values.data(), {n})).add("other", whole(other.data(), {n}));
    CheckpointManager(group, "/run", options).save(1, state);
  };
  run_threads(2, save);
  run_threads(ranks(), [&](std::shared_ptr<Group> group) {
    const std::int64_t size = group->size(), mine = n / size, at = group->rank() * mine;
    std::vector<std::int32_t> memory(n);
    const auto part = [&] { return slice(memory.data(), {n}, {at}, {mine}); };
    CheckpointManager manager(group, "/run", options);
    State tied, untied;
    tied.add("a", part()).add("same", part());
    manager.restore(1, tied);
    EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + mine, values.begin() + at));
    const std::vector<std::int32_t> before(n, -1);
    memory = before;
    untied.add("a", part());
    // Shared memory on one rank is enough for a refusal on all.
    std::vector<std::int32_t> apart(n);
    const bool is_tied = group->rank() == size - 1;
    untied.add("other", is_tied ? part() : slice(apart.data(), {n}, {at}, {mine}));
    if (size * mine == n) {
      expect_error(Code::invalid_argument,
                   test::Says("their values in the checkpoint /run/ckpt-1 differ"),
                   [&] { manager.restore(1, untied); });
      EXPECT_EQ(memory, before);
    }
  });
}

TEST_P(Ties, TextsAndVectorsThatAreGivenTwice) {
  job(stored(), [](const auto& restore, int) {
    std::string text = "before";
    State same, differ;
    same.add("text", text).add("text_again", text);
    restore(same);
    EXPECT_EQ(text, "one");
    text = "before";
    differ.add("text", text).add("another", text);
    expect_error(Code::invalid_argument,
                 test::Says("tensors 'text' and 'another' are to be restored into the same memory"),
                 [&] { restore(differ); });
    EXPECT_EQ(text, "before");
  });
  auto rows = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3});
  auto again = std::make_shared<std::vector<double>>(*rows);
  auto longer = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4});
  const Fill save = [=](State& state) {
    state.add("rows", resizable(*rows)).add("again", resizable(*again));
    state.add("longer", resizable(*longer));
  };
  job(save, [](const auto& restore, int) {
    std::vector<double> memory;  // which has no address yet
    State same, differ, owned;
    same.add("rows", resizable(memory)).add("again", resizable(memory));
    restore(same);
    EXPECT_THAT(memory, ElementsAre(1, 2, 3));
    memory.clear();
    memory.shrink_to_fit();
    differ.add("rows", resizable(memory)).add("longer", resizable(memory));
    expect_error(Code::invalid_argument,
                 test::Says("tensors 'rows' and 'longer' are to be restored into the same memory"),
                 [&] { restore(differ); });
    EXPECT_TRUE(memory.empty());
    memory = {-1, -1, -1};
    owned.add("rows", resizable(memory)).add("again", whole(memory.data(), {3}));
    expect_error(Code::invalid_argument, HasSubstr("tensors 'rows' and 'again'"),
                 [&] { restore(owned); });
    EXPECT_THAT(memory, Each(-1.0));
  });
}

TEST_P(Ties, RowsOfRanksAndRowsById) {
  job(
      [kept = std::make_shared<std::array<std::vector<double>, 2>>()](State& state) {
        (*kept) = {std::vector<double>{1, 2}, {1, 2}};
        state.add("rows", ragged((*kept)[0])).add("again", ragged((*kept)[1]));
      },
      [](const auto& restore, int) {
        std::vector<double> memory;
        State to;
        to.add("rows", ragged(memory)).add("again", ragged(memory));
        expect_error(
            Code::invalid_argument,
            test::Says("tensors 'rows' and 'again' are to be restored into the same memory"),
            [&] { restore(to); });
        EXPECT_TRUE(memory.empty());
      });
}

// A restore resizes the vector to whole rows.
TEST_P(Ties, WhatAVectorHeldNeedBeNoWholeRows) {
  if (std::get<1>(GetParam())) return;  // from memory to memory a state is asked for its rows
  job(
      [kept = std::make_shared<std::vector<double>>()](State& state) {
        *kept = {1, 2, 3, 4};
        state.add("rows", ragged(*kept, {2}));
      },
      [](const auto& restore, int) {
        std::vector<double> rows(1, -1);
        State to;
        to.add("rows", ragged(rows, {2}));
        restore(to);
        EXPECT_THAT(rows, ElementsAre(1, 2, 3, 4));
      });
}

TEST_P(Ties, WhatNoRankHolds) {
  auto values = std::make_shared<std::vector<double>>(std::vector<double>{1, 2});
  const Fill save = [=](State& state) {
    for (const auto* key : {"a", "same"}) {
      state.add(key, sparse(slice(values->data(), {4}, {1}, {2}), 9.0));
    }
    state.add("other", sparse(slice(values->data(), {4}, {0}, {2}), 9.0));
    state.add("one", whole(values->data(), {1}));
  };
  job(save, [](const auto& restore, int) {
    std::vector<double> memory(4, -1);
    State same, differ;
    for (const auto* key : {"a", "same"}) same.add(key, sparse(whole(memory.data(), {4}), 8.0));
    restore(same);
    EXPECT_THAT(memory, ElementsAre(8, 1, 2, 8));
    memory.assign(4, -1);
    differ.add("a", sparse(whole(memory.data(), {4}), 8.0));
    differ.add("same", sparse(whole(memory.data(), {4}), 7.0));
    expect_error(Code::invalid_argument, HasSubstr("tensors 'a' and 'same'"),
                 [&] { restore(differ); });
    State shifted;
    for (const auto* key : {"a", "other"}) shifted.add(key, sparse(whole(memory.data(), {4}), 8.0));
    expect_error(Code::invalid_argument, HasSubstr("tensors 'a' and 'other'"),
                 [&] { restore(shifted); });
    State both;  // what is stored of one is where the other has none
    both.add("a", sparse(whole(memory.data(), {4}), 8.0)).add("one", whole(memory.data(), {1}));
    expect_error(Code::invalid_argument, HasSubstr("tensors 'a' and 'one'"),
                 [&] { restore(both); });
    EXPECT_THAT(memory, Each(-1.0));
  });
}

// Two keys that come from one stored tensor need no reads to prove that their bytes are equal.
TEST(TiesOfOneTensor, AreEqualWithoutReads) {
  std::vector<double> saved(24, 3), memory(24), other(24);
  CheckpointManager manager(serial_group(), "/run", on_disk());
  State from;
  from.add("a", whole(saved.data(), {24}));
  manager.save(1, from);
  const auto read_into = [&](double* second) {
    State to;
    to.add("first", whole(memory.data(), {24})).add("second", whole(second, {24}));
    return manager.restore(1, to, {.rename = {{"first", "a"}, {"second", "a"}}}).bytes_read;
  };
  const auto apart = read_into(other.data());
  EXPECT_EQ(read_into(memory.data()), apart);
  EXPECT_THAT(memory, Each(3.0));
}

}  // namespace
}  // namespace cairn
