// Habits of TensorFlow's users: several Checkpoints of one name, asynchronous ones, options of one
// call, and waiting for the checkpoints of another job.
#include <functional>
#include <sstream>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoints_iterator.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Holds tasks until they are released.
class HeldQueue : public TaskQueue {
 public:
  ~HeldQueue() override { drain(); }
  void run(std::function<void()> task) override {
    if (!is_held) return task();
    tasks_.push_back(std::move(task));
  }
  void drain() override {
    is_held = false;
    for (const auto& task : std::exchange(tasks_, {})) task();
  }
  bool is_held = false;

 private:
  std::vector<std::function<void()>> tasks_;
};

// Each rank has one row of a tensor [ranks 2].
struct Rows {
  std::vector<double> row;
  State state;
  Rows(const Group& group, double value) : row{value + group.rank(), -value} {
    state.add("u", slice(row.data(), {group.size(), 2}, {group.rank(), 0}, {1, 2}));
  }
};

class Habits : public ::testing::TestWithParam<int> {
 protected:
  Habits() {
    const auto options = test::on_disk();
    options_.write = options.write;
    files_ = std::static_pointer_cast<io::MemoryFileSystem>(options.write.file_system);
  }
  template <class F>
  void on_ranks(F&& function) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) { function(std::move(group)); });
  }
  // The values in a checkpoint, read by one process.
  std::vector<double> saved(const std::string& prefix) {
    const auto bytes = BundleReader(prefix, files_).read("u");
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static double first_of(const std::vector<double>& values) { return values.at(0); }

  std::shared_ptr<io::MemoryFileSystem> files_;
  CheckpointOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Habits, ::testing::Values(1, 3));

