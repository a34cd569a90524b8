// Before-save callbacks and registered savers.
#include "cairn/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "io/expect_error.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Savers : public ::testing::TestWithParam<int> {
 protected:
  Savers() {
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
  }
  template <class F>
  void on_ranks(F&& function, int ranks = 0) {
    run_threads(ranks ? ranks : GetParam(),
                [&](std::shared_ptr<Group> group) { function(std::move(group)); });
  }
  // Rank r gives row r of "table" [ranks 2], rank 0 gives "note"; even ranks write two bundles, odd
  // ones one.
  RegisteredSaver table(std::shared_ptr<Group> group, std::vector<std::int64_t>& read) {
    const auto save = [this, group](const std::string& prefix) {
      const std::int64_t rank = group->rank(), row[] = {rank, -rank};
      std::vector<std::string> made{cat(prefix, "-rows-", rank)};
      BundleWriter writer(made.back(), files_);
      writer.add_slice("table", DType::int64, {group->size(), 2}, {{rank, 0}, {1, 2}}, row);
      writer.finish();
      if (rank % 2 == 0) {
        made.push_back(cat(prefix, "-more-", rank));
        BundleWriter more(made.back(), files_);
        more.add_strings(cat("note/", rank), {1}, {{"of a saver"}});
        more.finish();
      }
      return made;
    };
    const auto restore = [this, &read](const std::string& prefix) {
      const auto bytes = BundleReader(prefix, files_).read("table");
      read.resize(bytes.size() / sizeof(std::int64_t));
      std::memcpy(read.data(), bytes.data(), bytes.size());
    };
    return {"table", save, restore};
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Savers, ::testing::Values(1, 2, 4));

TEST_P(Savers, CallbacksRunInOrderBeforeTheStateIsRead) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t value = 0;
    std::vector<std::string> calls;
    auto options = options_;
    options.hooks.before_save.push_back(
        [&](std::int64_t step) { calls.push_back(cat("a", step)); });
    options.hooks.before_save.push_back([&](std::int64_t step) { value = 7 * step; });
    State state;
    state.add("value", value);
    CheckpointManager manager(group, "/run", options);
    manager.save(3, state);
    EXPECT_THAT(calls, ElementsAre("a3"));
    value = 0;
    manager.restore(3, state);
    EXPECT_EQ(value, 21);

    CheckpointOptions other;
    other.write.file_system = files_;
    other.hooks.before_save = options.hooks.before_save;
    Checkpoint checkpoint(group, state, other);
    checkpoint.save("/run/numbered");
    checkpoint.write("/run/single");
    EXPECT_THAT(calls, ElementsAre("a3", "a1", "a0"));
  });
}

TEST_P(Savers, ACallbackThatThrowsOnOneRankStopsTheSaveOnAll) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t value = 1;
    State state;
    state.add("value", value);
    bool throws = false;
    auto options = options_;
    options.hooks.before_save.push_back([&](std::int64_t) {
      if (throws && group->rank() == group->size() - 1) throw std::runtime_error("not now");
    });
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    throws = true;
    EXPECT_CAIRN_ERROR(manager.save(2, state), Code::application,
                       "before-save callback 1 of 1 threw: not now");
    EXPECT_EQ(manager.steps().size(), 1u);
    throws = false;
    manager.save(2, state);
  });
}

TEST_P(Savers, WhatTheyWriteIsPartOfTheCheckpoint) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> read;
    std::vector<double> u{1. * group->rank()};
    State state;
    state.add("u", slice(u.data(), {group->size()}, {group->rank()}, {1}));
    auto options = options_;
    options.hooks.savers.push_back(table(group, read));
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    const auto contents = manager.open(1);
    EXPECT_EQ(contents.find("table")->slices.size(), static_cast<std::size_t>(group->size()));
    EXPECT_TRUE(contents.meta->savers.contains("table"));
    const auto report = manager.restore(1, state);
    EXPECT_THAT(report.unused_keys, IsEmpty());
    ASSERT_EQ(read.size(), 2u * static_cast<std::size_t>(group->size()));
    for (std::int64_t r = 0; r < group->size(); ++r) {
      EXPECT_EQ(read[static_cast<std::size_t>(2 * r)], r);
      EXPECT_EQ(read[static_cast<std::size_t>(2 * r + 1)], -r);
    }
  });
  EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-1"}).verdict(), Verdict::whole);
  EXPECT_EQ(BundleReader("/run/ckpt-1", files_).read_strings("note/0").front(), "of a saver");
  // Nothing else is left, and another number of ranks restores it.
  for (const auto& name : files_->list("/run")) {
    EXPECT_TRUE(name.starts_with("ckpt-1.") || name == "checkpoint" || name == ".cairn") << name;
  }
  on_ranks(
      [&](std::shared_ptr<Group> group) {
        std::vector<std::int64_t> read;
        State none;
        auto options = options_;
        options.hooks.savers.push_back(table(group, read));
        CheckpointManager manager(group, "/run", options);
        EXPECT_THAT(manager.restore_latest(none)->unused_keys, ElementsAre("u"));
        EXPECT_EQ(read.size(), 2u * static_cast<std::size_t>(GetParam()));
      },
      3);
}

