// The pure function that decides what is kept: compared with the rules written once more, and over
// long histories.
#include "store/directory/retention.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/text.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Retention random_rules(std::mt19937& random) {
  Retention rules{.last = static_cast<int>(random() % 6)};
  if (random() % 2) rules.every_steps = 1 + random() % 7;
  if (random() % 2) rules.every_hours = 0.5 * static_cast<double>(1 + random() % 10);
  if (random() % 2) rules.best = static_cast<int>(random() % 5);
  rules.larger_is_better = random() % 2;
  return rules;
}

std::optional<double> random_metric(std::mt19937& random) {
  if (random() % 4 == 0) return std::nullopt;
  if (random() % 6 == 0) return nan;
  return static_cast<double>(random() % 5);  // equal ones occur
}

std::vector<CatalogEntry> random_catalog(std::mt19937& random) {
  std::vector<CatalogEntry> entries(random() % 14);
  double time = 1e9;
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < 40; ++step) steps.push_back(step);
  std::shuffle(steps.begin(), steps.end(), random);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto& entry = entries[i];
    entry.step = steps[i];
    entry.save.sequence = static_cast<std::int64_t>(i + 1);
    time += static_cast<double>(random() % 7000) - (random() % 9 == 0 ? 20000 : 0);
    entry.save.wall_time_seconds = time;
    entry.ours = random() % 8 != 0;
    entry.superseded = random() % 3 == 0;
    if (random() % 5 == 0) entry.damage = "some bytes are wrong";
    entry.unreadable = !entry.damage.empty() && random() % 3 == 0;
    entry.pin = random() % 6 == 0 ? Pin::holds : Pin::none;
    entry.save.metric = random_metric(random);
  }
  return entries;
}

std::set<std::int64_t> staying(const std::vector<CatalogEntry>& entries, const Retention& rules) {
  std::set<std::int64_t> steps;
  for (const auto& one : decide_retention(entries, rules)) {
    if (one.stays) steps.insert(one.step);
  }
  return steps;
}

// Whether a is kept rather than b when only so many may stay; i and j are their places.
bool is_kept_before(const CatalogEntry& a, std::size_t i, const CatalogEntry& b, std::size_t j) {
  const auto group = [](const CatalogEntry& e) {
    return !e.damage.empty() ? 2 : e.superseded ? 1 : 0;
  };
  return group(a) != group(b) ? group(a) < group(b) : i > j;
}

bool is_better(const CatalogEntry& a, std::size_t i, const CatalogEntry& b, std::size_t j,
               bool larger) {
  if (std::isnan(*a.save.metric) != std::isnan(*b.save.metric)) return std::isnan(*b.save.metric);
  if (std::isnan(*a.save.metric) || *a.save.metric == *b.save.metric) return i > j;
  return (*a.save.metric > *b.save.metric) == larger;
}

// The rules, applied entry by entry.
std::set<std::int64_t> expected(const std::vector<CatalogEntry>& all, const Retention& rules) {
  std::set<std::int64_t> steps;
  double last_hour = 0;
  bool any_hour = false;
  const CatalogEntry* newest = nullptr;
  for (const auto& entry : all) {
    if (!entry.superseded && entry.damage.empty()) newest = &entry;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& entry = all[i];
    const bool counted = entry.ours && !entry.unreadable, sound = entry.damage.empty();
    bool stays = !counted || entry.pin != Pin::none || rules.last == 0 || &entry == newest;
    int before = 0, better = 0;
    for (std::size_t j = 0; j < all.size(); ++j) {
      const auto& other = all[j];
      if (j == i || !other.ours || other.unreadable) continue;
      before += is_kept_before(other, j, entry, i);
      better += entry.save.metric && other.save.metric && other.damage.empty() &&
                is_better(other, j, entry, i, rules.larger_is_better);
    }
    stays |= counted && before < rules.last;
    stays |= counted && sound && entry.save.metric && better < rules.best;
    stays |= sound && rules.every_steps > 0 && entry.step % rules.every_steps == 0;
    if (counted && sound && rules.every_hours > 0 &&
        (!any_hour ||
         std::abs(entry.save.wall_time_seconds - last_hour) >= 3600 * rules.every_hours)) {
      stays = any_hour = true;
      last_hour = entry.save.wall_time_seconds;
    }
    if (stays) steps.insert(entry.step);
  }
  return steps;
}

