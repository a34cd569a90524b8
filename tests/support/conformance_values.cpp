// Conformance: every element is restored, bit by bit, on any number of ranks.
#include <array>
#include <complex>
#include <map>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/ragged.hpp"
#include "cairn/resizable.hpp"
#include "support/conformance.hpp"
#include "support/indexed_case.hpp"
#include "support/n_to_m.hpp"
#include "support/ragged_case.hpp"
#include "support/sparse_case.hpp"

namespace cairn::test {
namespace {

using Boxes = std::vector<std::vector<Box>>;

std::string pair_text(std::pair<int, int> pair, unsigned seed) {
  return cat(pair.first, " to ", pair.second, " ranks, seed ", seed);
}

TEST_P(Conformance, AnyRanksToAnyOthers) {
  unsigned seed = 0;
  for (const auto& [n, m] : launcher_->pairs()) {
    const auto what = pair_text({n, m}, ++seed);
    launcher_->new_disk();
    NToMCase one(n, m, seed);
    if (seed % 3 == 1) one.storage = Storage::dense;
    one.asynchronous = GetParam().combination.asynchronous;
    // The C and C++ interfaces read each other's checkpoints.
    one.saves = seed % 2 == 1 ? Face::c : Face::cpp;
    one.restores = seed / 2 % 2 == 1 ? Face::c : Face::cpp;
    on(n, what, [&](auto group) {
      one.save(group, directory(), saving());
      return "";
    });
    expect_whole(7, what);
    // The reader may also own the directory, as the next job of a run does.
    auto options = seed % 2 == 0 ? reading() : saving();
    on(m, what, [&](auto group) { return one.restore(group, directory(), options); });
    if (HasFailure()) return;
  }
}

TEST_P(Conformance, LengthsComeFromTheCheckpoint) {
  const auto counts = launcher_->counts();
  const int n = counts.back(), m = counts[counts.size() / 2];
  struct Mine {
    std::vector<double> history;
    std::vector<std::array<std::int32_t, 3>> events;
    std::vector<std::string> words;
    State state;
    Mine() {
      state.add("history", resizable(history)).add("events", resizable(events));
      state.add("words", resizable(words));
    }
    void set(int step) {
      history.assign(static_cast<std::size_t>(1000 * (step - 1)), 0.5 * step);
      events.assign(static_cast<std::size_t>(3 * step), {step, -step, 7});
      words.assign(static_cast<std::size_t>(step % 3),
                   std::string(400, static_cast<char>('a' + step)));
    }
  };
  on(n, cat(n, " ranks"), [&](auto group) -> std::string {
    Mine mine;
    CheckpointManager manager(group, directory(), saving());
    for (int step = 1; step <= 3; ++step) {
      mine.set(step);
      save(manager, step, mine.state);
    }
    return "";
  });
  expect_whole(2, "with lengths of its own");
  on(m, cat(n, " to ", m, " ranks"), [&](auto group) -> std::string {
    Mine mine, expected;
    CheckpointManager manager(group, directory(), reading());
    for (const int step : {2, 3, 1}) {
      expected.set(step);
      mine.history.resize(static_cast<std::size_t>(17 * group->rank()), -1);  // whatever it was
      manager.restore(step, mine.state);
      if (mine.history != expected.history) return cat("step ", step, ": the history differs");
      if (mine.events != expected.events) return cat("step ", step, ": the events differ");
      if (mine.words != expected.words) return cat("step ", step, ": the words differ");
    }
    return "";
  });
}

TEST_P(Conformance, EachDType) {
  std::vector<Sample> samples;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype || dtype_size(*dtype) == 0) continue;
    samples.push_back({cat("all/", dtype_name(*dtype)), *dtype, {7, 5}});
  }
  ASSERT_EQ(samples.size(), 30U);
  // The boxes of all samples on some ranks, dealt again for each purpose.
  const auto fill = [&](SampleState& mine, const Group& group, unsigned seed) {
    std::mt19937 random(seed);
    int style = 0;
    for (const auto& sample : samples) {
      const auto boxes = deal(guillotine(sample.shape, 5, random), group.size(), false, random);
      mine.add(sample, boxes[static_cast<std::size_t>(group.rank())], style++ % 3);
    }
  };
  const auto counts = launcher_->counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int n = counts[i], m = counts[(i + 1) % counts.size()];
    const auto what = pair_text({n, m}, 1);
    launcher_->new_disk();
    on(n, what, [&](auto group) {
      SampleState mine(3);
      fill(mine, *group, 1);
      mine.fill();
      CheckpointManager manager(group, directory(), saving());
      save(manager, 1, mine.state());
      return "";
    });
    expect_whole(1, what);
    on(m, what, [&](auto group) -> std::string {
      SampleState mine(3);
      fill(mine, *group, 2);
      CheckpointManager manager(group, directory(), reading());
      const auto contents = manager.open(1);
      for (const auto& sample : samples) {
        const auto* tensor = contents.find(sample.key);
        if (!tensor) return sample.key + " is missing";
        if (tensor->dtype != sample.dtype) return sample.key + " has another dtype";
        if (tensor->shape != sample.shape) return sample.key + " has another shape";
      }
      manager.restore(1, mine.state());
      return mine.check(3);
    });
  }
}

