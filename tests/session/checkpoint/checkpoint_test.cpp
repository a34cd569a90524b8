// Checkpoint and LoadStatus, the interface that resembles TensorFlow's.
#include "cairn/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "store/commit/state_file.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Faces : public ::testing::TestWithParam<int> {
 protected:
  Faces() {
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
  }
  template <class F>
  void on_ranks(F&& function) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) { function(std::move(group)); });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  CheckpointOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Faces, ::testing::Values(1, 3));

// Each rank has one row of a tensor [ranks 2].
struct SavedRows {
  std::vector<double> row;
  std::int64_t epoch = 0;
  State state;
  SavedRows(const Group& group, double value, std::int64_t epoch)
      : row{value + group.rank(), -value}, epoch(epoch) {
    state.add("u", slice(row.data(), {group.size(), 2}, {group.rank(), 0}, {1, 2}));
    state.add("epoch", this->epoch);
  }
};

TEST_P(Faces, SaveNumbersAndKeepsTheStateFile) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 10, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-1");
    rows.row[0] += 100, rows.epoch = 2;
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-2");
    EXPECT_EQ(checkpoint.save_counter(), 2);
    EXPECT_EQ(latest_checkpoint(group, "/run", files_), "/run/ckpt-2");

    SavedRows again(*group, 0, 0);
    Checkpoint other(group, again.state, options_);
    auto status = other.restore("/run/ckpt-2");
    status.assert_consumed().assert_existing_objects_matched().assert_nontrivial_match();
    EXPECT_EQ(again.row, rows.row);
    EXPECT_EQ(again.epoch, 2);
    EXPECT_EQ(other.save_counter(), 2) << "so that numbering goes on";
    other.read("/run/ckpt-1").expect_partial();
    EXPECT_EQ(again.row[0], 10. + group->rank());
    EXPECT_EQ(other.save_counter(), 2) << "read() leaves the counter alone";
  });
  const auto state = commit::read_state_file(*files_, "/run");
  EXPECT_THAT(state->all_paths, ElementsAre("ckpt-1", "ckpt-2")) << "save() forgets none";
}

TEST_P(Faces, ANewRunGoesOnNumberingAndDoesNotOverwriteBlindly) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    std::optional<Checkpoint> checkpoint(std::in_place, group, rows.state, options_);
    checkpoint->save("/run/ckpt");
    checkpoint.emplace(group, rows.state, options_);
    EXPECT_CAIRN_ERROR(checkpoint->save("/run/ckpt"), Code::already_exists,
                       "or set CheckpointOptions::overwrite");
    EXPECT_EQ(checkpoint->save_counter(), 0) << "a failed save uses no number up";
    checkpoint->restore("/run/ckpt-1").assert_consumed();
    EXPECT_EQ(checkpoint->save("/run/ckpt"), "/run/ckpt-2");
  });
}

TEST_P(Faces, AReturnToAnEarlierOneFreesTheNumbersBehindIt) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    for (rows.epoch = 1; rows.epoch <= 3; ++rows.epoch) checkpoint.save("/run/ckpt");
    // As after a job that died when 2 and 3 were complete: this job goes on from 1.
    SavedRows again(*group, 0, 0);
    Checkpoint other(group, again.state, options_);
    checkpoint = Checkpoint(group, rows.state, options_);  // gives the directory up
    other.restore("/run/ckpt-1").assert_consumed();
    again.epoch = 22;
    EXPECT_EQ(other.save("/run/ckpt"), "/run/ckpt-2");
    EXPECT_EQ(other.save("/run/ckpt"), "/run/ckpt-3");
    other.read("/run/ckpt-2").expect_partial();
    EXPECT_EQ(again.epoch, 22);
  });
}

TEST_P(Faces, OneNameNumberedAndNot) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-1");
    EXPECT_EQ(checkpoint.write("/run/ckpt"), "/run/ckpt");
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-2");
    EXPECT_CAIRN_ERROR(checkpoint.write("/run/ckpt-2"), Code::busy, "/run");
  });
}