TEST_P(Savers, WithoutThemTheirKeysAreUnused) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> read;
    State state;
    std::int64_t value = 4;
    state.add("value", value);
    {
      auto options = options_;
      options.hooks.savers.push_back(table(group, read));
      CheckpointManager(group, "/run", options).save(1, state);
    }
    group->barrier();
    {
      CheckpointManager manager(group, "/run", options_);
      const auto unused = manager.restore(1, state).unused_keys;
      EXPECT_EQ(std::set<std::string>(unused.begin(), unused.end()).count("table"), 1u);
      manager.save(2, state);
    }
    group->barrier();
    auto options = options_;
    options.hooks.savers.push_back(table(group, read));
    CheckpointManager manager(group, "/run", options);
    read = {99};
    manager.restore(2, state);
    EXPECT_THAT(read, ElementsAre(99)) << "it took no part in step 2";
  });
}

TEST_P(Savers, NoBundleAtAllIsFine) {
  on_ranks([&](std::shared_ptr<Group> group) {
    int restored = 0;
    auto options = options_;
    options.hooks.savers.push_back({"idle",
                                    [](const std::string&) { return std::vector<std::string>{}; },
                                    [&](const std::string&) { ++restored; }});
    State state;
    std::int64_t value = 4;
    state.add("value", value);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    manager.restore(1, state);
    EXPECT_EQ(restored, 1);
  });
}

TEST_P(Savers, WhatIsNoBundleOfTheirsIsAnErrorThatNamesThem) {
  using Save = std::function<std::vector<std::string>(const std::string&)>;
  const auto bundle = [this](const std::string& prefix, const std::string& key) {
    const std::int64_t value = 1;
    BundleWriter writer(prefix, files_);
    writer.add(key, &value, {});
    writer.finish();
    return prefix;
  };
  struct Case {
    Save save;
    Code code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](const std::string&) { return std::vector<std::string>{"/elsewhere/x"}; },
       Code::invalid_argument, "saver 'bad': it returned /elsewhere/x"},
      {[](const std::string& p) { return std::vector<std::string>{p + "-nothing"}; },
       Code::invalid_argument, "saver 'bad': /run/ckpt-2_temp_"},
      {[](const std::string& p) { return std::vector<std::string>{p + "/../../other"}; },
       Code::invalid_argument, "saver 'bad': it returned"},
      {[](const std::string&) -> std::vector<std::string> { throw std::runtime_error("broken"); },
       Code::application, "saver 'bad' threw: broken"},
      {[](const std::string&) -> std::vector<std::string> { throw 3; }, Code::application,
       "saver 'bad' threw what is no std::exception"},
      {[](const std::string& p) -> std::vector<std::string> {
         throw Error(Code::durability_unknown, "not synced").at(p);
       },
       Code::io, "saver 'bad': not synced"},
      {[](const std::string&) -> std::vector<std::string> {
         throw Error(Code::no_space, "no room for the table");
       },
       Code::no_space, "saver 'bad': no room for the table"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.text);
    on_ranks([&](std::shared_ptr<Group> group) {
      auto options = options_;
      bool bad = false;
      options.hooks.savers.push_back({"bad",
                                      [&](const std::string& prefix) {
                                        if (!bad || group->rank() != group->size() - 1) {
                                          return std::vector<std::string>{};
                                        }
                                        return one.save(prefix);
                                      },
                                      [](const std::string&) {}});
      std::int64_t value = 4;
      State state;
      state.add("value", value);
      CheckpointManager manager(group, "/run", options);
      if (manager.steps().empty()) manager.save(1, state);
      bad = true;
      EXPECT_CAIRN_ERROR(manager.save(2, state), one.code, one.text);
      EXPECT_EQ(manager.steps().size(), 1u);
      manager.restore(1, state);
    });
  }
  // The keys are in the checkpoint already.
  on_ranks([&](std::shared_ptr<Group> group) {
    auto options = options_;
    std::string key;
    std::size_t times = 1;
    options.hooks.savers.push_back({"bad",
                                    [&](const std::string& prefix) {
                                      const auto mine = cat(prefix, "-", group->rank());
                                      return std::vector(times, bundle(mine, key));
                                    },
                                    [](const std::string&) {}});
    std::int64_t value = 4;
    State state;
    state.add("value", value);
    CheckpointManager manager(group, "/run", options);
    key = "value";
    EXPECT_CAIRN_ERROR(manager.save(2, state), Code::invalid_argument,
                       "saver 'bad': tensor 'value' is in the state, too");
    key = "twice";
    if (group->size() > 1) {
      EXPECT_CAIRN_ERROR(manager.save(2, state), Code::invalid_argument,
                         "saver 'bad': tensor 'twice' was saved twice");
    }
    EXPECT_EQ(manager.steps().size(), 1u);
    key = cat("own/", group->rank());
    times = 2;
    EXPECT_CAIRN_ERROR(manager.save(2, state), Code::invalid_argument, "was returned twice");
    times = 1;
    manager.save(2, state);
  });
}

