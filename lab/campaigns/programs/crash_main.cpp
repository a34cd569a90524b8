// The crash campaign: random jobs on a disk in memory, and random crashes. For each seed the jobs
// are played, and then restarts look at states in which a crash could have left the disk.
//
//   campaign_crash --seeds A-B [--part K/N] [--states COUNT] [--without LIST] [--seconds S]
//   campaign_crash --seed N [--verbose] ...
//
//   --part K/N      of these seeds each Nth, from the Kth on (1 ... N)
//   --states COUNT  states a seed (default 40), besides those between jobs
//   --without LIST  of two-owners, read-errors, double-faults, faults, threads, hdf5, direct, pins,
//                   errands
//   --seconds S     begin no seed later than that
//   --neglect KIND  a disk on which "sync" or "sync_directory" does nothing, to see that this is
//   found
//
// The last line is "seeds N jobs N saves N unchanged N encoded N states N findings N": of bytes
// that saves have left out, and of saves with a codec. Exit status 1: there are findings. It is one
// if many seeds have left nothing out, or encoded nothing.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "lab/campaigns/programs/codecs.hpp"
#include "lab/campaigns/programs/command_line.hpp"
#include "lab/campaigns/programs/crash_story.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::campaign {
namespace {

struct Options {
  std::uint64_t first = 1, last = 1, part = 1, parts = 1;
  int states = 40;
  std::string without, neglect;
  double seconds = 0;
  bool verbose = false;
};

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line("crash_main.cpp");
  line.flag("--verbose", options.verbose);
  line.range("--seeds", '-', options.first, options.last);
  line.range("--seed", '-', options.first, options.last);
  line.range("--part", '/', options.part, options.parts);
  line.number("--states", options.states);
  line.text("--without", options.without);
  line.text("--neglect", options.neglect);
  line.number("--seconds", options.seconds);
  line.read(count, arguments);
  if (options.part < 1 || options.part > options.parts) line.refuse("--part K/N wants 1 <= K <= N");
  if (options.first > options.last) line.refuse("--seeds A-B wants A <= B");
  return options;
}

// Ends the process, and names the seed, when a seed takes so long that something must wait for
// ever.
class Watchdog {
 public:
  void look_at(std::uint64_t seed) {
    seed_ = seed;
    began_ = seconds();
  }
  void run() {
    std::thread([this] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        if (seconds() - began_ < limit_seconds) continue;
        std::cout << cat("seed ", seed_.load(), ": it hangs\nseeds 0 jobs 0 saves 0 unchanged 0 ",
                         "encoded 0 states 0 findings 1\n")
                  << std::flush;
        std::_Exit(1);
      }
    }).detach();
  }
  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  static constexpr double limit_seconds = 120;
  std::atomic<std::uint64_t> seed_ = 0;
  std::atomic<double> began_ = 0;
};

// What many seeds must have done, or they do not try what they are for.
std::uint64_t missing_kinds(const Options& options, std::uint64_t seeds, const Tally& tally) {
  if (seeds < 20) return 0;
  std::uint64_t missing = 0;
  const auto require = [&](std::int64_t count, const char* what) {
    if (count > 0) return;
    ++missing;
    std::cout << cat("seeds ", options.first, "-", options.last, ": ", what, "\n");
  };
  require(tally.unchanged, "no save has left out bytes that were unchanged");
  const bool hdf5 = has_hdf5 && !parse_without(options.without).hdf5;
  if (hdf5 && any_codec()) require(tally.encoded, "no save had a codec");
  return missing;
}

int run(const Options& options) {
  const auto without = parse_without(options.without);
  auto& ownership = commit::default_ownership();
  ownership.heartbeat_seconds = 1e6;  // nothing happens by itself
  ownership.overlap_seconds = 0;
  if (options.verbose) {
    set_log_sink(
        [](LogLevel, std::string_view message) { std::cout << cat("  log: ", message, "\n"); });
  } else {
    set_log_sink({});
  }
  static Watchdog watchdog;  // its thread outlives this
  const auto start = Watchdog::seconds();
  watchdog.look_at(0);
  watchdog.run();
  Tally tally;
  std::uint64_t seeds = 0, findings = 0;
  for (auto seed = options.first + options.part - 1; seed <= options.last; seed += options.parts) {
    if (options.seconds > 0 && Watchdog::seconds() - start > options.seconds) break;
    watchdog.look_at(seed);
    auto plan = make_plan(seed, without);
    plan.neglect = options.neglect;
    plan.tells = options.verbose;
    if (options.verbose) std::cout << text_of(plan);
    const auto wrong = play(plan, options.states, tally);
    ++seeds;
    if (wrong.empty()) continue;
    ++findings;
    std::cout << cat(options.verbose ? "" : text_of(plan));
    for (const auto& one : wrong) std::cout << cat("seed ", seed, ": ", one, "\n");
    std::cout << cat("again: campaign_crash --seed ", seed, " --states ", options.states,
                     options.without.empty() ? "" : cat(" --without ", options.without), "\n")
              << std::flush;
  }
  findings += missing_kinds(options, seeds, tally);
  std::cout << cat("seeds ", seeds, " jobs ", tally.jobs.load(), " saves ", tally.saves.load(),
                   " unchanged ", tally.unchanged.load(), " encoded ", tally.encoded.load(),
                   " states ", tally.states.load(), " findings ", findings, "\n");
  return findings > 0;
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