TEST_P(Conformance, StringsScalarsAndTensorsWithoutElements) {
  const std::vector<std::string> words{"", std::string("a\0b\0", 4), "caf\xc3\xa9", "\xff\xfe",
                                       std::string(100000, 'x')};
  struct Mine {
    std::vector<std::string> words, none;
    std::string alone = "one\n";
    double scalar = -0.0;
    std::int64_t step = 3;
    bool flag = true;
    std::complex<float> z{1, -2};
    float nobody = 0;
    State state;
  };
  for (const int n : launcher_->counts()) {
    launcher_->new_disk();
    on(n, cat(n, " ranks"), [&](auto group) -> std::string {
      const int last = group->size() - 1;
      Mine one, two;
      one.words = words;
      if (group->rank() == last) one.state.add("only/words", one.words);
      for (auto* mine : {&one, &two}) {
        mine->state.add("alone", mine->alone).add("none", mine->none);
        mine->state.add("x/scalar", mine->scalar).add("step", mine->step);
        mine->state.add("flag", mine->flag).add("z", mine->z);
        mine->state.add("empty", slice(&mine->nobody, {0}, {0}, {0}));
        mine->state.add("x/empty", slice(&mine->nobody, {3, 0, 2}, {0, 0, 0}, {3, 0, 2}));
      }
      CheckpointManager manager(group, directory(), saving());
      save(manager, 1, one.state);
      two.words.resize(words.size());
      two.alone = "", two.scalar = 1, two.step = 0, two.flag = false, two.z = {};
      if (group->rank() == 0) two.state.add("only/words", two.words);
      manager.restore(1, two.state);
      if (group->rank() == 0 && two.words != words) return "the words differ";
      if (two.alone != "one\n" || two.step != 3 || !two.flag || two.z != one.z) return "a scalar";
      if (!std::signbit(two.scalar)) return "the sign of zero";
      const auto contents = manager.open(1);
      const auto* empty = contents.find("x/empty");
      return empty && empty->shape == Dims{3, 0, 2} ? "" : "the tensor without elements";
    });
    expect_whole(1, cat(n, " ranks"));
  }
}

// Rows are dealt in turn as patches with halos, and restored as columns into column-major memory.
TEST_P(Conformance, PatchesHalosAndStrides) {
  const Sample sample{"field", DType::float64, {21, 40}};
  for (const int n : launcher_->counts()) {
    launcher_->new_disk();
    on(n, cat(n, " ranks"), [&](auto group) {
      SampleState mine(5), columns(5);
      std::vector<Box> rows;
      for (std::int64_t r = group->rank(); r < 21; r += group->size()) {
        rows.push_back({{r, 0}, {1, 40}});
      }
      mine.add(sample, rows, 1);
      mine.fill();
      CheckpointManager manager(group, directory(), saving());
      save(manager, 1, mine.state());
      const std::int64_t begin = group->rank() * 40 / group->size();
      const std::int64_t end = (group->rank() + 1) * 40 / group->size();
      columns.add(sample, {{{0, begin}, {21, end - begin}}}, 2);
      manager.restore(1, columns.state());
      if (const auto wrong = columns.check(5); !wrong.empty()) return wrong;
      mine.poison();
      manager.restore(1, mine.state());
      return mine.check(5);
    });
    expect_whole(1, cat(n, " ranks"));
  }
}

