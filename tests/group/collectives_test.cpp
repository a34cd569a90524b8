// Agreement on errors and tree collectives, on every kind of ranks.
#include "group/collectives.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"
#include "cairn/group.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"
#include "testing/crash.hpp"

namespace cairn {
namespace {

using test::error_of;
using test::expect_error;
using ::testing::HasSubstr;

class Collectives : public test::OnGroups {};
CAIRN_ON_GROUPS(Collectives);

TEST_P(Collectives, AgreeOnSuccess) {
  on_ranks([&](auto group) { EXPECT_NO_THROW(agree(*group, std::nullopt)); });
}

TEST_P(Collectives, AgreeThrowsTheLowestRanksErrorWholeOnAll) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size(), lowest = size / 2;
    std::optional<Error> mine;
    if (me >= lowest) {
      mine.emplace(Code::no_space, cat("rank ", me, " has no room"), cat("reason ", me),
                   cat("Way out ", me, "."));
      mine->at(cat("dir/file-", me)).of_tensor(cat("tensor\0/", me));
    }
    const auto error = error_of([&] { agree(*group, mine); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::no_space);
    EXPECT_EQ(error->rank(), lowest);
    EXPECT_EQ(error->problem(), cat("rank ", lowest, " has no room"));
    EXPECT_EQ(error->reason(), cat("reason ", lowest));
    EXPECT_EQ(error->way_out(), cat("Way out ", lowest, "."));
    EXPECT_EQ(error->path(), cat("dir/file-", lowest));
    EXPECT_EQ(error->tensor(), cat("tensor\0/", lowest));
    EXPECT_EQ(std::string(error->what()), cat("rank ", lowest, " has no room: dir/file-", lowest,
                                              " (reason ", lowest, "). Way out ", lowest, "."));
    EXPECT_NO_THROW(agree(*group, std::nullopt));
  });
}

TEST_P(Collectives, AgreeKeepsTheRankThatAnErrorNames) {
  on_ranks([&](auto group) {
    std::optional<Error> mine;
    if (group->rank() == 0) {
      mine.emplace(Code::io, "disk");
      mine->on_rank(42);
    }
    const auto error = error_of([&] { agree(*group, mine); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->rank(), 42);
  });
}

TEST_P(Collectives, AllToAllDeliversEachMessageInOrder) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size();
    // Two messages to each rank whose distance, modulo 3, is not 2; some are empty, some long.
    const auto sends = [&](int from, int to) { return (to - from + size) % size % 3 != 2; };
    const auto text = [](int from, int to, int which) {
      return std::string(static_cast<std::size_t>((from * 7 + to) % 5 * 1000), 'x') +
             (which ? cat(from, " to ", to) : "");
    };
    Messages mine, expected;
    for (int other = size - 1; other >= 0; --other) {
      for (int which = 0; sends(me, other) && which < 2; ++which) {
        mine.emplace_back(other, text(me, other, which));
      }
    }
    for (int other = 0; other < size; ++other) {
      for (int which = 0; sends(other, me) && which < 2; ++which) {
        expected.emplace_back(other, text(other, me, which));
      }
    }
    EXPECT_EQ(all_to_all(*group, std::move(mine)), expected);
    EXPECT_TRUE(all_to_all(*group, {}).empty());
  });
}

TEST_P(Collectives, AllToAllRefusesRanksThatAreNoneOnAll) {
  on_ranks([&](auto group) {
    const int size = group->size();
    Messages mine;
    if (group->rank() == size - 1) mine.emplace_back(size, "?");
    expect_error([&] { all_to_all(*group, std::move(mine)); }, Code::internal,
                 HasSubstr(cat("a message goes to rank ", size)));
  });
}

TEST_P(Collectives, TogetherReturnsValues) {
  on_ranks([&](auto group) {
    EXPECT_EQ(run_and_agree(*group, [&] { return cat("mine is ", group->rank()); }),
              cat("mine is ", group->rank()));
    bool called = false;
    run_and_agree(*group, [&] { called = true; });
    EXPECT_TRUE(called);
  });
}

