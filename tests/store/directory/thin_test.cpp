// Tensors of older checkpoints are removed by rules of a manager, and by the tool. The rest of each
// checkpoint is whole.
#include "store/directory/thin.hpp"

#include "base/text.hpp"
#include "store/commit/names.hpp"
#include "store/contents/data_file.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t columns = 700;

// Weights and an optimizer's moments of them, cut over the ranks; every element tells the step.
struct Model {
  std::shared_ptr<Group> group;
  CheckpointManager manager;
  std::int64_t step = 0;
  std::vector<double> weights, moments, squares;
  State state, part;

  Model(std::shared_ptr<Group> g, const ManagerOptions& options)
      : group(g),
        manager(g, "/run", options),
        weights(columns),
        moments(columns),
        squares(columns) {
    const auto row = [&](auto& values) {
      return slice(values.data(), {g->size(), columns}, {g->rank(), 0}, {1, columns});
    };
    state.add("step", step).add("model/w", row(weights));
    state.add("optimizer/m", row(moments)).add("optimizer/v", row(squares));
    part.add("step", step).add("model/w", row(weights));
  }
  void fill(std::int64_t at) {
    step = at;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = value(at, i), moments[i] = -value(at, i), squares[i] = 0.5 * value(at, i);
    }
  }
  double value(std::int64_t at, std::size_t i) const {
    return static_cast<double>(at * 10000 + group->rank() * 1000) + static_cast<double>(i);
  }
  void save(std::int64_t at) { fill(at), manager.save(at, state); }
  void forget() {
    step = -1;
    for (auto* values : {&weights, &moments, &squares})
      std::fill(values->begin(), values->end(), -1);
  }
  // Checks that memory has the values of the step: all of them, or only the weights.
  void expect(std::int64_t at, bool all) const {
    EXPECT_EQ(step, at);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_EQ(weights[i], value(at, i)) << i;
      if (all) ASSERT_EQ(moments[i], -value(at, i)) << i;
      if (all) ASSERT_EQ(squares[i], 0.5 * value(at, i)) << i;
    }
  }
  void expect_restored(std::int64_t at, bool all) {
    forget();
    EXPECT_EQ(manager.restore(at, all ? state : part, {.unused = Unused::silent}).step, at);
    expect(at, all);
  }
};

class Thin : public MemoryRun {
 protected:
  Thin() {
    options_.keep.last = 0;
    options_.write.chunk_bytes = 4096;
  }
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Model model(group, options_);
      body(model);
    });
  }
  template <class F>
  void job_on(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Model model(group, options_);
      body(model);
    });
  }
  CheckpointContents contents(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step));
  }
  std::vector<std::string> keys(std::int64_t step) {
    std::vector<std::string> all;
    for (const auto& tensor : contents(step).tensors) all.push_back(tensor.key);
    return all;
  }
  // Checks that each data file has what the index says, zeros between, and no more.
  void expect_sound(std::int64_t step) {
    const auto there = contents(step);
    const auto index = io::read_file(*files_, cat("/run/ckpt-", step, ".index"), 1 << 20);
    std::int64_t count = 0;
    for (const auto& [file, pieces] : extents_of(there)) {
      const auto tail = has_metadata(pieces) ? std::string_view(index) : std::string_view();
      EXPECT_TRUE(is_sound(*files_, data_path(there, file), pieces, there, tail))
          << "step " << step << ", file " << file;
      ++count;
    }
    EXPECT_THAT(data_files(step), SizeIs(count));
  }
  std::vector<std::string> data_files(std::int64_t step) {
    std::vector<std::string> all;
    for (const auto& name : files_->list("/run")) {
      if (name.starts_with(cat("ckpt-", step, ".data-"))) all.push_back(name);
    }
    return all;
  }
  template <class F>
  auto as_owner(F&& body) {
    const auto owned = commit::OwnedName::take(files_, "/run", {"ckpt"}, 0);
    return body(location_of({files_, "/run"}, "ckpt"), owned.ownership());
  }
};

