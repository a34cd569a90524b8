// What comparing replicas costs a save: a state of which every rank holds all, on thread ranks,
// saved with ReplicaCheck none, sample and all.
//
//   replica_check_bench DIRECTORY [--mib 64] [--ranks 2] [--repetitions 9]
//
// The three take rounds within each repetition, in a new order each time, each over its own
// checkpoint. A time runs from a barrier to the barrier after the slowest rank; the table has
// medians, and their ratios to none; also of the processor time of all ranks together, which a busy
// disk leaves alone. Holders read and checksum what is compared, but for the writer: the more ranks
// share a processor, the more it costs.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "testing/threads.hpp"

namespace {

namespace fs = std::filesystem;
using namespace cairn;

constexpr const char* usage =
    "usage: replica_check_bench DIRECTORY [--mib 64] [--ranks 2] [--repetitions 9]\n"
    "DIRECTORY lies on the file system to be measured; a folder of its own is made and removed in "
    "it.\n";

struct Settings {
  fs::path directory;
  std::int64_t mib = 64;
  int ranks = 2;
  int repetitions = 9;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] {
      if (i + 1 == argc) throw std::runtime_error(word + " needs a value\n" + usage);
      const int value = std::stoi(argv[++i]);
      if (value < 1) throw std::runtime_error(word + " must be at least 1\n" + usage);
      return value;
    };
    if (word == "--mib") {
      settings.mib = number();
    } else if (word == "--ranks") {
      settings.ranks = number();
    } else if (word == "--repetitions") {
      settings.repetitions = number();
    } else if (word.starts_with("-") || !settings.directory.empty()) {
      throw std::runtime_error("cannot use " + word + "\n" + usage);
    } else {
      settings.directory = word;
    }
  }
  if (settings.directory.empty()) throw std::runtime_error(usage);
  return settings;
}

constexpr std::array checks{ReplicaCheck::none, ReplicaCheck::sample, ReplicaCheck::all};
constexpr std::array names{"none", "sample", "all"};
struct Times {
  std::vector<double> wall, processor;  // seconds
};
using AllTimes = std::array<Times, checks.size()>;

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

AllTimes measure(const Settings& settings, const fs::path& directory, std::int64_t tensors) {
  const auto count =
      settings.mib * (std::int64_t{1} << 20) / tensors / static_cast<std::int64_t>(sizeof(double));
  AllTimes times;  // by rank 0
  run_threads(settings.ranks, [&](std::shared_ptr<Group> group) {
    std::vector<std::vector<double>> values;
    State state;
    for (std::int64_t i = 0; i < tensors; ++i) {
      values.emplace_back(static_cast<std::size_t>(count), static_cast<double>(i) + 0.5);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      state.add("t" + std::to_string(i), whole(values[i].data(), {count}));
    }
    std::vector<std::unique_ptr<CheckpointManager>> managers;
    for (std::size_t i = 0; i < checks.size(); ++i) {
      ManagerOptions options;
      options.overwrite = true;
      options.store.replicas.check = checks[i];
      managers.push_back(std::make_unique<CheckpointManager>(group, directory / names[i], options));
    }
    std::mt19937 random(1);  // the same order on all ranks
    std::vector<std::size_t> order(checks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int turn = -1; turn < settings.repetitions; ++turn) {  // the first warms up
      std::shuffle(order.begin(), order.end(), random);
      for (const auto i : order) {
        group->barrier();
        const auto start = std::chrono::steady_clock::now();
        const auto used = std::clock();
        group->barrier();
        managers[i]->save(1, state);
        group->barrier();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (group->rank() == 0 && turn >= 0) {
          times[i].wall.push_back(took.count());
          times[i].processor.push_back(static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
        }
        group->barrier();
      }
    }
  });
  return times;
}

int run(const Settings& settings) {
  const auto folder = settings.directory / "replica_check_bench";
  if (!fs::create_directories(folder)) {
    throw std::runtime_error(folder.string() + " is there already");
  }
  std::printf("%lld MiB that %d thread ranks hold, medians of %d saves\n\n",
              static_cast<long long>(settings.mib), settings.ranks, settings.repetitions);
  std::printf("%-14s %8s %10s %7s %14s %7s\n", "state", "check", "ms a save", "ratio",
              "processor ms", "ratio");
  for (const std::int64_t tensors : {std::int64_t{1}, settings.mib, 16 * settings.mib}) {
    const auto times = measure(settings, folder, tensors);
    fs::remove_all(folder);
    const auto wall = median(times[0].wall), processor = median(times[0].processor);
    for (std::size_t i = 0; i < checks.size(); ++i) {
      const auto state = std::to_string(tensors) + (tensors == 1 ? " tensor" : " tensors");
      const auto mine = median(times[i].wall), used = median(times[i].processor);
      std::printf("%-14s %8s %10.1f %7.2f %14.1f %7.2f\n", i == 0 ? state.c_str() : "", names[i],
                  1e3 * mine, mine / wall, 1e3 * used, used / processor);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
