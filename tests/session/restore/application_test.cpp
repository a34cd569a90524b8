// Which application saved a checkpoint, which ones a restore accepts, and how checkpoints of older
// versions are migrated.
#include "cairn/application.hpp"

#include "base/text.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Versions, AreInOrder) {
  const std::vector<std::string> ascending{"",      "0.9",   "1",     "1.0-rc1", "1.0-rc2",
                                           "1.0",   "1.0.1", "1.9",   "1.10",    "v1.11",
                                           "2.0-a", "2.0",   "2.0.0", "10.0.0"};
  // "1" is short for 1.0, so its place beside candidates of 1.0 is not compared, nor is that of the
  // empty version. The list has no equal versions.
  for (std::size_t a = 0; a < ascending.size(); ++a) {
    for (std::size_t b = 0; b < ascending.size(); ++b) {
      if ((ascending[a] == "1" && ascending[b].starts_with("1.0-")) ||
          (ascending[b] == "1" && ascending[a].starts_with("1.0-")) || ascending[a].empty() ||
          ascending[b].empty()) {
        continue;
      }
      EXPECT_EQ(is_newer_version(ascending[a], ascending[b]), a > b)
          << ascending[a] << " and " << ascending[b];
    }
  }
  EXPECT_FALSE(is_newer_version("1.02", "1.2"));
  EXPECT_FALSE(is_newer_version("1.2", "1.02"));
  EXPECT_TRUE(is_newer_version("184467440737095516160", "18446744073709551616"));
}

class SavedBy : public MemoryRun {
 protected:
  void become(const std::string& version) {
    options_.store.application = {"toy", version, cat("commit of ", version)};
  }
};

TEST_P(SavedBy, IsToldAndNewerOnesAreRefused) {
  become("1.9");
  job([](RunRank& run) { run.save(1); });
  become("1.10");
  job([](RunRank& run) {
    EXPECT_EQ(run.latest(), 1);
    run.save(2);
    run.step = 3, run.value = run.value_of(3);
    run.manager.save_async(3, run.state);
    run.manager.wait();
    for (const auto step : {2, 3}) {
      const auto by = run.manager.open(step).meta->application;
      EXPECT_EQ(by, (Application{"toy", "1.10", "commit of 1.10"}));
    }
  });
  become("1.9");
  job([](RunRank& run) {
    const auto newer =
        AllOf(test::Says("this program cannot read /run/ckpt-3"), test::Says("saved by toy 1.10"),
              test::Says("newer than this one, toy 1.9"));
    run.value = run.step = 77;
    expect_error(Code::invalid_argument, newer, [&] { run.manager.restore_latest(run.state); });
    expect_error(Code::invalid_argument, newer, [&] { run.manager.restore(3, run.state); });
    EXPECT_EQ(run.step, 77);
    EXPECT_EQ(run.manager.restore(1, run.state).step, 1);
    EXPECT_EQ(run.manager.restore(3, run.state, {.accept = {"1.1*"}}).step, 3);
    const auto any = [](const Application&) { return true; };
    EXPECT_EQ(run.manager.restore(3, run.state, {.accept = Accept(any)}).step, 3);
    expect_error(Code::invalid_argument, test::Says("accept takes 2.*, 3"), [&] {
      run.manager.restore(3, run.state, {.accept = {"2.*", "3"}});
    });
    const auto none = [](const Application& by) { return by.version != "1.10"; };
    expect_error(Code::invalid_argument, test::Says("which RestoreOptions::accept does not take"),
                 [&] { run.manager.restore(3, run.state, {.accept = Accept(none)}); });
    EXPECT_EQ(run.manager.restore(1, run.state, {.accept = {"2.*"}}).step, 1) << "its own";
  });
  // A program that gives no name accepts all checkpoints, and its checkpoints are accepted by all.
  options_.store.application = {};
  job([](RunRank& run) {
    EXPECT_EQ(run.latest(), 3);
    run.save(4);
  });
  become("1.0");
  job([](RunRank& run) { EXPECT_EQ(run.latest(), 4); });
}