TEST_P(Thin, RulesLetGoWhatNobodyWillRead) {
  options_.keep.keys = {{"optimizer/*", 2}};
  job([](Model& model) {
    for (const auto step : {1, 2, 3, 4}) model.save(step);
    for (const auto step : {1, 2}) model.expect_restored(step, false);
    for (const auto step : {3, 4}) model.expect_restored(step, true);
    expect_error(Code::not_found,
                 AllOf(test::Says("step 1 has no 'optimizer/m' any more"),
                       test::Says("thinned by the rule 'optimizer/*' after step 3"),
                       test::Says("The newest step that has it is 4")),
                 [&] { model.manager.restore(1, model.state); });
    model.forget();
    EXPECT_EQ(model.manager.restore_latest(model.state)->step, 4);
    model.expect(4, true);
  });
  for (const auto step : {1, 2}) {
    EXPECT_THAT(keys(step), ElementsAre("model/w", "step"));
    const auto thinned = contents(step).meta->thinned;
    ASSERT_THAT(thinned, SizeIs(1));
    EXPECT_EQ(thinned[0].keys, "optimizer/*");
    EXPECT_EQ(thinned[0].tensors, 2);
    EXPECT_EQ(thinned[0].bytes, 2 * 8 * columns * GetParam());
    EXPECT_EQ(thinned[0].after, step + 2);
    // One file of weights for each rank, and the metadata.
    EXPECT_THAT(data_files(step), SizeIs(GetParam() + 1));
  }
  for (const auto step : {1, 2, 3, 4}) expect_sound(step);
  EXPECT_THAT(data_files(4), SizeIs(2 * GetParam() + 1)) << "one more a rank, of the rule";
  // The other job has other ranks, and saves asynchronously.
  for (const int ranks : {1, 2, 5}) {
    job_on(ranks, [](Model& model) {
      // There are as many rows as there were ranks: each rank takes its share of them.
      State some;
      some.add("step", model.step);
      EXPECT_EQ(model.manager.restore(1, some, {.unused = Unused::silent}).step, 1);
      EXPECT_EQ(model.step, 1);
    });
  }
  job([](Model& model) {
    model.manager.restore_latest(model.state);
    model.fill(5);
    model.manager.save_async(5, model.state);
    model.manager.wait();
    model.expect_restored(3, false);
    model.expect_restored(4, true);
    expect_error(Code::not_found, test::Says("by the rule 'optimizer/*' after step 5"),
                 [&] { model.manager.restore(3, model.state); });
    model.save(6);  // the catalog knows the new index of step 3
  });
  EXPECT_THAT(keys(3), ElementsAre("model/w", "step"));
}

TEST_P(Thin, RetentionRemovesWhatWasThinned) {
  options_.keep.keys = {{"optimizer/*", 2}};
  options_.keep.last = 4;
  for (const bool async : {false, true}) {
    job([&](Model& model) {
      model.manager.restore_latest(model.state);
      const auto first = model.step + 1;
      for (auto step = first; step < first + 9; ++step) {
        model.fill(step);
        if (async) {
          model.manager.save_async(step, model.state);
        } else {
          model.save(step);
        }
      }
      model.manager.wait();
      EXPECT_THAT(model.manager.steps(), SizeIs(4));
    });
  }
  EXPECT_THAT(keys(16), ElementsAre("model/w", "step"));
  std::vector<std::string> indexes;
  for (const auto& name : files_->list("/run")) {
    if (name.ends_with(".index")) indexes.push_back(name);
  }
  EXPECT_THAT(indexes,
              ElementsAre("ckpt-15.index", "ckpt-16.index", "ckpt-17.index", "ckpt-18.index"));
  for (const auto step : {15, 16, 17, 18}) expect_sound(step);
}

TEST_P(Thin, TheNewestThatHasAllIsRestored) {
  options_.keep.keys = {{"optimizer/*", 1}};  // which means 2
  options_.keep.last = 1;                     // and so do the two that have all
  job([](Model& model) {
    for (const auto step : {1, 2, 3, 4}) model.save(step);
    EXPECT_THAT(model.manager.steps(), SizeIs(2));
  });
  options_.keep.last = 0;
  job([](Model& model) {
    model.manager.restore_latest(model.state);
    for (const auto step : {5, 6}) model.save(step);
  });
  EXPECT_THAT(keys(4), ElementsAre("model/w", "step"));
  // A damaged checkpoint is no reason to go back to one without the optimizer.
  const auto spoil = [&](std::int64_t step) {
    const auto file = files_->open_write(cat("/run/", data_files(step).front()));
    const std::byte wrong[]{std::byte{1}, std::byte{2}, std::byte{3}};
    file->write_at(9, wrong);
    file->sync();
  };
  spoil(6);
  job([](Model& model) {
    model.forget();
    const auto report = model.manager.restore_latest(model.state);
    EXPECT_EQ(report->step, 5);
    model.expect(5, true);
  });
  spoil(5);
  job([](Model& model) {
    model.forget();
    expect_error(
        Code::data_loss,
        AllOf(test::Says("step 4 has no 'optimizer/m' any more"), test::Says("can be restored")),
        [&] { model.manager.restore_latest(model.state); });
    const auto report = model.manager.restore_latest(model.part, {.unused = Unused::silent});
    EXPECT_EQ(report->step, 4);
    model.expect(4, false);
  });
}