TEST(Retention, IsWhatTheRulesSay) {
  for (unsigned seed = 0; seed < test::rounds(20000u); ++seed) {
    std::mt19937 random(seed);
    const auto entries = random_catalog(random);
    const auto rules = random_rules(random);
    const auto stay = staying(entries, rules);
    ASSERT_EQ(stay, expected(entries, rules)) << "seed " << seed;
    const auto live = restorable(entries);
    if (!live.empty()) {
      ASSERT_TRUE(stay.count(live.front()->step)) << "seed " << seed;
    }
    // What was to be kept is still kept when the rest is gone.
    auto left = entries;
    std::erase_if(left, [&](const auto& entry) { return !stay.count(entry.step); });
    ASSERT_EQ(staying(left, rules), stay) << "seed " << seed;
  }
}

// Retention runs after each save and sees only what it left the last time. What is kept for ever
// must be the same as if nothing had ever been removed.
TEST(Retention, OverALongHistory) {
  for (unsigned seed = 0; seed < test::rounds(300u); ++seed) {
    std::mt19937 random(seed);
    auto rules = random_rules(random);
    rules.last = std::max(rules.last, 1);
    std::vector<CatalogEntry> history, there;
    double time = 1e9;
    for (int i = 1; i <= 60; ++i) {
      CatalogEntry entry;
      entry.step = i;
      entry.save.sequence = i;
      time += static_cast<double>(random() % 5000);
      entry.save.wall_time_seconds = time;
      entry.ours = true;
      entry.save.metric = random_metric(random);
      history.push_back(entry);
      there.push_back(entry);
      const auto stay = staying(there, rules);
      std::erase_if(there, [&](const auto& one) { return !stay.count(one.step); });
      ASSERT_EQ(staying(history, rules), stay) << "seed " << seed << ", save " << i;
    }
  }
}

TEST(Retention, WhatNothingTellsOfStays) {
  std::vector<CatalogEntry> entries(3);
  entries[1].damage = "cut off";
  entries[2].ours = true;
  const auto decisions = decide_retention(entries, {.last = 1});
  EXPECT_TRUE(decisions[0].stays && decisions[1].stays);
  EXPECT_EQ(decisions[0].why, "not saved by Cairn");
  EXPECT_EQ(decisions[1].why, "its index cannot be read, so nothing says that Cairn saved it");
}

TEST(Retention, SaysWhy) {
  std::vector<CatalogEntry> entries(7);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].step = static_cast<std::int64_t>(i + 1);
    entries[i].ours = true;
    entries[i].save.wall_time_seconds = 60;
  }
  entries[0].pin = Pin::holds;
  entries[1].save.metric = 0.5;
  entries[4].superseded = true;
  const auto decisions =
      decide_retention(entries, {.last = 2, .every_steps = 3, .every_hours = 1, .best = 1});
  const char* why[] = {"pinned",
                       "one of the best 1, metric 0.5",
                       "a multiple of 3 steps",
                       "not one of the last 2",
                       "superseded, and not one of the last 2",
                       "one of the last 2",
                       "the newest"};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(decisions[i].why, why[i]);
    EXPECT_EQ(decisions[i].stays, std::string(why[i]).find("not one") == std::string::npos);
  }
  entries[0].pin = Pin::none;
  EXPECT_EQ(decide_retention(entries, {.last = 2, .every_hours = 1})[0].why, "the one in 1 hours");
  EXPECT_EQ(decide_retention(entries, {.last = 0})[3].why, "all stay: keep.last is 0");
}

TEST(Retention, NanIsTheWorst) {
  for (const bool larger : {false, true}) {
    std::vector<CatalogEntry> entries(4);
    const double inf = std::numeric_limits<double>::infinity();
    const double metrics[] = {larger ? -inf : inf, nan, 3, 0};
    for (std::size_t i = 0; i < 4; ++i) {
      entries[i].step = static_cast<std::int64_t>(i);
      entries[i].ours = true;
      if (i < 3) entries[i].save.metric = metrics[i];
    }
    const Retention two{.last = 1, .best = 2, .larger_is_better = larger};
    EXPECT_EQ(staying(entries, two), (std::set<std::int64_t>{0, 2, 3}));
  }
}

}  // namespace
}  // namespace cairn