TEST_P(Collectives, TogetherTurnsForeignExceptionsIntoInternalOnes) {
  on_ranks([&](auto group) {
    const int me = group->rank(), last = group->size() - 1;
    const auto one = error_of([&] {
      run_and_agree(*group, [&] {
        if (me == last) throw std::runtime_error("a policy gave up");
      });
    });
    ASSERT_TRUE(one);
    EXPECT_EQ(one->code(), Code::internal);
    EXPECT_EQ(one->what(), test::wording("a policy gave up"));
    EXPECT_EQ(one->rank(), last);
    expect_error(
        [&] {
          run_and_agree(*group, [&]() -> int {
            if (me == last) throw 17;
            return 1;
          });
        },
        Code::internal, "an exception of unknown type");
  });
}

// The application's own version: run_and_agree() of include/cairn/group.hpp.
TEST_P(Collectives, WhatTheApplicationThrowsOnOneRankAllThrow) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int me = group->rank(), last = group->size() - 1;
    EXPECT_EQ(run_and_agree(group, [&] { return cat("mine is ", me); }), cat("mine is ", me));
    std::string kept = "by reference";
    const std::string& given = kept;
    EXPECT_EQ(run_and_agree(group, [&]() -> const std::string& { return given; }), kept);
    const auto one = error_of([&] {
      run_and_agree(group, [&] {
        if (me == last) throw std::runtime_error("no such mesh");
      });
    });
    ASSERT_TRUE(one);
    EXPECT_EQ(one->code(), Code::application);
    EXPECT_EQ(one->what(), test::wording("no such mesh"));
    EXPECT_EQ(one->rank(), last);
    const auto other = error_of([&] {
      run_and_agree(group, [&]() -> std::unique_ptr<int> {  // results that cannot be copied, too
        if (me == last) {
          throw Error(Code::not_found, "no mesh", "why", "Way out.").at("/x").of_tensor("t");
        }
        return nullptr;
      });
    });
    ASSERT_TRUE(other);
    EXPECT_EQ(other->code(), Code::not_found);
    EXPECT_EQ(other->what(), test::wording("no mesh: /x (why). Way out."));
    EXPECT_EQ(other->tensor(), "t");
    expect_error(
        [&] {
          run_and_agree(group, [&]() -> int {
            if (me == last) throw 17;
            return 1;
          });
        },
        Code::application, "the application threw what is no std::exception");
    EXPECT_EQ(run_and_agree(group, [] { return 4; }), 4);
  });
  expect_error([] { run_and_agree(std::shared_ptr<Group>(), [] {}); }, Code::invalid_argument,
               test::Says("group of together is null"));
}