TEST_P(Thin, WhatARestartPassesOverIsNoneOfTheNewest) {
  options_.keep.keys = {{"optimizer/*", 2}};
  job([](Model& model) {
    for (const auto step : {1, 2, 3}) model.save(step);
    model.manager.mark(3, StepMark::bad);
    model.save(4);
    model.expect_restored(2, true);
    model.expect_restored(3, true);
    model.save(5);
    model.expect_restored(2, false);
  });
}

TEST_P(Thin, PinnedOnesKeepAll) {
  options_.keep.keys = {{"optimizer/*", 2}};
  job([](Model& model) {
    model.save(1);
    model.manager.pin(1);
    for (const auto step : {2, 3, 4}) model.save(step);
    model.expect_restored(1, true);
    model.expect_restored(2, false);
  });
  EXPECT_THAT(keys(1), SizeIs(4));
  EXPECT_THAT(keys(2), SizeIs(2));
}

TEST_P(Thin, WhatLiesInOneFileBecomesAHole) {
  options_.write.io_ranks = IoRanks::count(1);
  options_.write.io_ranks.joined = true;
  job([](Model& model) {
    for (const auto step : {1, 2}) model.save(step);
  });
  const io::Path data(cat("/run/", data_files(1).front()));
  const auto before = io::read_file(*files_, data, 1 << 20);
  const auto inode = files_->status(data)->id.inode;
  as_owner([&](const Location& place, const commit::Ownership& owner) {
    const auto plan = plan_thinning(place, 1, {{"optimizer/*"}});
    EXPECT_EQ(plan.tensors, 2);
    EXPECT_EQ(plan.bytes, 2 * 8 * columns * GetParam());
    EXPECT_EQ(plan.copied_bytes, 0);
    EXPECT_EQ(thin(place, 1, {{"optimizer/*"}}, owner).bytes, plan.bytes);
    EXPECT_EQ(thin(place, 1, {{"optimizer/*"}}, owner).tensors, 0) << "it has gone";
    EXPECT_EQ(thin(place, 1, {{"optimiser/*"}}, owner).tensors, 0);
  });
  expect_sound(1);
  EXPECT_EQ(files_->status(data)->id.inode, inode)
      << "without a copy, for which a full disk has no room";
  EXPECT_EQ(contents(1).meta->thinned.at(0).after, -1);
  job([](Model& model) {
    model.expect_restored(1, false);
    model.expect_restored(2, true);
    expect_error(Code::not_found, test::Says("cairn thin let 'optimizer/*' go"),
                 [&] { model.manager.restore(1, model.state); });
  });
}

TEST_P(Thin, WhatFailsHalfWayIsDoneByTheNext) {
  options_.keep.keys = {{"optimizer/*", 2}};
  options_.keep.last = 4;
  options_.write.io_ranks = IoRanks::count(1);
  options_.write.io_ranks.joined = true;
  job([&](Model& model) {
    for (const auto step : {1, 2}) model.save(step);
    model.group->barrier();
    // The error comes after the index has been replaced, when space is given back.
    if (model.group->rank() == 0) files_->inject({Code::io, "write", "ckpt-1.data-00000", 0, 1});
    model.group->barrier();
    model.save(3);
    model.group->barrier();
    if (model.group->rank() == 0) files_->clear_faults();
    model.group->barrier();
    model.expect_restored(1, false);
    model.manager.restore(3, model.state);
    model.save(4);  // lets go of what step 2 has
    model.group->barrier();
    if (model.group->rank() == 0) {
      for (const auto step : {1, 2, 3, 4}) expect_sound(step);
    }
    model.group->barrier();
    model.save(5);  // what retention removes is known by its new index
  });
  EXPECT_FALSE(io::exists(*files_, "/run/ckpt-1.index"));
  EXPECT_THAT(data_files(1), SizeIs(0));
}

TEST_P(Thin, AnotherNamesFileIsNotTouched) {
  options_.write.io_ranks = IoRanks::count(1);
  options_.write.io_ranks.joined = true;
  job([](Model& model) {
    for (const auto step : {1, 2}) model.save(step);
  });
  // Another copy with the same files, as `cp -al` makes it.
  files_->create_directory("/copy");
  std::map<std::string, std::string> before;
  for (const auto& name : files_->list("/run")) {
    if (!name.starts_with("ckpt-1.")) continue;
    ASSERT_TRUE(files_->try_link(cat("/run/", name), cat("/copy/", name)));
    before[name] = io::read_file(*files_, cat("/copy/", name), 1 << 20);
  }
  as_owner([&](const Location& place, const commit::Ownership& owner) {
    const auto plan = plan_thinning(place, 1, {{"optimizer/*"}});
    EXPECT_GE(plan.copied_bytes, 8 * columns * GetParam());
    files_->set_capacity(100);
    expect_error(Code::no_space, AllOf(test::Says("other names"), test::Says("are free")),
                 [&] { thin(place, 1, {{"optimizer/*"}}, owner); });
    files_->set_capacity(std::int64_t{1} << 30);
    thin(place, 1, {{"optimizer/*"}}, owner);
  });
  for (const auto& [name, bytes] : before) {
    EXPECT_EQ(io::read_file(*files_, cat("/copy/", name), 1 << 20), bytes) << name;
  }
  expect_sound(1);
  job([](Model& model) { model.expect_restored(1, false); });
}