TEST_P(Habits, SeveralCheckpointsOfOneName) {
  on_ranks([&](std::shared_ptr<Group> group) {
    Rows a(*group, 1), b(*group, 2);
    Checkpoint one(group, a.state, options_);
    std::optional<Checkpoint> other(std::in_place, group, b.state, options_);
    EXPECT_EQ(one.save("/run/ckpt"), "/run/ckpt-1");
    other->restore("/run/ckpt-1").assert_consumed();
    EXPECT_EQ(b.row, a.row);
    b.row[1] = 20;
    EXPECT_EQ(other->save("/run/ckpt"), "/run/ckpt-2");
    test::expect_error(Code::already_exists, HasSubstr("step 2 exists"),
                       [&] { one.save("/run/ckpt"); });
    EXPECT_EQ(one.save_counter(), 1) << "each counts its own, and a failed save uses up none";
    one.restore("/run/ckpt-2").assert_consumed();
    EXPECT_EQ(a.row[1], 20);
    a.row[1] = 30;
    EXPECT_EQ(one.save("/run/ckpt"), "/run/ckpt-3");
    EXPECT_EQ(latest_checkpoint(group, "/run", files_), "/run/ckpt-3");
    EXPECT_EQ(one.write("/run/ckpt"), "/run/ckpt");
    EXPECT_EQ(other->write("/run/ckpt"), "/run/ckpt") << "over the other's";
    EXPECT_EQ(saved("/run/ckpt")[1], 20);
    other.reset();
    EXPECT_EQ(one.save("/run/ckpt"), "/run/ckpt-4") << "the other's end leaves it the directory";
  });
  // All share one sequence: the newest checkpoint is the one saved last, by whichever object.
  auto options = test::on_disk();
  options.write = options_.write;
  CheckpointManager manager(serial_group(), "/run", options);
  std::vector<std::int64_t> steps;
  for (const auto& info : manager.steps()) steps.push_back(info.step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  std::vector<double> all(static_cast<std::size_t>(2 * GetParam()));
  State state;
  state.add("u", whole(all.data(), {GetParam(), 2}));
  EXPECT_EQ(manager.restore_latest(state)->step, 4);
  EXPECT_EQ(all[1], 30);
}

TEST_P(Habits, TheyShareOneEngineWhileTheirOptionsAreTheSame) {
  const auto looks = std::make_shared<std::atomic<int>>(0);
  files_->set_observer([looks](const std::string& operation) {
    if (operation.find("owner") != std::string::npos) ++*looks;
  });
  on_ranks([&](std::shared_ptr<Group> group) {
    Rows a(*group, 1), b(*group, 2);
    Checkpoint one(group, a.state, options_), other(group, b.state, options_);
    auto hooked = options_;
    int calls = 0;
    hooked.hooks.before_save.push_back([&](std::int64_t) { ++calls; });
    one.save("/run/ckpt");
    other.restore("/run/ckpt-1").expect_partial();
    group->barrier();
    const int opened = *looks;
    EXPECT_GT(opened, 0);
    group->barrier();
    EXPECT_EQ(other.save("/run/ckpt"), "/run/ckpt-2");
    one.restore("/run/ckpt-2").expect_partial();
    EXPECT_EQ(one.save("/run/ckpt"), "/run/ckpt-3");
    group->barrier();
    EXPECT_EQ(*looks, opened) << "nobody gave the directory up";
    // Functions cannot be compared, so the engine is opened with them, and again without.
    Checkpoint third(group, b.state, hooked);
    third.restore("/run/ckpt-3").expect_partial();
    EXPECT_EQ(third.save("/run/ckpt"), "/run/ckpt-4");
    EXPECT_EQ(calls, 1);
    one.restore("/run/ckpt-4").expect_partial();
    EXPECT_EQ(one.save("/run/ckpt"), "/run/ckpt-5");
    EXPECT_EQ(calls, 1) << "the third one's callback";
  });
  files_->set_observer({});
}

TEST_P(Habits, AsynchronousSaves) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const auto queue = std::make_shared<HeldQueue>();
    auto options = options_;
    options.async = {.when_busy = WhenBusy::skip, .queue = queue};
    Rows rows(*group, 1);
    Checkpoint checkpoint(group, rows.state, options);
    checkpoint.save_async("/run/ckpt");  // whose numbers are not agreed on by a sum
    checkpoint.wait();
    queue->is_held = true;
    rows.row[1] = 2;
    const auto handle = checkpoint.save_async("/run/ckpt");
    rows.row[1] = -1;
    EXPECT_EQ(handle.step(), 2);
    EXPECT_EQ(checkpoint.save_counter(), 2);
    EXPECT_EQ(checkpoint.save_async("/run/ckpt").stage(), SaveStage::skipped);
    EXPECT_EQ(checkpoint.save_counter(), 2) << "what is skipped uses up no number";
    EXPECT_FALSE(checkpoint.poll());
    for (int stage = 0; stage < 4 && !handle.committed(); ++stage) {  // there are fewer
      queue->drain();
      group->barrier();
      checkpoint.poll();
    }
    EXPECT_TRUE(handle.committed()) << "poll() moves it on";
    queue->drain();
    checkpoint.wait();
    EXPECT_TRUE(checkpoint.poll());
    EXPECT_EQ(latest_checkpoint(group, "/run", files_), "/run/ckpt-2");
    EXPECT_EQ(saved("/run/ckpt-2")[1], 2);
    // A restore and a blocking save complete the pending save.
    rows.row[1] = 3;
    checkpoint.save_async("/run/ckpt");
    rows.row[1] = -1;
    checkpoint.restore("/run/ckpt-3").assert_consumed();
    EXPECT_EQ(rows.row[1], 3);
    EXPECT_EQ(checkpoint.save_counter(), 3);
    checkpoint.save_async("/run/ckpt");
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-5");
    // A save of this name by another object completes it, too.
    checkpoint.save_async("/run/ckpt");
    Rows more(*group, 7);
    Checkpoint other(group, more.state, options);
    other.restore("/run/ckpt-5").expect_partial();
    other.save("/run/other");
    checkpoint.wait();
    EXPECT_EQ(latest_checkpoint(group, "/run", files_), "/run/ckpt-6");
  });
}

TEST_P(Habits, AFailureInTheBackgroundIsThrownByTheNextCall) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.async.queue = inline_queue();
    Rows rows(*group, 1);
    Checkpoint checkpoint(group, rows.state, options);
    checkpoint.save("/run/ckpt");
    group->barrier();
    if (group->rank() == 0) files_->inject({Code::io, "write", "part", 0, 1});
    group->barrier();
    checkpoint.save_async("/run/ckpt");
    test::expect_error(Code::io, HasSubstr("part"), [&] { checkpoint.wait(); });
    checkpoint.wait();
    EXPECT_EQ(checkpoint.save_counter(), 2) << "its number is used up";
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-3");
  });
}

