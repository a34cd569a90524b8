// Sharding policies through the manager: an answer that is not allowed is one error on all ranks
// and leaves nothing behind.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Shards = std::vector<Shard>;

/// Lets the default policy work and then spoils its result, on one rank.
class Adversary : public ShardingCallback {
 public:
  Adversary(int rank, std::function<void(Shards&)> spoil) : rank_(rank), spoil_(std::move(spoil)) {}
  std::string description() const override { return "adversary"; }
  Shards operator()(const std::vector<ShardableTensor>& tensors) const override {
    auto shards = ShardByTaskPolicy()(tensors);
    if (tensors.front().task.task == rank_ && active) spoil_(shards);
    return shards;
  }
  bool active = true;

 private:
  int rank_;
  std::function<void(Shards&)> spoil_;
};

/// Tensors that only this rank has and writes.
struct Mine {
  std::vector<double> rows = std::vector<double>(24);
  std::vector<std::string> words{"a", "b", "c", "d", "e"};
  std::int64_t step = 1;
  State state;

  explicit Mine(const Group& group) {
    state.add("step", step);
    state.add("u", slice(rows.data(), {4 * group.size(), 6}, {4 * group.rank(), 0}, {4, 6}));
    state.add(cat("words", group.rank()), words);
    state.add(cat("none", group.rank()), nothing(DType::float32, {0, 3}));
  }
};

/// Replaces the rank's slice of "u" by a changed copy, in the shard where the copy belongs.
template <class Change>
auto changed(Change change) {
  return [=](Shards& shards) {
    auto& slices = shards[0].at("u");
    auto tensor = slices.begin()->second;
    slices.clear();
    change(tensor);
    shards[0][tensor.key].emplace(tensor.slice, tensor);
  };
}

struct Attack {
  const char* name;
  std::function<void(Shards&)> spoil;
  std::function<std::vector<std::string>(int rank, int ranks)> texts;  // what the error must say
};

std::string key_starting(const Shard& shard, const std::string& start) {
  for (const auto& [key, slices] : shard) {
    if (key.rfind(start, 0) == 0) return key;
  }
  return "";
}

std::string rows_text(int rank) { return cat("rows ", 4 * rank, "..", 4 * rank + 3, " × 0..5"); }
std::string spec(int rank, int ranks) { return cat("\"", 4 * ranks, " 6 ", 4 * rank, ",4:0,6\""); }

std::vector<Attack> attacks() {
  return {
      {"the same slice twice",
       [](Shards& shards) {
         shards.push_back({{"u", shards[0].at("u")}});
       },
       [](int rank, int ranks) {
         return std::vector<std::string>{
             cat("a key and slice was found twice: key 'u', slice ", spec(rank, ranks)),
             "first in shard 0, again in shard 1"};
       }},
      {"pieces that overlap",
       [](Shards& shards) {
         auto piece = shards[0].at("u").begin()->second;
         piece.slice.extent[0] = 2;
         shards.push_back({{"u", {{piece.slice, piece}}}});
       },
       [](int rank, int ranks) {
         return std::vector<std::string>{
             "elements were found twice: key 'u'",
             cat("rows ", 4 * rank, "..", 4 * rank + 1, " × 0..5 are in slice"), spec(rank, ranks),
             "of shard 1 and in slice", "of shard 0)"};
       }},
      {"a key that was not given", changed([](auto& t) { t.key = "v"; }),
       [](int, int) {
         return std::vector<std::string>{"not among those given: key 'v'",
                                         "shard 0 has this key; none of the "};
       }},
      {"an altered shape", changed([](auto& t) { t.shape[1] = 7; }),
       [](int, int ranks) {
         return std::vector<std::string>{
             "an altered shape: key 'u'",
             cat("given: [", 4 * ranks, " 6]; returned: [", 4 * ranks, " 7]")};
       }},
      {"a piece that leaves what was given", changed([](auto& t) { t.slice.extent[1] = 9; }),
       [](int rank, int ranks) {
         return std::vector<std::string>{
             "a slice was found that reaches out of its tensor: key 'u'",
             cat("the shape is [", 4 * ranks, " 6]; returned: rows ", 4 * rank, "..", 4 * rank + 3,
                 " × 0..8")};
       }},
      {"an altered dtype", changed([](auto& t) { t.dtype = DType::float32; }),
       [](int, int) {
         return std::vector<std::string>{"an altered dtype: key 'u'",
                                         "given: float64; returned: float32"};
       }},
      {"an altered task", changed([](auto& t) { t.task.task += 1; }),
       [](int rank, int) {
         return std::vector<std::string>{"an altered task: key 'u'",
                                         cat("given: /job:worker/replica:0/task:", rank,
                                             "/device:CPU:0; returned: "
                                             "/job:worker/replica:0/task:",
                                             rank + 1, "/device:CPU:0")};
       }},
      // A call sees one task, so if a shard has two tasks, one was altered.
      {"two tasks in one shard",
       [](Shards& shards) {
         const auto key = key_starting(shards[0], "words");
         shards[0].at(key).begin()->second.task.replica = 1;
       },
       [](int rank, int) {
         return std::vector<std::string>{
             cat("an altered task: key 'words", rank, "'"),
             "/replica:0/task:", "; returned: /job:worker/replica:1/task:"};
       }},
      {"a tensor that is missing", [](Shards& shards) { shards[0].erase("u"); },
       [](int rank, int) {
         return std::vector<std::string>{"a tensor given is missing from the shards: key 'u'",
                                         cat("given: ", rows_text(rank), "; returned: nothing")};
       }},
      {"everything is missing", [](Shards& shards) { shards.clear(); },
       [](int, int) {
         return std::vector<std::string>{"is missing from the shards", "returned: nothing"};
       }},
      {"a tensor without elements that is missing",
       [](Shards& shards) { shards[0].erase(key_starting(shards[0], "none")); },
       [](int rank, int) {
         return std::vector<std::string>{cat("is missing from the shards: key 'none", rank, "'"),
                                         "returned: nothing"};
       }},
      {"part of a slice that is missing", changed([](auto& t) { t.slice.extent[0] = 3; }),
       [](int rank, int) {
         return std::vector<std::string>{
             "part of a slice given is missing from the shards: key 'u'",
             cat("given: ", rows_text(rank), "; not returned: rows ", 4 * rank + 3, "..",
                 4 * rank + 3, " × 0..5")};
       }},
      {"a string tensor that was cut",
       [](Shards& shards) {
         const auto key = key_starting(shards[0], "words");
         auto piece = shards[0].at(key).begin()->second;
         shards[0].at(key).clear();
         for (const Box& box : {Box{{0}, {2}}, Box{{2}, {3}}}) {
           piece.slice = box;
           shards[0].at(key).emplace(box, piece);
         }
       },
       [](int rank, int) {
         return std::vector<std::string>{cat("a string tensor was found cut: key 'words", rank),
                                         "given: \"5 0,5\"; returned: \"5 0,2\""};
       }},
      {"an altered owner", changed([](auto& t) { t.owner = *t.owner + 1; }),
       [](int, int) {
         return std::vector<std::string>{"an altered owner: key 'u'", "given: tensor ",
                                         "; returned: tensor "};
       }},
  };
}