TEST_P(Faces, AddressesThatAreNoPathsAreRefused) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    EXPECT_CAIRN_ERROR(checkpoint.save("gs://bucket/ckpt"), Code::unsupported, "gcsfuse");
    EXPECT_EQ(checkpoint.write("file:///run/x"), "/run/x");
    checkpoint.read("file:///run/x").assert_consumed();
  });
}

TEST_P(Faces, OptionsThatDifferBetweenRanksAreOneError) {
  on_ranks([&](std::shared_ptr<Group> group) {
    if (group->size() == 1) return;
    SavedRows rows(*group, 1, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    checkpoint.write("/run/x");
    RestoreOptions restore;
    if (group->rank() == 1) restore.rename["epoch"] = "u";
    EXPECT_CAIRN_ERROR(checkpoint.read("/run/x", restore), Code::disagreement,
                       "rename['epoch'] is none on rank 0 and 'u' on rank 1");
  });
}

TEST_P(Faces, WriteReplacesAndTouchesNothingElse) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    Checkpoint checkpoint(group, rows.state, options_);
    EXPECT_EQ(checkpoint.write("/run/best"), "/run/best");
    rows.epoch = 7;
    EXPECT_EQ(checkpoint.write("/run/best"), "/run/best");
    EXPECT_EQ(checkpoint.save_counter(), 0);
    SavedRows again(*group, 0, 0);
    Checkpoint(group, again.state, options_).read("/run/best").assert_consumed();
    EXPECT_EQ(again.epoch, 7);
    EXPECT_EQ(again.row, rows.row);
    Checkpoint with_counter(group, again.state, options_);
    auto status = with_counter.restore("/run/best");
    EXPECT_THAT(status.missing_keys(), ElementsAre("save_counter"));
    EXPECT_CAIRN_ERROR(status.assert_consumed(), Code::not_found, "'save_counter'");
  });
  EXPECT_FALSE(files_->status("/run/checkpoint"));
  EXPECT_THAT(files_->list("/run"),
              ::testing::Each(::testing::AnyOf(".cairn", ::testing::StartsWith("best."))));
}

TEST_P(Faces, SavesAndExportsShareADirectory) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 1, 1);
    ManagerOptions manager_options;
    manager_options.write.file_system = files_;
    manager_options.name = "step";
    manager_options.write.owner_wait_seconds = 0;
    CheckpointManager manager(group, "/run", manager_options);
    Checkpoint checkpoint(group, rows.state, options_);
    manager.save(1, rows.state);
    checkpoint.save("/run/ckpt");
    checkpoint.write("/run/best");
    checkpoint.write("/run/step-best");
    manager.save(2, rows.state);
    EXPECT_CAIRN_ERROR(checkpoint.save("/run/step"), Code::busy, "/run");
    EXPECT_EQ(manager.steps().size(), 2u);
  });
}

TEST_P(Faces, WhatIsAddedLaterIsFilledWhenItIsThere) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    std::vector<float> late{1, 2, 3};
    rows.state.add("late", late);
    rows.state.add("other", rows.epoch);
    Checkpoint(group, rows.state, options_).write("/run/all");

    std::int64_t epoch = 0;
    State state;
    state.add("epoch", epoch);
    Checkpoint checkpoint(group, state, options_);
    auto status = checkpoint.read("/run/all");
    EXPECT_EQ(epoch, 3);
    EXPECT_THAT(status.unused_keys(), ElementsAre("late", "other", "u"));
    EXPECT_THAT(status.missing_keys(), IsEmpty());
    status.assert_existing_objects_matched();
    EXPECT_CAIRN_ERROR(status.assert_consumed(), Code::not_found,
                       "3 keys of /run/all are in no rank's state ('late', 'other', 'u')");

    std::vector<float> made(3);
    state.add("late", made);
    epoch = 99;
    status.fill();
    EXPECT_EQ(made, late);
    EXPECT_EQ(epoch, 99) << "what was there is not restored again";
    EXPECT_THAT(status.unused_keys(), ElementsAre("other", "u"));

    // On one rank only, with a key that the checkpoint lacks.
    std::int64_t other = 0, unknown = 44;
    if (group->rank() == group->size() - 1) state.add("other", other);
    state.add("unknown", unknown);
    EXPECT_CAIRN_ERROR(status.assert_existing_objects_matched(), Code::not_found,
                       "1 keys of the state are not in /run/all ('unknown')");
    EXPECT_EQ(other, group->rank() == group->size() - 1 ? 3 : 0);
    EXPECT_EQ(unknown, 44);
    EXPECT_THAT(status.unused_keys(), ElementsAre("u"));
    EXPECT_THAT(status.missing_keys(), ElementsAre("unknown"));
    status.expect_partial();
  });
}

