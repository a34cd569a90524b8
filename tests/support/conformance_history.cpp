// Conformance: saves one after the other, saves that are refused, and saves that fail.
#include "cairn/checkpoint.hpp"
#include "support/conformance.hpp"
#include "support/rounds.hpp"

namespace cairn::test {
namespace {

std::vector<std::int64_t> steps_of(CheckpointManager& manager) {
  std::vector<std::int64_t> all;
  for (const auto& one : manager.steps()) all.push_back(one.step);
  return all;
}

TEST_P(Conformance, ReplicasThatDifferAreRefusedBeforeTheCommit) {
  for (const int n : launcher_->counts()) {
    if (n == 1) continue;
    launcher_->new_disk();
    on(n, cat(n, " ranks"), [&](auto group) -> std::string {
      const int last = group->size() - 1;
      std::vector<double> u(3000, 0.5);
      std::int64_t step = 1;
      State state;
      state.add("u", u).add("step", step);
      auto options = saving();
      options.store.replicas.check = ReplicaCheck::all;
      CheckpointManager manager(group, directory(), options);
      save(manager, 1, state);
      if (group->rank() == last) u[2000] = -0.5;
      const auto error = error_of_all(*group, [&] { save(manager, 2, state); });
      if (const auto wrong = unlike(error, {Code::disagreement}, "'u'"); !wrong.empty()) {
        return wrong;
      }
      if (error->rank() != last && error->rank() != 0) return cat("rank ", error->rank());
      if (steps_of(manager) != std::vector<std::int64_t>{1}) return "something was committed";
      manager.restore_latest(state);
      if (u[2000] != 0.5) return "not the value of step 1";
      save(manager, 2, state);
      return "";
    });
    expect_whole(2, cat(n, " ranks"));
  }
}

TEST_P(Conformance, AStepIsReplacedOnRequestOnly) {
  for (const int n : launcher_->counts()) {
    launcher_->new_disk();
    save(n, 4, 1);
    save(n, 5, 2);
    on(n, "save of a step that is there", [&](auto group) -> std::string {
      Fields mine(*group, 3);
      CheckpointManager manager(group, directory(), saving());
      return unlike(error_of_all(*group, [&] { save(manager, 5, mine.state()); }),
                    {Code::already_exists}, "5");
    });
    expect_latest(n, 5, 2, "as it was");
    on(n, "overwrite", [&](auto group) {
      auto options = saving();
      options.overwrite = true;
      CheckpointManager manager(group, directory(), options);
      for (const std::uint64_t version : {3, 4}) {
        Fields mine(*group, version);
        save(manager, 5, mine.state());
      }
      return "";
    });
    expect_whole(5, cat(n, " ranks"));
    expect_latest(n, 5, 4, "overwritten twice");
  }
}

TEST_P(Conformance, TwoCheckpointsOfOneNameSaveInTurn) {
  const int n = launcher_->counts().back();
  on(n, cat(n, " ranks"), [&](auto group) -> std::string {
    const auto how = saving();
    const CheckpointOptions options{.store = how.store, .write = how.write};
    const auto name = directory() / "ckpt";
    Fields first(*group, 1), second(*group, 2);
    Checkpoint one(group, first.state(), options), other(group, second.state(), options);
    const auto save = [&](Checkpoint& checkpoint) {
      if (!GetParam().combination.asynchronous) return void(checkpoint.save(name));
      checkpoint.save_async(name);
      checkpoint.wait();
    };
    save(one);
    other.restore(name.string() + "-1").assert_consumed();
    if (const auto wrong = second.check(1); !wrong.empty()) return wrong;
    Fields third(*group, 3);
    Checkpoint last(group, third.state(), options);
    last.restore(name.string() + "-1", {.verify_first = true}).assert_consumed();
    save(other);
    one.restore(name.string() + "-2").assert_consumed();
    Fields fresh(*group, 3);
    Checkpoint writes(group, fresh.state(), options);
    save(one);
    writes.write(name, {.policy = std::make_shared<MaxShardSizePolicy>(2048)});
    writes.write(name);
    fresh.poison();
    writes.read(name).assert_consumed();
    if (const auto wrong = fresh.check(3); !wrong.empty()) return wrong;
    const auto newest = latest_checkpoint(group, directory(), how.write.file_system);
    return newest == prefix(3).string() ? "" : cat("the newest is ", newest.value_or("none"));
  });
  for (const int step : {1, 2, 3}) expect_whole(step, "saved in turn");
}

TEST_P(Conformance, RetentionRemovesAllFilesOfWhatItLetsGo) {
  const int n = launcher_->counts().back();
  on(n, cat(n, " ranks"), [&](auto group) -> std::string {
    Fields mine(*group, 1);
    auto options = saving();
    options.keep.last = 2;
    CheckpointManager manager(group, directory(), options);
    save(manager, 1, mine.state());
    manager.pin(1);
    for (const int step : {2, 3, 4}) save(manager, step, mine.state());
    if (steps_of(manager) != std::vector<std::int64_t>{1, 3, 4}) return "not 1, 3 and 4";
    manager.unpin(1);
    save(manager, 5, mine.state());
    return steps_of(manager) == std::vector<std::int64_t>{4, 5} ? "" : "not 4 and 5";
  });
  launcher_->once([&] {
    for (const int step : {1, 2, 3}) EXPECT_THAT(files_of(step), ::testing::IsEmpty());
    for (const int step : {4, 5}) EXPECT_FALSE(files_of(step).empty());
    for (const auto& name : launcher_->files()->list(directory())) {
      EXPECT_TRUE(name == ".cairn" || name == "checkpoint" || name.starts_with("ckpt-4.") ||
                  name.starts_with("ckpt-5."))
          << name;
    }
  });
  expect_latest(n, 5, 1, "the newest");
}

TEST_P(Conformance, AnXdmfFileShowsWhatIsThere) {
  const int n = launcher_->counts().back();
  on(n, cat(n, " ranks"), [&](auto group) -> std::string {
    Fields mine(*group, 1);
    auto options = saving();
    options.keep.last = 2;
    options.store.xdmf.emplace();
    if (!GetParam().kind.has_files) {
      return unlike(error_of_all(*group, [&] { CheckpointManager(group, directory(), options); }),
                    {Code::unsupported});
    }
    CheckpointManager manager(group, directory(), options);
    for (const int step : {1, 2, 3}) save(manager, step, mine.state());
    return "";
  });
  if (!GetParam().kind.has_files) return;
  launcher_->once([&] {
    const auto text = io::read_file(*launcher_->files(), directory() / "ckpt.xdmf", 1 << 20);
    EXPECT_THAT(text, ::testing::HasSubstr("Grid Name=\"step 2\""));
    EXPECT_THAT(text, ::testing::HasSubstr("Grid Name=\"step 3\""));
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("step 1")));
    EXPECT_THAT(text, ::testing::HasSubstr("<DataItem "));
  });
}

