// Restarts pass over steps in which a number has become NaN or infinite, and the steps that descend
// from these.
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t columns = 600;

// `u` has one row for each rank, `v` the same rows stored dense, `mask` always has a NaN.
struct Model {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t step = 0;
  std::vector<double> u, v;
  std::vector<float> mask;
  State state;

  Model(std::shared_ptr<Group> g, const ManagerOptions& options)
      : group(g), manager(g, "/run", options), u(columns), v(columns), mask(4) {
    const auto row = [&](auto& values) {
      return slice(values.data(), {g->size(), columns}, {g->rank(), 0}, {1, columns});
    };
    state.add("step", step).add("u", row(u)).add("v", stored(Storage::dense, row(v)));
    state.add("mask", mask);
    mask[2] = std::numeric_limits<float>::infinity();
  }
  void save(std::int64_t at, bool async = false) {
    step = at;
    if (async) {
      manager.save_async(at, state);
    } else {
      manager.save(at, state);
    }
  }
  // On the last rank.
  void poison(std::vector<double>& values) const {
    if (group->rank() == group->size() - 1) values[columns - 7] = nan;
  }
  void heal(std::vector<double>& values) const { values.assign(columns, 1); }
  std::int64_t restored() {
    const auto report = manager.restore_latest(state);
    heal(u), heal(v);
    return report ? report->step : -1;
  }
};

class Finite : public MemoryRun {
 protected:
  Finite() {
    options_.keep.last = 0;
    options_.restore.finite = true;
    options_.write.chunk_bytes = 4096;
  }
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Model model(group, options_);
      body(model);
    });
  }
  std::optional<NotFinite> noted(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step)).meta->not_finite;
  }
};

TEST_P(Finite, WhatHasTurnedIsPassedOver) {
  job([&](Model& model) {
    model.save(1);
    model.save(2);
    model.poison(model.u);
    model.save(3);
    model.save(4);
  });
  EXPECT_THAT(noted(2)->keys, ElementsAre("mask"));
  EXPECT_THAT(noted(2)->turned, IsEmpty());
  EXPECT_THAT(noted(3)->keys, ElementsAre("mask", "u"));
  EXPECT_THAT(noted(3)->turned, ElementsAre("u"));
  EXPECT_THAT(noted(4)->turned, ElementsAre("u")) << "it follows a poisoned one";
  job([&](Model& model) {
    const auto report = model.manager.restore_latest(model.state);
    EXPECT_EQ(report->step, 2);
    EXPECT_THAT(report->skipped,
                testing::Contains("step 4: 'u' has a NaN or an infinity, and had none in the step "
                                  "before"));
    for (const auto value : model.u) EXPECT_TRUE(std::isfinite(value));
    model.heal(model.u);
    model.save(5);  // from step 2
    EXPECT_EQ(model.restored(), 5);
  });
}

TEST_P(Finite, HoweverItIsWritten) {
  std::int64_t step = 0;
  const auto one_way = [&](const char* way, bool async) {
    SCOPED_TRACE(way);
    job([&](Model& model) {
      model.restored();
      model.save(step + 1, async);
      model.poison(model.u);
      model.save(step + 2, async);
      model.heal(model.u);
      model.save(step + 3, async);
      model.poison(model.v);
      model.save(step + 4, async);
      model.manager.wait();
      EXPECT_EQ(model.restored(), step + 3);
      model.save(step + 5, async);
      model.manager.wait();
    });
    EXPECT_THAT(noted(step + 1)->turned, IsEmpty());
    EXPECT_THAT(noted(step + 2)->turned, ElementsAre("u"));
    EXPECT_THAT(noted(step + 3)->keys, ElementsAre("mask"));
    EXPECT_THAT(noted(step + 4)->turned, ElementsAre("v"));
    EXPECT_THAT(noted(step + 5)->turned, IsEmpty());
    step += 5;
  };
  one_way("blocking", false);
  one_way("asynchronous", true);
  options_.write.io_ranks = IoRanks::count(1);
  one_way("blocking, by one io rank", false);
  one_way("asynchronous, by one io rank", true);
  options_.write.io_ranks.joined = true;
  one_way("into one file", false);
}

TEST_P(Finite, RetentionKeepsTheNewestThatIsNotPassedOver) {
  options_.keep.last = 2;
  job([&](Model& model) {
    for (const auto step : {1, 2}) model.save(step);
    model.poison(model.u);
    for (const auto step : {3, 4, 5, 6}) model.save(step);
  });
  job([&](Model& model) { EXPECT_EQ(model.restored(), 2); });
}

TEST_P(Finite, WhoeverAsksForItGetsIt) {
  job([&](Model& model) {
    model.save(1);
    model.poison(model.u);
    model.save(2);
  });
  options_.restore.fall_back = false;
  job([&](Model& model) {
    expect_error(Code::data_loss, AllOf(HasSubstr("'u' has a NaN"), test::Says("cairn mark")),
                 [&] { model.restored(); });
  });
  options_.restore.fall_back = true;
  options_.read_only = true;
  job([&](Model& model) { EXPECT_EQ(model.restored(), 2); });
  options_.read_only = false;
  options_.restore.finite = false;
  job([&](Model& model) { EXPECT_EQ(model.restored(), 2); });
  options_.restore.finite = true;
  job([&](Model& model) {
    EXPECT_EQ(model.manager.restore(2, model.state).step, 2);
    model.save(3);  // a run that went on from it takes its numbers as they are
  });
  EXPECT_THAT(noted(3)->keys, ElementsAre("mask", "u"));
  EXPECT_THAT(noted(3)->turned, IsEmpty());
  job([&](Model& model) {
    EXPECT_EQ(model.restored(), 3);
    model.save(4);
    model.poison(model.u);
    model.save(5);
    model.manager.mark(5, StepMark::good);
  });
  job([&](Model& model) {
    EXPECT_EQ(model.manager.restore_latest(model.state)->step, 5);
    model.save(6);
  });
  EXPECT_THAT(noted(6)->turned, IsEmpty());
}

TEST_P(Finite, WhatWasNotNotedIsNotPassedOver) {
  options_.restore.finite = false;
  job([&](Model& model) { model.save(1); });
  EXPECT_EQ(noted(1), std::nullopt);
  options_.restore.finite = true;
  job([&](Model& model) {
    EXPECT_EQ(model.restored(), 1);
    model.poison(model.u);
    model.save(2);
  });
  EXPECT_THAT(noted(2)->keys, ElementsAre("mask", "u"));
  job([&](Model& model) { EXPECT_EQ(model.restored(), 2); });
  // The only step there is is better than none.
  job([&](Model& model) {
    model.save(3);
    model.poison(model.v);
    model.save(4);
  });
  job([&](Model& model) { EXPECT_EQ(model.restored(), 3); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Finite, testing::Values(1, 3));

}  // namespace
}  // namespace cairn::test