TEST_P(Thin, ACrashAtAnyInstantLeavesAllOrTheRest) {
  options_.write.io_ranks = IoRanks::count(1);
  options_.write.io_ranks.joined = true;
  job([](Model& model) {
    for (const auto step : {1, 2}) model.save(step);
  });
  for (const bool linked : {false, true}) {
    const auto step = linked ? 2 : 1;
    files_->mark();
    as_owner([&](const Location& place, const commit::Ownership& owner) {
      const auto file = cat("/run/", data_files(step).front());
      if (linked) ASSERT_TRUE(files_->try_link(file, "/run/copy"));
      thin(place, step, {{"optimizer/*"}}, owner);
    });
    const auto disk = files_;
    std::size_t states = 0, whole = 0;
    for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
      const auto choices = disk->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        if (c >= 2 && (c + stop) % 3 != 0) continue;
        SCOPED_TRACE(disk->describe(stop, choices[c]));
        files_ = disk->crash(stop, choices[c]);
        options_.write.file_system = files_;
        job([&](Model& model) {
          model.expect_restored(1, false);
          model.expect_restored(2, false);
        });
        expect_sound(step);
        const bool has_all = keys(step).size() == 4;
        if (has_all) job([&](Model& model) { model.expect_restored(step, true); });
        whole += has_all;
        ++states;
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(whole, 10u);
    EXPECT_GT(states - whole, 10u);
    files_ = disk;
    options_.write.file_system = files_;
  }
}

TEST_P(Thin, ObjectsAreForgottenToo) {
  options_.store.object_graph = true;
  options_.keep.keys = {{"optimizer/*", 2}};
  job([](Model& model) {
    for (const auto step : {1, 2, 3, 4}) model.save(step);
    model.expect_restored(1, false);
    model.expect_restored(4, true);
  });
  for (const auto step : {1, 2}) {
    const auto there = read_contents(*files_, cat("/run/ckpt-", step), Graph::read);
    ASSERT_TRUE(there.graph);
    for (const auto& node : there.graph->nodes) {
      for (const auto& attribute : node.attributes) {
        EXPECT_TRUE(there.find(attribute.key)) << attribute.key;
      }
    }
    expect_sound(step);
  }
  // A second time: the graph is beside the metadata by then.
  as_owner([&](const Location& place, const commit::Ownership& owner) {
    EXPECT_EQ(thin(place, 1, {{"step"}}, owner).tensors, 1);
  });
  expect_sound(1);
  EXPECT_THAT(contents(1).meta->thinned, SizeIs(2));
}

TEST_P(Thin, BadInputTouchesNothing) {
  job([](Model& model) { model.save(1); });
  const auto before = files_->operation_count();
  as_owner([&](const Location& place, const commit::Ownership& owner) {
    expect_error(Code::invalid_argument, test::Says("nothing would be left"),
                 [&] { thin(place, 1, {{"*"}}, owner); });
    expect_error(Code::not_found, test::Says("there is no checkpoint"),
                 [&] { thin(place, 7, {{"optimizer/*"}}, owner); });
    auto direct = place;
    direct.atomic_rename = false;
    expect_error(Code::unsupported, test::Says("no rename"),
                 [&] { thin(direct, 1, {{"optimizer/*"}}, owner); });
  });
  for (auto i = before; i < files_->operation_count(); ++i) {
    EXPECT_THAT(files_->operation_text(i), testing::Not(HasSubstr("ckpt-1")));
  }
  // Rules that cannot be obeyed are refused.
  const auto refuse = [&](ManagerOptions options, Code code, const char* words) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      expect_error(code, HasSubstr(words),
                   [&] { const CheckpointManager manager(group, "/other", options); });
    });
  };
  auto options = options_;
  options.keep.keys = {{"optimizer/*", -1}};
  refuse(options, Code::invalid_argument, "last = -1");
  options.keep.keys = {{"", 2}};
  refuse(options, Code::invalid_argument, "a rule without a pattern");
  options.keep.keys = {{"optimizer/*", 2}};
  options.write.atomic_rename = false;
  refuse(options, Code::unsupported, "saves rely on no rename");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Thin, testing::Values(1, 3));

}  // namespace
}  // namespace cairn::test