TEST_P(Conformance, StatesThatDoNotFitAreRefusedOnAllRanks) {
  for (const int n : launcher_->counts()) {
    launcher_->new_disk();
    on(n, cat(n, " ranks"), [&](auto group) -> std::string {
      std::vector<double> row(40, group->rank());
      std::vector<float> row_of_floats(40);
      std::vector<std::string> one_word(1), two_words(2);
      one_word[0] = "a word";
      const Dims shape{n, 40}, start{group->rank(), 0}, extent{1, 40};
      const bool last = group->rank() == n - 1;
      State good, dtype, rank, dims, other_key, gap, words, last_dtype;
      good.add("u", slice(row.data(), shape, start, extent)).add("w", one_word);
      dtype.add("u", slice(row_of_floats.data(), shape, start, extent));
      rank.add("u", slice(row.data(), {n * 40}, {group->rank() * 40}, {40}));
      dims.add("u", slice(row.data(), {n + 1, 40}, start, extent));
      other_key.add("v", slice(row.data(), shape, start, extent));
      gap.add("u", slice(row.data(), shape, start, {1, last ? 39 : 40}));
      words.add("w", two_words);
      if (last) {
        last_dtype.add("u", slice(row_of_floats.data(), shape, start, extent));
      } else {
        last_dtype.add("u", slice(row.data(), shape, start, extent));
      }
      CheckpointManager manager(group, directory(), saving());
      save(manager, 1, good);

      std::string wrong;
      const auto expect = [&](const char* what, const std::vector<Code>& codes,
                              const std::string& text, const std::function<void()>& call) {
        const auto why = unlike(error_of_all(*group, call), codes, text);
        if (!why.empty() && wrong.empty()) wrong = cat(what, ": ", why);
      };
      const auto fit = Code::invalid_argument;
      expect("dtype", {fit}, "'u'", [&] { manager.restore(1, dtype); });
      expect("number of dimensions", {fit}, "'u'", [&] { manager.restore(1, rank); });
      expect("shape", {fit}, "'u'", [&] { manager.restore(1, dims); });
      expect("words", {fit}, "'w'", [&] { manager.restore(1, words); });
      expect("key", {Code::not_found}, "'v'", [&] { manager.restore(1, other_key); });
      expect("dtype of one rank", {fit, Code::disagreement}, "'u'",
             [&] { manager.restore(1, last_dtype); });
      expect("step", {Code::not_found}, "9", [&] { manager.restore(9, good); });
      expect("gap", {Code::coverage}, "'u'", [&] { save(manager, 2, gap); });
      if (n > 1) {
        expect("dtype of one rank at a save", {Code::disagreement}, "'u'",
               [&] { save(manager, 2, last_dtype); });
      }
      if (!wrong.empty()) return wrong;
      if (row != std::vector<double>(40, group->rank())) return "memory was touched";
      if (steps_of(manager) != std::vector<std::int64_t>{1}) return "something was committed";
      std::fill(row.begin(), row.end(), -1.0);
      manager.restore_latest(good);
      return row == std::vector<double>(40, group->rank()) ? "" : "not the values of step 1";
    });
  }
}

