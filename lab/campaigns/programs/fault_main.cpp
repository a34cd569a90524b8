// The fault campaign: every operation of a job's saves, restores, recoveries and endings fails
// once, in every way that it can, for each line of the conformance table, on one to three ranks.
//
//   campaign_fault [--lines LIST] [--stories LIST] [--ranks LIST] [--kinds LIST]
//                  [--stride N[/FROM]] [--part K/N] [--seconds S]
//   campaign_fault --pairs A-B [...]        two faults, chosen by a seed
//   campaign_fault --case CASE [--verbose]  one of them again
//
//   --stride N/FROM  of all cases each Nth, from number FROM on
//   --part K/N       of these each Nth, from the Kth on (1 ... N)
//   --seconds S      begin no case later than that
//   --stale N        no faults: each case on schedules 1 to N, of ranks that see changes of others
//                    only N looks later, where they do not open the file; with --pairs, two faults
//   --neglect KIND   a disk on which "sync" or "sync_directory" does nothing, to see that this is
//                    found
//
// The last line is "cases N faults N refused N findings N". Exit status 1: there are findings.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "lab/campaigns/programs/command_line.hpp"
#include "lab/campaigns/programs/fault_story.hpp"
#include "lab/campaigns/programs/random.hpp"
#include "support/conformance.hpp"

namespace cairn::test {

// Only the table of the conformance suite is needed here.
std::vector<LauncherKind> launcher_kinds() { return {}; }

}  // namespace cairn::test

namespace cairn::campaign {
namespace {

struct Options {
  std::string lines, stories, ranks = "1,2,3", kinds, one, neglect;
  std::uint64_t stride = 1, from = 0, part = 1, parts = 1, first_pair = 0, last_pair = 0;
  int stale = 0;
  double seconds = 0;
  bool verbose = false;
};

// Whether the list is empty or names it.
bool is_wanted(const std::string& list, const std::string& name) {
  return list.empty() || cat(",", list, ",").find(cat(",", name, ",")) != std::string::npos;
}

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line("fault_main.cpp");
  line.flag("--verbose", options.verbose);
  line.text("--lines", options.lines);
  line.text("--stories", options.stories);
  line.text("--ranks", options.ranks);
  line.text("--kinds", options.kinds);
  line.text("--neglect", options.neglect);
  line.number("--stale", options.stale);
  line.text("--case", options.one);
  line.range("--stride", '/', options.stride, options.from);
  line.range("--part", '/', options.part, options.parts);
  line.range("--pairs", '-', options.first_pair, options.last_pair);
  line.number("--seconds", options.seconds);
  line.read(count, arguments);
  if (options.part < 1 || options.part > options.parts) line.refuse("--part K/N wants 1 <= K <= N");
  if (options.stride < 1) line.refuse("--stride is at least 1");
  std::set<std::string> lines, names, kinds;
  for (const auto& one : test::combinations()) lines.insert(one.name);
  for (const auto& one : stories()) names.insert(one.name);
  for (const auto one : fault_kinds()) kinds.insert(name_of(one));
  line.check(options.lines, lines);
  line.check(options.stories, names);
  line.check(options.kinds, kinds);
  line.check(options.ranks, {"1", "2", "3"});
  return options;
}

class Campaign {
 public:
  explicit Campaign(const Options& options)
      : options_(options), stage_(options.neglect, options.stale) {}

  int run() {
    watch();
    if (!options_.one.empty()) {
      play(parse_case(options_.one));
    } else {
      for_each_story([&](const FaultCase& one) {
        if (options_.last_pair > 0) return;
        if (options_.stale > 0) {
          schedules(one);
        } else {
          singles(one);
        }
      });
      for (auto seed = options_.first_pair; options_.last_pair > 0 && seed <= options_.last_pair;
           ++seed) {
        if (seed % options_.parts == options_.part - 1) pair(seed);
      }
    }
    std::cout << cat("cases ", cases_, " faults ", faults_, " refused ", refused_, " findings ",
                     findings_, "\n");
    return findings_ > 0;
  }

 private:
  template <class F>
  void for_each_story(F&& call) {
    FaultCase one;
    for (one.line = 0; one.line < test::combinations().size(); ++one.line) {
      if (!is_wanted(options_.lines, test::combinations()[one.line].name)) continue;
      for (one.ranks = 1; one.ranks <= 3; ++one.ranks) {
        if (!is_wanted(options_.ranks, cat(one.ranks))) continue;
        for (one.story = 0; one.story < stories().size(); ++one.story) {
          const auto& story = stories()[one.story];
          if (is_wanted(options_.stories, story.name) && is_played(one.line, story)) call(one);
        }
      }
    }
  }