// If the storage does not return a bundle, that is no error of its saver.
TEST_P(Savers, ABundleThatCannotBeReadIsAnErrorOfTheStorage) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto options = options_;
    const bool last = group->rank() == group->size() - 1;
    options.hooks.savers.push_back({"table",
                                    [&](const std::string& prefix) -> std::vector<std::string> {
                                      if (!last) return {};
                                      const std::int64_t value = 1;
                                      BundleWriter writer(prefix, files_);
                                      writer.add("x", &value, {});
                                      writer.finish();
                                      files_->inject({Code::io, "open", prefix, 0, 1});
                                      return {prefix};
                                    },
                                    [](const std::string&) {}});
    CheckpointManager manager(group, "/run", options);
    double u = 1;
    State state;
    if (group->rank() == 0) state.add("u", u);
    EXPECT_CAIRN_ERROR(manager.save(1, state), Code::io, "saver 'table': /run/ckpt-1_temp_");
    group->barrier();
    files_->clear_faults();
  });
}

TEST_P(Savers, AnyNameThatBeginsWithThePrefixIsClearedAway) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.hooks.savers.push_back({"digits",
                                    [&](const std::string& prefix) {
                                      const auto mine = cat(prefix, 7, group->rank());
                                      BundleWriter writer(mine, files_);
                                      writer.add_strings(cat("own/", group->rank()), {1}, {{"x"}});
                                      writer.finish();
                                      return std::vector<std::string>{mine};
                                    },
                                    [](const std::string&) {}});
    State none;
    CheckpointManager manager(group, "/run/", options);
    manager.save(1, none);
  });
  for (const auto& name : files_->list("/run"))
    EXPECT_FALSE((name.find("temp") != name.npos)) << name;
}

TEST_P(Savers, ADirectoryOfASaverIsNoReasonToRefuseLaterSaves) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto options = options_;
    bool bad = true;
    options.hooks.savers.push_back({"folder",
                                    [&](const std::string& prefix) {
                                      if (!bad) return std::vector<std::string>{};
                                      if (group->rank() == 0)
                                        files_->create_directory(prefix + "-x");
                                      throw Error(Code::busy, "a nested manager is busy");
                                      return std::vector<std::string>{};
                                    },
                                    [](const std::string&) {}});
    std::int64_t value = 1;
    State state;
    state.add("value", value);
    CheckpointManager manager(group, "/run", options);
    EXPECT_CAIRN_ERROR(manager.save(1, state), Code::application,
                       "saver 'folder': a nested manager is busy");
    bad = false;
    manager.save(1, state);
    manager.restore(1, state);
  });
}

TEST_P(Savers, ARestoreThatThrowsIsNamedAndIsNoDamageOfTheCheckpoint) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::function<void()> fails = [] {};
    auto options = options_;
    options.hooks.savers.push_back({"table",
                                    [](const std::string&) { return std::vector<std::string>{}; },
                                    [&](const std::string&) {
                                      if (group->rank() == group->size() - 1) fails();
                                    }});
    std::int64_t value = 1;
    State state;
    state.add("value", value);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    fails = [] { throw std::runtime_error("no table"); };
    EXPECT_CAIRN_ERROR(manager.restore_latest(state), Code::application,
                       "saver 'table' threw: no table");
    fails = [] { throw Error(Code::io, "cannot be read").at("/elsewhere"); };
    EXPECT_CAIRN_ERROR(manager.restore_latest(state), Code::application,
                       "saver 'table': cannot be read: /elsewhere");
    EXPECT_EQ(manager.steps().back().damage, "");
    fails = [] { throw Error(Code::data_loss, "table is cut"); };
    EXPECT_CAIRN_ERROR(manager.restore(1, state), Code::data_loss, "saver 'table': table is cut");
    EXPECT_NE(manager.steps().back().damage, "");
  });
}