TEST_P(Conformance, WhatIsSaidOfTensorsComesBack) {
  const Sample field{"part/field", DType::float64, {21, 40}}, axis{"part/x", DType::float32, {40}};
  const Description wanted{.units = "m/s",
                           .dimensions = {"y", "x"},
                           .coordinates = {"x"},
                           .attributes = {{"list", Json{"[1,2]"}}, {"word", "caf\xc3\xa9"}}};
  launcher_->new_disk();
  on(some_ranks(), "described", [&](auto group) {
    SampleState mine(5);
    const std::int64_t begin = group->rank() * 21 / group->size();
    const std::int64_t end = (group->rank() + 1) * 21 / group->size();
    mine.add(field, {{{begin, 0}, {end - begin, 40}}}, 1);
    if (group->rank() == group->size() - 1) {
      mine.add(axis, {Box::whole(axis.shape)}, 0);
      mine.state().describe(axis.key, {.units = "m", .dimensions = {"x"}});
    }
    mine.fill();
    mine.state().describe(field.key, wanted).describe({{"title", "a run"}});
    CheckpointManager manager(group, directory(), saving());
    for (const int step : {1, 2}) {
      mine.state().describe("part", {.attributes = {{"step", step}}});
      save(manager, step, mine.state());
    }
    mine.poison();
    manager.restore(2, mine.state());
    return mine.check(5);
  });
  for (const int step : {1, 2}) {
    expect_whole(step, "described");
    on(1, "what it says", [&](auto group) {
      CheckpointManager manager(group, directory(), reading());
      const auto contents = manager.open(step);
      EXPECT_EQ(contents.description(field.key), wanted);
      EXPECT_EQ(contents.description(axis.key).units, "m");
      EXPECT_EQ(contents.description("part").attributes, (Attributes{{"step", step}}));
      EXPECT_EQ(contents.meta->descriptions.attributes, (Attributes{{"title", "a run"}}));
      return "";
    });
  }
}

TEST_P(Conformance, RanksWithNothing) {
  const Sample sample{"u", DType::int32, {50, 30}};
  for (const int n : launcher_->counts()) {
    for (const int who : {0, n - 1}) {
      const auto what = cat("rank ", who, " of ", n, " has everything");
      launcher_->new_disk();
      on(n, what, [&](auto group) -> std::string {
        SampleState mine(1), none(1), wanted(1);
        mine.add(sample, {Box::whole(sample.shape)}, 0);
        mine.fill();
        CheckpointManager manager(group, directory(), saving());
        save(manager, 1, group->rank() == who ? mine.state() : none.state());
        mine.poison();
        manager.restore(1, group->rank() == n - 1 - who ? mine.state() : none.state());
        if (group->rank() == n - 1 - who) {
          if (const auto wrong = mine.check(1); !wrong.empty()) return wrong;
        }
        const std::int64_t begin = group->rank() * 50 / n, end = (group->rank() + 1) * 50 / n;
        wanted.add(sample, {{{begin, 0}, {end - begin, 30}}}, 0);
        manager.restore(1, wanted.state());
        return wanted.check(1);
      });
      expect_whole(1, what);
    }
  }
}

TEST_P(Conformance, RaggedAndRankPrivate) {
  unsigned seed = 0;
  for (const auto& [n, m] : launcher_->pairs()) {
    if (++seed > 4 * launcher_->rounds()) break;
    const auto what = pair_text({n, m}, seed);
    launcher_->new_disk();
    const RaggedCase one(n, m, seed);
    on(n, what, [&](auto group) {
      one.save(group, directory(), saving());
      return "";
    });
    expect_whole(1, what);
    on(m, what, [&](auto group) { return one.restore(group, directory(), reading()); });
  }
}

TEST_P(Conformance, Indexed) {
  unsigned seed = 0;
  for (const auto& [n, m] : launcher_->pairs()) {
    if (++seed > 4 * launcher_->rounds()) break;
    const auto what = pair_text({n, m}, seed);
    launcher_->new_disk();
    const IndexedCase one(n, m, seed);
    on(n, what, [&](auto group) {
      one.save(group, directory(), saving(), GetParam().combination.asynchronous);
      return "";
    });
    expect_whole(1, what);
    on(m, what, [&](auto group) { return one.restore(group, directory(), reading()); });
  }
}