TEST_P(Habits, OptionsOfOneCall) {
  on_ranks([&](std::shared_ptr<Group> group) {
    Rows rows(*group, 1);
    std::vector<double> more{1, 2, 3};
    rows.state.add("more", slice(more.data(), {3 * group->size()}, {3 * group->rank()}, {3}));
    Checkpoint checkpoint(group, rows.state, options_);
    const auto files_of = [&](const std::string& prefix) {
      return read_contents(*files_, prefix).num_files;
    };
    const auto policy_of = [&](const std::string& prefix) {
      return read_contents(*files_, prefix).meta->policy;
    };
    checkpoint.save("/run/ckpt");
    // One shard for each tensor, in this save only.
    const auto each = sharding_policy("each tensor", [](const auto& tensors) {
      std::vector<Shard> shards;
      for (const auto& tensor : tensors) add_to(shards.emplace_back(), tensor);
      return shards;
    });
    checkpoint.save("/run/ckpt", {.policy = each});
    checkpoint.save_async("/run/ckpt", {.policy = each});
    checkpoint.wait();
    checkpoint.save("/run/ckpt");
    checkpoint.write("/run/one", {.policy = each});
    const auto usual = files_of("/run/ckpt-1");
    EXPECT_GT(files_of("/run/ckpt-2"), usual);
    EXPECT_EQ(files_of("/run/ckpt-3"), files_of("/run/ckpt-2"));
    EXPECT_EQ(files_of("/run/one"), files_of("/run/ckpt-2") - 1) << "without the counter";
    EXPECT_EQ(files_of("/run/ckpt-4"), usual);
    EXPECT_EQ(policy_of("/run/ckpt-2"), "each tensor");
    EXPECT_EQ(policy_of("/run/ckpt-4"), policy_of("/run/ckpt-1"));
    // Overwriting is allowed for one call.
    Checkpoint again(group, rows.state, options_);
    test::expect_error(Code::already_exists, HasSubstr("CheckpointOptions::overwrite"),
                       [&] { again.save("/run/ckpt"); });
    EXPECT_EQ(again.save("/run/ckpt", {.overwrite = true}), "/run/ckpt-1");
    test::expect_error(Code::already_exists, HasSubstr("CheckpointOptions::overwrite"),
                       [&] { again.save("/run/ckpt"); });
    if (group->size() == 1) return;
    const bool low = group->rank() == 0;
    test::expect_error(Code::disagreement, HasSubstr("SaveOptions"),
                       [&] { checkpoint.save("/run/ckpt", {.policy = low ? each : nullptr}); });
    test::expect_error(Code::disagreement, HasSubstr("SaveOptions"),
                       [&] { checkpoint.save("/run/ckpt", {.overwrite = low}); });
    const auto named =
        sharding_policy(low ? "a" : "b", [](const auto&) { return std::vector<Shard>(); });
    test::expect_error(Code::disagreement, test::Says("the sharding policy"),
                       [&] { checkpoint.save("/run/ckpt", {.policy = named}); });
    test::expect_error(Code::sharding, HasSubstr("a"), [&] {
      checkpoint.save("/run/ckpt", {.policy = sharding_policy("drops all", [](const auto&) {
                                      return std::vector<Shard>();
                                    })});
    });
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-5") << "all of it is forgotten";
    EXPECT_EQ(files_of("/run/ckpt-5"), usual);
  });
}

// The second of two tensors is damaged: the first is left unchanged, if that is asked for.
TEST_P(Habits, OneRestoreThatVerifiesFirst) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<double> a(3000, 1), b(3000, 2);
    State state;
    state.add("a", a).add("b", b);
    Checkpoint checkpoint(group, state, options_);
    checkpoint.write("/run/w");
    group->barrier();
    if (group->rank() == 0) {
      const auto contents = read_contents(*files_, "/run/w");
      const auto* damaged = contents.find("b");
      const auto path = cat("/run/w.data-00000-of-0000", contents.num_files);
      auto bytes = io::read_file(*files_, path, 1 << 30);
      bytes[static_cast<std::size_t>(damaged->slices.front().offset) + 100] ^= 1;
      files_->remove(path);
      io::write_file(*files_, path, bytes);
    }
    group->barrier();
    a.assign(3000, -1);
    test::expect_error(Code::data_loss, HasSubstr("b"),
                       [&] { checkpoint.read("/run/w", {.verify_first = true}); });
    EXPECT_THAT(a, testing::Each(-1));
    if (group->size() == 1) return;
    test::expect_error(Code::disagreement, HasSubstr("verify_first"),
                       [&] { checkpoint.read("/run/w", {.verify_first = group->rank() == 0}); });
  });
}

TEST(HabitsAlone, APolicyOfAFunctionAndATensorAsText) {
  const ShardableTensor tensor{.name = "w",
                               .key = "w",
                               .dtype = DType::float32,
                               .shape = {3, 2},
                               .slice = {{0, 0}, {2, 2}},
                               .task = {},
                               .bytes = 16};
  std::ostringstream out;
  out << tensor;
  EXPECT_THAT(out.str(), AllOf(HasSubstr("'w' float32"), HasSubstr("3 2 0,2:0,2"),
                               HasSubstr("16 B"), HasSubstr("/job:")));
  const auto policy = sharding_policy(
      "mine",
      [](const auto& tensors) {
        Shard all;
        for (const auto& one : tensors) add_to(all, one);
        return std::vector{all};
      },
      "v1");
  EXPECT_EQ(policy->description(), "mine");
  EXPECT_EQ(policy->parameters(), "v1");
  EXPECT_EQ((*policy)({tensor}).size(), 1u);
  EXPECT_FALSE(
      sharding_policy("p", [](const auto&) { return std::vector<Shard>(); })->parameters());
  test::expect_error(Code::invalid_argument, test::Says("'none' has no function"),
                     [] { sharding_policy("none", nullptr); });
}