  bool is_late() const { return options_.seconds > 0 && now() - start_ > options_.seconds; }

  // Plays each operation with each kind of fault.
  void singles(FaultCase one) {
    if (is_late()) return;
    const auto operations = play(one).operations;
    for (std::size_t at = 0; at < operations.size(); ++at) {
      for (const auto kind : fault_kinds()) {
        if (!is_wanted(options_.kinds, name_of(kind)) || !applies(kind, operations[at])) continue;
        if (kind == FaultKind::stuck && !can_be_stuck(one.line)) continue;
        const auto n = count_++;
        if (n % options_.stride != options_.from % options_.stride) continue;
        if (n / options_.stride % options_.parts != options_.part - 1 || is_late()) continue;
        one.faults = {{kind, at}};
        play(one);
      }
    }
  }

  void schedules(FaultCase one) {
    for (int schedule = 1; schedule <= options_.stale; ++schedule) {
      if (count_++ % options_.parts != options_.part - 1 || is_late()) continue;
      one.schedule = static_cast<unsigned>(schedule);
      play(one);
    }
  }

  void pair(std::uint64_t seed) {
    if (is_late()) return;
    Random random(seed);
    std::vector<FaultCase> all;
    for_each_story([&](const FaultCase& one) { all.push_back(one); });
    auto one = all[static_cast<std::size_t>(random.below(static_cast<int>(all.size())))];
    one.schedule = random.one_in(6) ? 0 : static_cast<unsigned>(random.between(1, 1000));
    const auto operations = static_cast<int>(play(one).operations.size());
    int at = random.below(operations);
    for (int i = 0; i < 2; ++i) {
      const auto& kinds = fault_kinds();
      auto kind = kinds[static_cast<std::size_t>(random.below(static_cast<int>(kinds.size())))];
      if (kind == FaultKind::stuck && !can_be_stuck(one.line)) kind = FaultKind::io;
      one.faults.push_back({kind, static_cast<std::size_t>(at)});
      at += 1 + (random.one_in(3) ? random.below(operations) : random.below(6));
    }
    play(one);
  }

  FaultReport play(const FaultCase& one) {
    {
      const std::lock_guard guard(mutex_);
      playing_ = text_of(one);
      began_ = now();
    }
    auto report = stage_.play(one);
    if (options_.stale > 0 && one.faults.empty()) {
      for (const auto& heard : report.heard)
        report.wrong.push_back(cat("without a fault, ", heard));
    }
    ++cases_;
    faults_ += report.happened.size();
    refused_ += report.refused;
    if (options_.verbose) {
      for (const auto& operation : report.operations) {
        std::cout << cat("  ", operation.kind, " ", operation.path, "\n");
      }
    }
    if (report.wrong.empty() && !options_.verbose) return report;
    findings_ += !report.wrong.empty();
    std::string text = cat(text_of(one), ":");
    for (const auto& fault : report.happened) text += cat(" ", fault, ";");
    text += "\n";
    for (const auto& heard : report.heard) text += cat("  heard: ", heard, "\n");
    for (const auto& wrong : report.wrong) text += cat("  wrong: ", wrong, "\n");
    text += cat("again: campaign_fault --case ", text_of(one), "\n");
    std::cout << text << std::flush;
    return report;
  }

  // Ends the process, and names the case, when a case takes so long that something must wait for
  // ever.
  void watch() {
    std::thread([this] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        const std::lock_guard guard(mutex_);
        if (now() - began_ < limit_seconds) continue;
        std::cout << cat(playing_, ": it hangs\nagain: campaign_fault --case ", playing_,
                         "\ncases 0 faults 0 refused 0 findings 1\n")
                  << std::flush;
        std::_Exit(1);
      }
    }).detach();
  }
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  static constexpr double limit_seconds = 120;
  const Options options_;
  const double start_ = now();
  FaultStage stage_;
  std::mutex mutex_;  // of what the watchdog looks at
  std::string playing_;
  double began_ = now();
  std::uint64_t count_ = 0, cases_ = 0, faults_ = 0, refused_ = 0, findings_ = 0;
};

int run(const Options& options) {
  if (options.verbose) {
    set_log_sink(
        [](LogLevel, std::string_view message) { std::cout << cat("  log: ", message, "\n"); });
  } else {
    set_log_sink({});
  }
  static Campaign campaign(options);  // its watchdog outlives this
  return campaign.run();
}

}  // namespace
}  // namespace cairn::campaign

int main(int count, char** arguments) {
  try {
    return cairn::campaign::run(cairn::campaign::parse(count, arguments));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