TEST_P(Faces, NothingInCommonIsNoticed) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    Checkpoint(group, rows.state, options_).write("/run/all");
    std::int64_t unrelated = 1;
    State state;
    state.add("unrelated", unrelated);
    Checkpoint checkpoint(group, state, options_);
    EXPECT_CAIRN_ERROR(checkpoint.read("/run/all").assert_nontrivial_match(), Code::not_found,
                       "nothing of the state is in /run/all");
    EXPECT_EQ(unrelated, 1);
  });
}

TEST_P(Faces, SaversRestoreOnceWhateverIsAddedLater) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    int restored = 0;
    auto options = options_;
    options.hooks.savers.push_back({"s",
                                    [](const std::string&) { return std::vector<std::string>{}; },
                                    [&](const std::string&) { ++restored; }});
    Checkpoint(group, rows.state, options).write("/run/all");
    State state;
    Checkpoint checkpoint(group, state, options);
    auto status = checkpoint.read("/run/all");
    std::int64_t epoch = 0;
    state.add("epoch", epoch);
    status.fill().expect_partial();
    EXPECT_EQ(epoch, 3);
    EXPECT_EQ(restored, 1);
  });
}

TEST_P(Faces, ARenamedKeyIsNotFoundByItsVariablesName) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    Checkpoint(group, rows.state, options_).write("/run/all");
    std::int64_t age = 44;
    State state;
    state.add("age", age).name("age", "epoch");
    Checkpoint checkpoint(group, state, options_);
    RestoreOptions restore;
    restore.rename["age"] = "not there";
    EXPECT_THAT(checkpoint.read("/run/all", restore).expect_partial().missing_keys(),
                ElementsAre("age"));
    EXPECT_EQ(age, 44);
    checkpoint.read("/run/all").expect_partial();
    EXPECT_EQ(age, 3);
  });
}

TEST_P(Faces, OptionsReachKeysThatComeLater) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    Checkpoint(group, rows.state, options_).write("/run/all");
    State state;
    Checkpoint checkpoint(group, state, options_);
    RestoreOptions restore;
    restore.rename["age"] = "epoch";
    auto status = checkpoint.read("/run/all", restore);
    std::int64_t age = 0;
    state.add("age", age);
    status.assert_existing_objects_matched();
    EXPECT_EQ(age, 3);
    EXPECT_THAT(status.unused_keys(), ElementsAre("u"));
  });
}

TEST_P(Faces, PathsThatAreNoCheckpoints) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    Checkpoint checkpoint(group, rows.state, options_);
    checkpoint.save("/run/ckpt");
    EXPECT_CAIRN_ERROR(checkpoint.restore("/run/ckpt-9"), Code::not_found, "/run/ckpt-9");
    EXPECT_CAIRN_ERROR(checkpoint.restore("/run"), Code::not_found, "not a SavedModel's");
    EXPECT_CAIRN_ERROR(checkpoint.restore(""), Code::invalid_argument, "is no prefix");
    EXPECT_CAIRN_ERROR(checkpoint.save("/run/"), Code::invalid_argument, "is no prefix");
    EXPECT_CAIRN_ERROR(checkpoint.write("/run/a[b"), Code::invalid_argument, "contains '['");
    EXPECT_EQ(latest_checkpoint(group, "/nowhere", files_), std::nullopt);
    EXPECT_CAIRN_ERROR(latest_checkpoint(group, "", files_), Code::invalid_argument, "is empty");
    if (group->size() > 1) {
      EXPECT_CAIRN_ERROR(checkpoint.write(cat("/run/rank-", group->rank())), Code::disagreement,
                         "ranks disagree on the prefix");
    }
  });
}