// The saving job has its turn whenever the waiting ranks would sleep.
class Waiting : public Habits {
 protected:
  struct Writer {
    double value = 0;
    State state;
    Checkpoint checkpoint;
    explicit Writer(const CheckpointOptions& options) : checkpoint(serial_group(), state, options) {
      state.add("v", value);
    }
  };
  // `turns`: what happens during each wait, on one rank only; after the last turn the job has
  // ended.
  void expect(const std::vector<std::function<void(Writer&)>>& turns,
              const std::vector<std::string>& found, IteratorOptions options = {}) {
    on_ranks([&](std::shared_ptr<Group> group) {
      std::size_t turn = 0;
      std::optional<Writer> writer;
      auto mine = options;
      mine.file_system = files_;
      mine.wait = [&](double seconds) {
        EXPECT_GT(seconds, 0);
        if (group->rank() != 0 || turn == turns.size()) return;
        if (!writer) writer.emplace(options_);
        turns[turn++](*writer);
      };
      if (!mine.stop) mine.stop = [&] { return turn == turns.size(); };
      std::vector<std::string> all;
      for (const auto& path : checkpoints_iterator(group, "/run", mine)) all.push_back(path);
      EXPECT_EQ(all, found);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Waiting, ::testing::Values(1, 3));

TEST_P(Waiting, ForWhatAnotherJobSaves) {
  const auto save = [](Writer& job) { job.checkpoint.save("/run/ckpt"); };
  const auto nothing = [](Writer&) {};
  expect({nothing, save, nothing, nothing,
          [&](Writer& job) { save(job), save(job), save(job); },  // two are passed over
          [&](Writer& job) { job.checkpoint.save_async("/run/ckpt"), job.checkpoint.wait(); },
          [&](Writer& job) { job.checkpoint.write("/run/other"); },  // tells nothing
          save},
         {"/run/ckpt-1", "/run/ckpt-4", "/run/ckpt-5", "/run/ckpt-6"});
}

TEST_P(Waiting, WhatIsThereComesFirstAndAPathThatWasSavedOverAgain) {
  {
    Writer before(options_);
    before.checkpoint.save("/run/ckpt");
    before.checkpoint.save("/run/ckpt");
  }
  const auto over = [](Writer& job) {
    job.checkpoint.restore("/run/ckpt-1").expect_partial();
    job.checkpoint.save("/run/ckpt", {.overwrite = true});
  };
  expect({[](Writer&) {}, over, over}, {"/run/ckpt-2", "/run/ckpt-2", "/run/ckpt-2"});
}

TEST_P(Waiting, EndsByTimeAndByFunctions) {
  int asked = 0;
  expect({}, {}, {.timeout_seconds = 0, .stop = [] { return false; }});
  expect({}, {},
         {.timeout_seconds = 0,
          .on_timeout = [&] { return ++asked == 3; },
          .stop = [] { return false; }});
  EXPECT_EQ(asked, 3);
  on_ranks([&](std::shared_ptr<Group> group) {
    const auto fails = [&](IteratorOptions options, Code code, const std::string& text) {
      options.file_system = files_;
      test::expect_error(code, HasSubstr(text),
                         [&] { CheckpointsIterator(group, "/run", options).next(); });
    };
    fails({.timeout_seconds = -1}, Code::invalid_argument, "timeout_seconds is -1");
    fails({.min_interval_seconds = std::nan("")}, Code::invalid_argument, "min_interval_seconds");
    fails({.poll_seconds = 0}, Code::invalid_argument, "Give a millisecond at least");
    fails({.stop = []() -> bool { throw std::runtime_error("no idea"); }}, Code::application,
          "IteratorOptions::stop");
    const int last = group->size() - 1;
    fails({.wait =
               [&](double) {
                 if (group->rank() == last) throw std::runtime_error("cannot sleep");
               }},
          Code::application, "IteratorOptions::wait");
    if (group->size() > 1) {
      fails({.poll_seconds = 1. + group->rank()}, Code::disagreement, "poll_seconds");
    }
    test::expect_error(Code::invalid_argument, HasSubstr("group"),
                       [] { CheckpointsIterator(nullptr, "/run"); });
    // A wait that has ended may begin again.
    CheckpointsIterator iterator(group, "/run", {.timeout_seconds = 0, .file_system = files_});
    EXPECT_EQ(iterator.next(), std::nullopt);
    Rows rows(*group, 1);
    Checkpoint(group, rows.state, options_).save("/run/ckpt");
    EXPECT_EQ(iterator.next(), "/run/ckpt-1");
    EXPECT_EQ(iterator.next(), std::nullopt);
  });
}

}  // namespace
}  // namespace cairn
