// A program that cannot go on from a poisoned value: it aborts whenever it meets one.
//   usage: poisoned DIRECTORY [STEPS [POISONED]]   saves every 10 of STEPS steps. The value that is
//                                                  computed in step POISONED is none, the first
//                                                  time
//          poisoned DIRECTORY --wait [--deaf] [--late]
//                                                  restores, says so, and waits to be stopped or
//                                                  killed; deaf: without a StopRequest; late: it
//                                                  dies when it is to stop, before it could save
//          poisoned DIRECTORY --look               restores and ends
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

struct Arguments {
  std::filesystem::path directory;
  bool waits = false, deaf = false, late = false, looks = false;
  std::int64_t steps = 40, poisoned = -1;
};

struct Run {
  std::shared_ptr<cairn::Group> ranks;
  cairn::CheckpointManager& manager;
  cairn::State& state;
  std::int64_t& step;
  double& value;
};

int wait(Run& run, const Arguments& arguments) {
  if (run.ranks->rank() == 0) {
    std::printf("waits at step %ld\n", static_cast<long>(run.step));
    std::fflush(stdout);
  }
  for (;;) {
    if (const auto reason = run.manager.should_stop()) {
      if (arguments.late) std::abort();
      if (run.manager.should_save(run.step)) run.manager.save(run.step, run.state);
      return reason->exit_code();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The fault strikes only once, like a cosmic ray.
bool strikes(const Run& run, const Arguments& arguments) {
  const auto struck = arguments.directory.string() + ".struck";
  const bool yes = run.step == arguments.poisoned && !std::filesystem::exists(struck);
  run.ranks->barrier();
  if (yes && run.ranks->rank() == 0) std::ofstream{struck};
  return yes;
}

int go_on(Run& run, const Arguments& arguments) {
  while (run.step < arguments.steps) {
    if (std::isnan(run.value)) std::abort();
    ++run.step;
    run.value = strikes(run, arguments) ? std::nan("") : run.value + 1;
    if (run.manager.should_save(run.step)) run.manager.save(run.step, run.state);
  }
  if (run.ranks->rank() == 0) {
    std::printf("done: step %ld, value %g\n", static_cast<long>(run.step), run.value);
  }
  return 0;
}

int run(const Arguments& arguments) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  std::int64_t step = 0;
  double value = 0;
  cairn::State state;
  state.add("step", step);
  state.add("value", cairn::slice(&value, {ranks->size()}, {ranks->rank()}, {1}));
  cairn::ManagerOptions options;
  options.when.interval = cairn::every_steps(10);
  if (!arguments.deaf) options.when.stop = std::make_shared<cairn::StopRequest>();
  cairn::CheckpointManager manager(ranks, arguments.directory, options);
  const auto report = manager.restore_latest(state);
  if (report && ranks->rank() == 0) {
    std::printf("restored step %ld, passed over %zu\n", static_cast<long>(report->step),
                report->skipped.size());
    std::fflush(stdout);
  }
  Run one{ranks, manager, state, step, value};
  if (arguments.looks) return 0;
  return arguments.waits ? wait(one, arguments) : go_on(one, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Arguments arguments{argv[1]};
  std::int64_t* numbers[] = {&arguments.steps, &arguments.poisoned};
  int given = 0;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--wait") {
      arguments.waits = true;
    } else if (word == "--deaf") {
      arguments.deaf = true;
    } else if (word == "--late") {
      arguments.late = true;
    } else if (word == "--look") {
      arguments.looks = true;
    } else if (given < 2) {
      *numbers[given++] = std::stol(word);
    } else {
      return 2;
    }
  }
  MPI_Init(&argc, &argv);
  const int code = run(arguments);
  MPI_Finalize();
  return code;
}