class Policies : public testing::TestWithParam<int> {
 protected:
  Policies() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
  }
  int ranks() const { return GetParam(); }

  struct Seen {
    std::optional<Error> error;
    std::string text() const { return error ? error->what() : "no error"; }
  };

  /// Collects the error that each rank gets.
  std::vector<Seen> errors(const std::function<void(std::shared_ptr<Group>)>& body) {
    std::vector<Seen> seen(static_cast<std::size_t>(ranks()));
    run_threads(ranks(), [&](std::shared_ptr<Group> group) {
      try {
        body(group);
      } catch (const Error& error) {
        seen[static_cast<std::size_t>(group->rank())].error = error;
      }
    });
    return seen;
  }
  /// Checks that all ranks have the same error, and returns it.
  static Error the_one(const std::vector<Seen>& seen) {
    for (const auto& one : seen) {
      EXPECT_EQ(one.text(), seen[0].text());
      if (one.error && seen[0].error) {
        EXPECT_EQ(one.error->rank(), seen[0].error->rank());
        EXPECT_STREQ(code_name(one.error->code()), code_name(seen[0].error->code()));
      }
    }
    return seen[0].error.value_or(Error(Code::internal, "no error"));
  }

  /// Checks that a save fails and leaves nothing, and that the next one works.
  Error fails_once(const std::shared_ptr<Adversary>& policy) {
    options_.store.policy = policy;
    std::vector<Seen> seen(static_cast<std::size_t>(ranks()));
    run_threads(ranks(), [&](std::shared_ptr<Group> group) {
      Mine mine(*group);
      CheckpointManager manager(group, "/run", options_);
      try {
        manager.save(1, mine.state);
      } catch (const Error& error) {
        seen[static_cast<std::size_t>(group->rank())].error = error;
      }
      EXPECT_TRUE(manager.steps().empty());
      if (group->rank() == 0) {
        for (const auto& file : files_->list("/run")) EXPECT_THAT(file, StartsWith(".cairn"));
        policy->active = false;
      }
      group->barrier();
      manager.save(2, mine.state);
      std::fill(mine.rows.begin(), mine.rows.end(), -1.0);
      EXPECT_TRUE(manager.restore_latest(mine.state));
      EXPECT_EQ(mine.rows, std::vector<double>(24));
    });
    return the_one(seen);
  }

  void new_disk() {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_P(Policies, EachBrokenPromiseIsOneErrorOnAllRanks) {
  for (const auto& attack : attacks()) {
    for (const int rank : {0, ranks() - 1}) {
      SCOPED_TRACE(cat(attack.name, ", on rank ", rank));
      new_disk();
      const auto error = fails_once(std::make_shared<Adversary>(rank, attack.spoil));
      EXPECT_STREQ(code_name(error.code()), "sharding");
      EXPECT_EQ(error.rank(), rank);
      EXPECT_THAT(error.what(),
                  StartsWith("After executing the checkpoint sharding callback 'adversary', "));
      for (const auto& text : attack.texts(rank, ranks()))
        EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

TEST_P(Policies, WhatACallbackThrowsIsOneErrorOnAllRanks) {
  const int rank = ranks() - 1;
  const auto error_of = [&](std::function<void(Shards&)> spoil) {
    new_disk();
    const auto error = fails_once(std::make_shared<Adversary>(rank, std::move(spoil)));
    EXPECT_EQ(error.rank(), rank);
    return error;
  };
  const auto foreign = error_of([](Shards&) { throw std::runtime_error("out of ideas"); });
  EXPECT_STREQ(code_name(foreign.code()), "sharding");
  EXPECT_THAT(foreign.what(),
              AllOf(StartsWith("the checkpoint sharding callback 'adversary' failed (for the "),
                    HasSubstr(cat(" slices of /job:worker/replica:0/task:", rank,
                                  "/device:CPU:0 it threw: out of ideas)"))));
  const auto unknown = error_of([](Shards&) { throw 42; });
  EXPECT_THAT(unknown.what(), test::Says("it threw: an exception of unknown type)"));
  const auto own = error_of(
      [](Shards&) { throw Error(Code::unsupported, "not these tensors", "why", "what to do"); });
  EXPECT_STREQ(code_name(own.code()), "unsupported");
  EXPECT_STREQ(own.what(),
               Error(Code::unsupported, "not these tensors", "why", "what to do").what());
}

TEST_P(Policies, EmptyShardsMakeNoFiles) {
  options_.store.policy = std::make_shared<Adversary>(ranks() - 1, [](Shards& shards) {
    shards.insert(shards.begin(), Shard{});
    shards.push_back({{"u", {}}});
  });
  run_threads(ranks(), [&](std::shared_ptr<Group> group) {
    Mine mine(*group);
    CheckpointManager manager(group, "/run", options_);
    manager.save(1, mine.state);
    EXPECT_EQ(manager.open(1).num_files, ranks() + 1) << "one more for the metadata";
  });
}

struct Named : ShardByTaskPolicy {
  Named(std::string d, std::optional<std::string> p) : text(std::move(d)), stated(std::move(p)) {}
  std::string description() const override {
    if (text.empty()) throw std::runtime_error("no name comes to mind");
    return text;
  }
  std::optional<std::string> parameters() const override { return stated; }
  std::string text;
  std::optional<std::string> stated;
};

TEST_P(Policies, RanksMustAgreeOnThem) {
  const int odd = ranks() - 1;
  const auto made_with = [&](std::shared_ptr<const ShardingCallback> common,
                             std::shared_ptr<const ShardingCallback> other) {
    return errors([&](std::shared_ptr<Group> group) {
      auto options = options_;
      options.store.policy = group->rank() == odd ? other : common;
      CheckpointManager(group, "/run", options);
    });
  };
  const auto expect_none = [&](const std::vector<Seen>& seen) {
    for (const auto& one : seen) EXPECT_EQ(one.text(), "no error");
  };
  const auto max = [](std::int64_t bytes) { return std::make_shared<MaxShardSizePolicy>(bytes); };
  const auto named = [](const char* text, std::optional<std::string> stated) {
    return std::make_shared<Named>(text, std::move(stated));
  };
  expect_none(made_with(max(64), max(64)));
  expect_none(made_with(nullptr, std::make_shared<ShardByTaskPolicy>()));
  expect_none(made_with(named("n", std::nullopt), named("n", std::nullopt)));

  const auto nameless = the_one(made_with(max(64), named("", "")));
  EXPECT_EQ(nameless.rank(), odd);
  EXPECT_THAT(nameless.what(), test::Says("no name comes to mind"));
  if (ranks() == 1) return;

  const auto expect_disagreement = [&](const std::vector<Seen>& seen, const std::string& text) {
    const auto error = the_one(seen);
    EXPECT_STREQ(code_name(error.code()), "disagreement");
    EXPECT_THAT(error.what(), HasSubstr(text));
  };
  expect_disagreement(
      made_with(max(64), max(65)),
      cat("ranks disagree on the sharding policy: rank 0 says shards of at most 64 bytes, rank ",
          odd, " says shards of at most 65 bytes"));
  expect_disagreement(made_with(nullptr, max(64)), "ranks disagree on the sharding policy: ");
  expect_disagreement(
      made_with(named("n", "k=1"), named("n", "k=2")),
      cat("ranks disagree on the parameters of the sharding policy: rank 0 says 'k=1', rank ", odd,
          " says 'k=2'"));
  expect_disagreement(made_with(named("n", ""), named("n", std::nullopt)),
                      cat("rank 0 says '', rank ", odd, " says none that it states"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Policies, testing::ValuesIn(test::rank_counts()),
                         [](const auto& info) { return cat(info.param, "_ranks"); });

}  // namespace
}  // namespace cairn