TEST_P(Conformance, AFullDiskLeavesTheOlderCheckpoint) {
  auto* memory = launcher_->memory();
  if (!memory) return;  // only this disk can be filled safely
  constexpr auto no_limit = std::int64_t{1} << 40;
  const int n = launcher_->counts().back();
  save(n, 1, 1);
  std::int64_t step = 2;
  for (const std::int64_t room : {0, 300, 3000, 9000, 14000}) {
    memory->set_capacity(no_limit);
    const auto used = no_limit - memory->free_bytes("/");
    on(n, cat("room for ", room, " bytes"), [&](auto group) -> std::string {
      Fields mine(*group, static_cast<std::uint64_t>(step));
      CheckpointManager manager(group, directory(), saving());
      group->barrier();
      if (group->rank() == 0) memory->set_capacity(used + room);
      group->barrier();
      const auto error = error_of_all(*group, [&] { save(manager, step, mine.state()); });
      if (const auto wrong = unlike(error, {Code::no_space}); !wrong.empty()) return wrong;
      group->barrier();
      if (group->rank() == 0) memory->set_capacity(no_limit);
      group->barrier();
      if (room == 9000) save(manager, step, mine.state());
      return "";
    });
    if (room >= 9000) {
      expect_latest(n, 2 + 3, 5, "the save that had room");
    } else {
      expect_latest(n, 1, 1, "the older one");
    }
    ++step;
  }
}

// Whichever operation fails: an error on all ranks or on none, and one whole checkpoint.
TEST_P(Conformance, AnyOperationThatFails) {
  auto* memory = launcher_->memory();
  if (!memory) return;
  const int n = some_ranks();
  save(n, 1, 1);
  std::int64_t good = 1, failed = 0;
  for (std::size_t skip = 0; skip < 60; skip += stride(7)) {
    const auto step = static_cast<std::int64_t>(skip) + 2;
    const auto what = cat("operation ", skip, " fails");
    std::optional<Error> seen;
    on(n, what, [&](auto group) -> std::string {
      Fields mine(*group, static_cast<std::uint64_t>(step));
      CheckpointManager manager(group, directory(), saving());
      group->barrier();
      if (group->rank() == 0) memory->inject({Code::io, "", "", skip, 1});
      group->barrier();
      const auto error = error_of_all(*group, [&] { save(manager, step, mine.state()); });
      if (group->rank() == 0) {
        memory->clear_faults();
        seen = error;
      }
      group->barrier();
      return error ? unlike(error, {Code::io, Code::durability_unknown}) : "";
    });
    if (seen) ++failed;
    if (!seen || seen->code() == Code::durability_unknown) good = step;
    expect_latest(n, good, static_cast<std::uint64_t>(good), what);
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, sanitized ? 1 : 5);
}

}  // namespace
}  // namespace cairn::test