TEST_P(Conformance, Sparse) {
  unsigned seed = 0;
  for (const auto& [n, m] : launcher_->pairs()) {
    if (++seed > 3 * launcher_->rounds()) break;
    const auto what = pair_text({n, m}, seed);
    launcher_->new_disk();
    const SparseCase one(n, m, seed);
    const auto storage = seed % 3 == 0 ? Storage::dense : Storage::automatic;
    on(n, what, [&](auto group) {
      one.save(group, directory(), saving(), GetParam().combination.asynchronous, storage);
      return "";
    });
    expect_whole(2, what);
    on(m, what, [&](auto group) { return one.restore(group, directory(), reading()); });
  }
}

// One shard for each slice, the last slices first.
class Backwards : public ShardingCallback {
 public:
  std::string description() const override { return "each slice alone, backwards"; }
  std::optional<std::string> parameters() const override { return ""; }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    std::vector<Shard> shards;
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      add_to(shards.emplace_back(), *tensor);
    }
    return shards;
  }
};

// Names a wrong file of dense tensors: one above the limit with several tensors. Of the tensors
// below, three have files of their own; the smallest shares one with that of Fields.
std::string wrong_file(const CheckpointContents& contents, std::int64_t limit) {
  struct File {
    std::int64_t bytes = 0, tensors = 0;
    bool others = false;
  };
  std::map<int, File> files;
  for (const auto& tensor : contents.tensors) {
    for (const auto& one : tensor.slices) {
      auto& file = files[one.file];
      file.bytes += one.stored_bytes;
      file.others |= tensor.key.find("dense/") != 0;
      ++file.tensors;
    }
  }
  std::int64_t dense_files = 0;
  for (const auto& [number, file] : files) {
    if (file.others) continue;
    ++dense_files;
    if (file.bytes > limit && file.tensors > 1) return cat("file ", number, " is too large");
  }
  return dense_files == 3 ? "" : cat(dense_files, " files of dense tensors");
}

TEST_P(Conformance, Policies) {
  const Sample dense[] = {{"dense/a", DType::float16, {40, 15}},
                          {"dense/b", DType::float16, {64, 20}},
                          {"dense/c", DType::uint64, {15, 5}},
                          {"dense/d", DType::uint16, {60, 10}}};
  const std::shared_ptr<const ShardingCallback> policies[] = {
      std::make_shared<MaxShardSizePolicy>(1700), std::make_shared<Backwards>()};
  for (const auto& policy : policies) {
    for (const int n : launcher_->counts()) {
      const auto what = cat(policy->description(), ", ", n, " ranks");
      launcher_->new_disk();
      on(n, what, [&](auto group) -> std::string {
        Fields mine(*group, 1);
        auto options = saving();
        options.store.policy = policy;
        SampleState more(1);
        for (const auto& sample : dense) {
          Box part = Box::whole(sample.shape);
          const std::int64_t size = group->size();
          part.start[0] = part.extent[0] * group->rank() / size;
          part.extent[0] = part.extent[0] * (group->rank() + 1) / size - part.start[0];
          if (part.extent[0] == 0) continue;
          more.add(sample, {part}, 1,
                   [](LocalTensor one) { return stored(Storage::dense, std::move(one)); });
        }
        more.fill();
        for (const auto& [key, tensor] : more.state().tensors()) mine.state().add(key, tensor);
        CheckpointManager manager(group, directory(), options);
        save(manager, 1, mine.state());
        const auto contents = manager.open(1);
        std::string wrong;
        if (policy == policies[0] && contents.num_files > 1) wrong = wrong_file(contents, 1700);
        SampleState back(1);
        for (const auto& sample : dense) back.add(sample, {Box::whole(sample.shape)}, 0);
        manager.restore(1, back.state());
        if (wrong.empty()) wrong = back.check(1);
        if (!wrong.empty()) return wrong;
        return contents.meta && contents.meta->policy == policy->description()
                   ? ""
                   : "the policy's description is not stored";
      });
      expect_whole(1, what);
      expect_latest(launcher_->counts().front(), 1, 1, what);
    }
  }
}

}  // namespace
}  // namespace cairn::test