// Three versions of one toy: the first has a temperature in degrees Celsius, as float; the second
// in kelvin; the third also a pressure.
struct Toy {
  int version;
  std::vector<float> celsius = std::vector<float>(4);
  std::vector<double> kelvin = std::vector<double>(4);
  std::vector<double> pressure = std::vector<double>(4, -1);
  State state;

  explicit Toy(int version) : version(version) {
    if (version == 1) {
      state.add("celsius", whole(celsius.data(), {4}));
    } else {
      state.add("kelvin", whole(kelvin.data(), {4}));
    }
    if (version == 3) state.add("pressure", whole(pressure.data(), {4}));
  }
  void fill() {
    for (std::size_t i = 0; i < 4; ++i) {
      celsius[i] = 10 * static_cast<float>(i);
      kelvin[i] = static_cast<double>(celsius[i]) + 273.15;
      pressure[i] = 1000 + static_cast<double>(i);
    }
  }
  // Migrates checkpoints of older versions.
  void migrate(const Application& from, Migration& how) {
    if (from.version == "1") {
      how.options.rename["kelvin"] = "celsius";
      how.options.convert_keys["kelvin"] = Conversion::exact;
    }
    if (version == 3) how.options.may_be_missing.insert("pressure");
    how.finish = [this, is_first = from.version == "1"] {
      for (auto& one : kelvin) one += is_first ? 273.15 : 0;
      if (version == 3) std::fill(pressure.begin(), pressure.end(), 1013.25);
    };
  }
};

TEST_P(SavedBy, EachVersionReadsTheOlderOnes) {
  const auto run = [&](int version, auto&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Toy toy(version);
      auto options = options_;
      options.keep.last = 0;
      options.store.application = {"toy", cat(version), ""};
      options.hooks.migrate = [&](const Application& from, Migration& how) {
        toy.migrate(from, how);
      };
      CheckpointManager manager(group, "/run", options);
      body(toy, manager);
    });
  };
  for (const int version : {1, 2, 3}) {
    run(version, [&](Toy& toy, CheckpointManager& manager) {
      toy.fill();
      manager.save(version, toy.state);
    });
  }
  Toy wanted(3);
  wanted.fill();
  for (const int version : {2, 3}) {
    for (const int saved : {1, 2, 3}) {
      if (saved > version) continue;
      run(version, [&](Toy& toy, CheckpointManager& manager) {
        const auto report = manager.restore(saved, toy.state);
        EXPECT_EQ(toy.kelvin, wanted.kelvin) << saved << " by " << version;
        if (version < 3) return;
        EXPECT_EQ(toy.pressure[1], saved == 3 ? 1001 : 1013.25);
        EXPECT_EQ(report.kept_keys.size(), saved == 3 ? 0u : 1u);
      });
    }
  }
  run(1, [](Toy& toy, CheckpointManager& manager) {
    expect_error(Code::invalid_argument, test::Says("newer than this one"),
                 [&] { manager.restore(2, toy.state); });
  });
  // If a migration throws on one rank, all ranks throw, and the caller's state is unchanged.
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    Toy toy(2);
    auto options = options_;
    options.store.application = {"toy", "2", ""};
    options.hooks.migrate = [&](const Application&, Migration& how) {
      double unused = 0;
      how.state.add("more", unused);
      if (group->rank() == group->size() - 1) throw std::runtime_error("no way");
    };
    CheckpointManager manager(group, "/run", options);
    expect_error(Code::application, AllOf(HasSubstr("Hooks::migrate"), test::Says("no way")),
                 [&] { manager.restore(1, toy.state); });
    EXPECT_EQ(toy.kelvin[1], 0);
    EXPECT_FALSE(toy.state.find("more"));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SavedBy, testing::Values(1, 3));

}  // namespace
}  // namespace cairn::test