TEST_P(Faces, ASavedModelsVariables) {
  files_->create_directory("/model");
  files_->create_directory("/model/variables");
  io::write_file(*files_, "/model/saved_model.pb", "graph");
  BundleWriter writer("/model/variables/variables", files_);
  const std::int64_t epoch = 12;
  writer.add("epoch", &epoch, {});
  writer.finish();
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t mine = 0;
    State state;
    state.add("epoch", mine);
    Checkpoint(group, state, options_).read("/model").assert_consumed();
    EXPECT_EQ(mine, 12);
  });
}

TEST_P(Faces, AWrongDtypeIsAnErrorAtOnce) {
  on_ranks([&](std::shared_ptr<Group> group) {
    SavedRows rows(*group, 5, 3);
    Checkpoint(group, rows.state, options_).write("/run/all");
    float epoch = 0;
    State state;
    state.add("epoch", epoch);
    Checkpoint checkpoint(group, state, options_);
    EXPECT_CAIRN_ERROR(checkpoint.read("/run/all"), Code::invalid_argument, "'epoch' is int64");
    RestoreOptions restore;
    restore.convert = Conversion::exact;
    checkpoint.read("/run/all", restore).expect_partial();
    EXPECT_EQ(epoch, 3.f);
  });
}

TEST_P(Faces, TheStateMayNotHoldTheCounter) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t mine = 0;
    State state;
    state.add("save_counter", mine);
    Checkpoint checkpoint(group, state, options_);
    EXPECT_CAIRN_ERROR(checkpoint.save("/run/ckpt"), Code::invalid_argument,
                       "'save_counter' is in the state already");
    EXPECT_EQ(checkpoint.save_counter(), 0);
    checkpoint.write("/run/other");
  });
}

TEST_P(Faces, AMeshOfAnotherSizeIsRefused) {
  on_ranks([&](std::shared_ptr<Group> group) {
    State state;
    EXPECT_CAIRN_ERROR(Checkpoint(group, Mesh({{"x", group->size() + 1}}), state, options_),
                       Code::invalid_argument, "the mesh x=");
    const Mesh mesh({{"x", group->size()}});
    const Layout rows({"x", unsharded}, mesh);
    std::vector<float> u{1.f * static_cast<float>(group->rank()), 2, 3};
    state.add("u", slice(u.data(), {group->size(), 3}, rows, group->rank()));
    Checkpoint checkpoint(group, mesh, state, options_);
    checkpoint.write("/run/m");
    const auto written = u;
    u.assign(3, 0);
    checkpoint.read("/run/m").assert_consumed();
    EXPECT_EQ(u, written);
  });
}

TEST(LoadStatusWarning, SpeaksOnceOnRankZeroUnlessExpected) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  std::mutex mutex;
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::info) return;
    const std::lock_guard guard(mutex);
    said.emplace_back(text);
  });
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointOptions options;
    options.write.file_system = files;
    std::int64_t a = 1, b = 2;
    State both, one;
    both.add("a", a).add("b", b);
    one.add("a", a);
    Checkpoint(group, both, options).write("/run/x");
    Checkpoint checkpoint(group, one, options);
    checkpoint.read("/run/x").expect_partial();
    { const auto ignored = checkpoint.read("/run/x"); }
    // An assertion names what it finds itself, also one that finds something else first.
    State other;
    other.add("a", a).add("c", b);
    Checkpoint wrong(group, other, options);
    EXPECT_CAIRN_ERROR(wrong.read("/run/x").assert_consumed(), Code::not_found,
                       "1 keys of the state are not in /run/x");
  });
  set_log_sink(nullptr);
  EXPECT_THAT(said, ElementsAre(test::Says("1 keys of /run/x were not used: 'b'")));
}

}  // namespace
}  // namespace cairn