TEST_P(Collectives, TogetherWithinTogether) {
  on_ranks([&](auto group) {
    const auto error = error_of([&] {
      run_and_agree(*group, [&] {
        run_and_agree(*group, [&] {
          if (group->rank() == group->size() - 1) throw Error(Code::coverage, "a gap");
        });
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::coverage);
    EXPECT_EQ(error->rank(), group->size() - 1);
  });
}

TEST_P(Collectives, CommunicationErrorsAreNotAgreedOn) {
  on_ranks([&](auto group) {
    // Not collective: no other rank is asked.
    if (group->rank() == 0) {
      expect_error(
          [&] {
            run_and_agree(*group, [] { throw Error(Code::communication, "the wire is cut"); });
          },
          Code::communication, "the wire is cut");
      expect_error([&] { agree(*group, Error(Code::communication, "cut again")); },
                   Code::communication, "cut again");
    }
    group->barrier();
  });
}

TEST_P(Collectives, ACrashIsNoError) {
  on_ranks(
      [&](auto group) { EXPECT_THROW(run_and_agree(*group, [] { throw Crashed{}; }), Crashed); });
}

TEST_P(Collectives, ReduceToRootCombinesNeighboursInRankOrder) {
  on_ranks([&](auto group) {
    const auto result =
        reduce_to_root(*group, cat(group->rank(), ","), [](std::string a, std::string b) {
          const auto last = [](const std::string& list) {
            const auto comma = list.rfind(',', list.size() - 2);
            return std::stoi(list.substr(comma == std::string::npos ? 0 : comma + 1));
          };
          EXPECT_EQ(last(a) + 1, std::stoi(b));
          return a + b;
        });
    std::string expected;
    for (int rank = 0; rank < group->size(); ++rank) expected += cat(rank, ",");
    EXPECT_EQ(result, group->rank() == 0 ? expected : "");
  });
}

TEST_P(Collectives, ReduceToRootTellsAllOfAFailingCombine) {
  on_ranks([&](auto group) {
    if (group->size() == 1) {  // a single rank combines nothing
      const auto unused = [](std::string, std::string) -> std::string {
        throw Error(Code::internal, "called");
      };
      EXPECT_EQ(reduce_to_root(*group, "x", unused), "x");
      return;
    }
    const auto error = error_of([&] {
      reduce_to_root(*group, "x", [&](std::string, std::string) -> std::string {
        throw Error(Code::coverage, cat("doubled at ", group->rank()));
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->what(), test::wording("doubled at 0"));
    // The combine function fails only on a rank in the middle of the tree.
    const auto deep = error_of([&] {
      reduce_to_root(*group, "x", [&](std::string a, std::string b) {
        if (group->rank() == 2) throw Error(Code::coverage, "doubled in the middle");
        return a + b;
      });
    });
    EXPECT_EQ(deep.has_value(), group->size() > 3);
    if (deep) {
      EXPECT_EQ(deep->rank(), 2);
    }
    group->barrier();
  });
}

TEST_P(Collectives, GatherAndAllGatherKeepOrderAndLengths) {
  on_ranks([&](auto group) {
    const auto text = [](int rank) {
      return rank % 3 == 1
                 ? std::string()
                 : std::string(static_cast<std::size_t>(rank) * 999, 'a' + rank % 26) + '\0';
    };
    std::vector<std::string> expected;
    for (int rank = 0; rank < group->size(); ++rank) expected.push_back(text(rank));
    const auto gathered = gather(*group, text(group->rank()));
    EXPECT_EQ(gathered, group->rank() == 0 ? expected : std::vector<std::string>());
    EXPECT_EQ(all_gather(*group, text(group->rank())), expected);
  });
}

TEST_P(Collectives, ScatterGivesEachItsPart) {
  on_ranks([&](auto group) {
    const auto text = [](int rank) {
      return std::string(static_cast<std::size_t>(rank % 4) * 700, 'a' + rank % 26);
    };
    std::vector<std::string> parts;
    if (group->rank() == 0) {
      for (int rank = 0; rank < group->size(); ++rank) parts.push_back(text(rank));
    }
    EXPECT_EQ(scatter(*group, parts), text(group->rank()));
    expect_error([&] { scatter(*group, std::vector<std::string>(99)); }, Code::internal,
                 cat("99 parts are scattered to ", group->size(), " ranks"));
  });
}

TEST_P(Collectives, FromRootTellsResultOrFailure) {
  on_ranks([&](auto group) {
    const auto result = from_root(*group, [&] {
      EXPECT_EQ(group->rank(), 0);
      return std::string("seen\0by rank 0", 14);
    });
    EXPECT_EQ(result, std::string("seen\0by rank 0", 14));
    EXPECT_EQ(from_root(*group, [] { return std::string(); }), "");
    const auto error = error_of([&] {
      from_root(*group, []() -> std::string {
        throw Error(Code::not_found, "no directory").at("/run/ckpt");
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::not_found);
    EXPECT_EQ(error->path(), "/run/ckpt");
    EXPECT_EQ(error->rank(), 0);
  });
}

TEST_P(Collectives, ValuesAndFlags) {
  on_ranks([&](auto group) {
    const int me = group->rank(), last = group->size() - 1;
    EXPECT_EQ(broadcast_value(*group, 1.5 * me, last), 1.5 * last);
    EXPECT_EQ(broadcast_text(*group, cat("from ", me), last), cat("from ", last));
    EXPECT_TRUE(all_of(*group, true));
    EXPECT_FALSE(all_of(*group, me != last));
    EXPECT_TRUE(any_of(*group, me == last));
    EXPECT_FALSE(any_of(*group, false));
    EXPECT_EQ(all_reduce(*group, me, Group::Op::max), last);
  });
}

TEST_P(Collectives, RequireSameAccepts) {
  on_ranks([&](auto group) {
    require_same(*group, "the step", "10");
    require_same(*group, "nothing", "");
    require_same(*group, "the keys", std::string(100'000, 'k'));
  });
}

TEST_P(Collectives, RequireSameNamesBothValuesAndRanks) {
  on_ranks([&](auto group) {
    if (group->size() == 1) {
      EXPECT_NO_THROW(require_same(*group, "the step", "10"));
      return;
    }
    const int me = group->rank(), last = group->size() - 1;
    const auto error =
        error_of([&] { require_same(*group, "the step", me == last ? "11" : "10"); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::disagreement);
    EXPECT_EQ(std::string(error->what()), cat("ranks disagree on the step: rank 0 says 10, rank ",
                                              last, " says 11. Give the same on all ranks."));
    expect_error([&] { require_same(*group, "the format", me == 0 ? "" : cat("f", me)); },
                 Code::disagreement,
                 test::Says("ranks disagree on the format: rank 0 says \"\", rank 1 says f1"));
    if (group->size() > 2) {
      expect_error([&] { require_same(*group, "x", me == 0 ? "a" : "b"); }, Code::disagreement,
                   HasSubstr(cat("(", last, " of ", last + 1, " ranks differ from rank 0)")));
    }
    // Long texts that differ only in the last byte are distinguished, and shown in part.
    std::string text(100'000, 'k');
    text.back() = static_cast<char>('a' + me);
    expect_error([&] { require_same(*group, "the keys", text); }, Code::disagreement,
                 HasSubstr("ka (100000 bytes), rank 1 says …kkk"));
    text = std::string(100'000, 'k');
    text[50'000] = static_cast<char>('a' + me);
    expect_error([&] { require_same(*group, "the keys", text); }, Code::disagreement,
                 HasSubstr("kakk"));
  });
}

TEST_P(Collectives, RequireSameNamesTheSettingsThatDiffer) {
  on_ranks([&](auto group) {
    const int me = group->rank(), last = group->size() - 1;
    const auto settings = [&](bool other) {
      std::vector<Setting> all{{"keep.last", other ? "3" : "5"}, {"name", "ckpt"}};
      for (int i = 0; i < 100; ++i) all.push_back({cat("filler ", i), "the same everywhere"});
      all.push_back({"overwrite", other ? "true" : "false"});
      if (other) all.push_back({"rename['x']", "'y'"});
      return all;
    };
    EXPECT_NO_THROW(require_same(*group, "ManagerOptions", settings(true)));
    if (last == 0) return;
    const auto error =
        error_of([&] { require_same(*group, "ManagerOptions", settings(me == last)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::disagreement);
    const auto on = cat(" on rank ", last);
    EXPECT_EQ(std::string(error->what()),
              cat("ranks disagree on ManagerOptions: keep.last is 5 on rank 0 and 3", on,
                  "; overwrite is false on rank 0 and true", on,
                  "; rename['x'] is none on rank 0 and 'y'", on,
                  ". Give the same ManagerOptions on all ranks."));
    expect_error([&] { require_same(*group, "x", settings(me == 0)); }, Code::disagreement,
                 test::Says("keep.last is 3 on rank 0 and 5 on rank 1"));
  });
}

}  // namespace
}  // namespace cairn
