// Programs in whose locale 1.234,5 is a number, and restarts in another one.
#include <charconv>
#include <optional>

#include "session/schedule/run_history.hpp"
#include "store/directory/retention.hpp"
#include "support/comma_locale.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

class Locales : public Manager {
 protected:
  Locales() {
    options_.keep = {.last = 2, .every_steps = 5000, .every_hours = 1234.5, .best = 1};
    options_.when.interval = optimal(Mtbf::learnt(12'345.5));
    options_.trace = "/trace";
  }
  std::string read(const std::string& path) { return io::read_file(*files_, path, 1 << 30); }

  // What the first job leaves.
  void save() {
    job([&](Rank& rank) {
      rank.manager.should_save(999);
      rank.save(1000, {.metric = 1234.5});
      rank.manager.pin(1000);
      rank.save(2000);
      rank.step = 3000, rank.value = rank.value_of(3000);
      rank.manager.save_async(3000, rank.state);
      rank.manager.wait();
    });
  }
  void go_on() {
    job([&](Rank& rank) {
      EXPECT_EQ(rank.latest(), 3000);
      EXPECT_THAT(rank.steps(), ElementsAre(1000, 2000, 3000));
      EXPECT_TRUE(rank.manager.steps()[0].pinned);
      rank.save(4000);
      EXPECT_THAT(rank.steps(), ElementsAre(1000, 3000, 4000));
    });
  }
  // Checks the texts in files.
  void check_texts() {
    const auto runs = RunHistory::parse(read("/run/.cairn/runs.ckpt"));
    ASSERT_TRUE(runs);
    EXPECT_EQ(runs->runs.size(), 2U);
    const auto kept = retention_of(read_contents(*files_, "/run/ckpt-3000").meta->run.keep);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->every_hours, 1234.5);
    EXPECT_EQ(kept->every_steps, 5000);
    const auto trace = read("/trace.0.json");
    std::size_t events = 0;
    for (const std::string name : {"\"ts\":", "\"dur\":", "\"step\":"}) {
      for (auto at = trace.find(name); at != trace.npos; at = trace.find(name, at + 1), ++events) {
        double value = 0;
        const auto* begin = trace.data() + at + name.size();
        const auto* end = std::from_chars(begin, trace.data() + trace.size(), value).ptr;
        EXPECT_TRUE(*end == ',' || *end == '}') << trace.substr(at, 60);
        EXPECT_NE(end[0] == ',' ? end[1] : '"', '0') << trace.substr(at, 60);
      }
    }
    EXPECT_GT(events, 0U);
  }
};

TEST_P(Locales, WhatOneSavesTheOtherRestores) {
  std::optional<std::string> listing, data;
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      SCOPED_TRACE(cat("commas: ", first, ", then ", second));
      files_ = std::make_shared<io::MemoryFileSystem>();
      options_.write.file_system = files_;
      const auto in = [](bool commas, const auto& call) {
        std::optional<test::CommaLocale> locale;
        if (commas) locale.emplace();
        call();
      };
      in(first, [&] { save(); });
      in(second, [&] { go_on(); });
      in(second, [&] { check_texts(); });
      std::string names, bytes;
      for (const auto& name : files_->list("/run")) {
        names += name + '\n';
        // The last data file has the metadata, with times; it is left out.
        const bool is_last = name.find(cat(".data-0000", GetParam())) != name.npos;
        if (name.find(".data-") != name.npos && !is_last) bytes += read("/run/" + name);
      }
      EXPECT_FALSE(bytes.empty());
      EXPECT_TRUE(bytes == data.value_or(bytes));
      EXPECT_EQ(names, listing.value_or(names));
      listing = names, data = bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Locales, testing::Values(1, 2));

}  // namespace
}  // namespace cairn