TEST_P(Savers, AFallbackOverwritesAllThatTheDamagedOneTouched) {
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<double> u(2000, 1. * group->rank()), extra(2000, 7.);
    const auto rows = [&](std::vector<double>& values) {
      return slice(values.data(), {group->size(), 2000}, {group->rank(), 0}, {1, 2000});
    };
    State old_state, new_state;
    old_state.add("u", rows(u));
    new_state.add("u", rows(u)).add("extra", rows(extra));
    for (const bool verify_first : {false, true}) {
      auto options = options_;
      options.restore.verify_first = verify_first;
      options.name = verify_first ? "verified" : "ckpt";
      CheckpointManager manager(group, "/run", options);
      manager.save(1, old_state);
      manager.save(2, new_state);
      const auto at = manager.open(2).find("u")->slices.back();
      if (group->rank() == 0) {
        for (const auto& name : files_->list("/run")) {
          if (!name.starts_with(cat(options.name, "-2.data-0000", at.file))) continue;
          const auto file = files_->open_write(io::Path("/run") / name);
          std::byte byte;
          file->read_at(at.offset + 9, {&byte, 1});
          byte ^= std::byte{1};
          file->write_at(at.offset + 9, {&byte, 1});
        }
      }
      group->barrier();
      RestoreOptions restore;
      restore.may_be_missing = {"extra"};
      if (verify_first) {
        EXPECT_THAT(manager.restore_latest(new_state, restore)->kept_keys, ElementsAre("extra"));
      } else {
        EXPECT_CAIRN_ERROR(manager.restore_latest(new_state, restore), Code::data_loss,
                           "ckpt-1 has no tensor 'extra'");
        EXPECT_EQ(manager.restore_latest(old_state)->step, 1);
      }
    }
  });
}

TEST_P(Savers, BadRegistrations) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const auto save = [](const std::string&) { return std::vector<std::string>{}; };
    const auto restore = [](const std::string&) {};
    const auto make = [&](std::vector<RegisteredSaver> savers) {
      auto options = options_;
      options.hooks.savers = std::move(savers);
      CheckpointManager(group, "/run", options);
    };
    EXPECT_CAIRN_ERROR(make({{"", save, restore}}), Code::invalid_argument, "has no name");
    EXPECT_CAIRN_ERROR(make({{"a", save, nullptr}}), Code::invalid_argument, "lacks a function");
    const auto on_last = group->rank() == group->size() - 1;
    EXPECT_CAIRN_ERROR(
        make({{"a", save, on_last ? std::function<void(const std::string&)>() : restore}}),
        Code::invalid_argument, "lacks a function");
    EXPECT_CAIRN_ERROR(make({{"a", save, restore}, {"a", save, restore}}), Code::invalid_argument,
                       "registered twice");
    if (group->size() > 1) {
      EXPECT_CAIRN_ERROR(make({{cat("a", group->rank()), save, restore}}), Code::disagreement,
                         "ranks disagree on the registered savers");
    }
  });
}

TEST_P(Savers, SlicesThatDoNotMakeUpTheirTensorAreAnErrorThatNamesThem) {
  struct Case {
    DType last;         // of the last rank's row
    std::int64_t rows;  // that the tensor has, beyond the ranks'
    std::string text;
  };
  const auto last_row = GetParam();
  for (const auto& one :
       {Case{DType::int64, 1, cat("entries of tensor 'table' leave out rows ", last_row)},
        Case{DType::float64, 0, "entries of tensor 'table' disagree: int64"}}) {
    SCOPED_TRACE(one.text);
    on_ranks([&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      if (group->size() == 1 && one.rows == 0) return;
      bool bad = true;
      auto options = options_;
      options.hooks.savers.push_back({"other",
                                      [](const std::string&) { return std::vector<std::string>{}; },
                                      [](const std::string&) {}});
      options.hooks.savers.push_back(
          {"rows",
           [&](const std::string& prefix) {
             const std::int64_t row[] = {rank, -rank};
             const auto mine = cat(prefix, "-", rank);
             BundleWriter writer(mine, files_);
             const bool is_last = rank == group->size() - 1;
             writer.add_slice("table", bad && is_last ? one.last : DType::int64,
                              {group->size() + (bad ? one.rows : 0), 2}, {{rank, 0}, {1, 2}}, row);
             writer.finish();
             return std::vector<std::string>{mine};
           },
           [](const std::string&) {}});
      std::int64_t value = 1;
      State state;
      state.add("value", value);
      CheckpointManager manager(group, "/run", options);
      const auto before = manager.steps().size();
      EXPECT_CAIRN_ERROR(manager.save(1, state), Code::invalid_argument,
                         "saver 'rows': tensor 'table' is not whole (" + one.text);
      EXPECT_EQ(manager.steps().size(), before);
      bad = false;
      if (one.rows == 0 || group->size() == 1) manager.save(1, state);
    });
  }
}

}  // namespace
}  // namespace cairn
