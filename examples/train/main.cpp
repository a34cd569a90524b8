// A small language model learns to write like Debian's licenses, checkpointed with Cairn.
//
// Kill it at any time and start it again, on any mesh of ranks: it goes on from the newest whole
// checkpoint, and its losses are exactly those of a run that nobody disturbed. with_tensorflow.py
// beside this file has the same model in TensorFlow, and goes on from the same checkpoints.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "model.hpp"

struct Options {
  int steps = 300, every = 0, keep = 5, keep_optimizer = 0;
  std::vector<int> mesh{0, 1}, fault{-1, 0};
  std::string text = "/usr/share/common-licenses", checkpoint_dir, losses;
  bool stop = false;

  explicit Options(CLI::App& app) {
    const CLI::Range count(0, 1 << 30);
    MPI_Comm_size(MPI_COMM_WORLD, &mesh[0]);  // the default
    app.option_defaults()->always_capture_default();
    app.add_option("--steps", steps, "last step")->check(count);
    app.add_option("--mesh", mesh, "data ranks x tensor ranks")->delimiter('x')->expected(2);
    app.add_option("--text", text, "a directory with text files");
    auto* dir = app.add_option("--checkpoint-dir", checkpoint_dir, "goes on from the newest there");
    app.add_option("--checkpoint-every", every, "steps; 0: never")->check(count)->needs(dir);
    app.add_option("--keep", keep, "checkpoints that stay; 0: all")->check(count)->needs(dir);
    app.add_option("--keep-optimizer", keep_optimizer, "... with Adam's moments; 0: all of them")
        ->check(count)
        ->needs(dir);
    app.add_flag("--stop", stop, "save and end when asked (docs/stopping.md)")->needs(dir);
    app.add_option("--losses", losses, "file to add the steps' losses to, in place of output");
    app.add_option("--inject-fault", fault, "RANK:STEP: a bit flips")->delimiter(':')->expected(2);
    app.footer("Example: mpirun -n 4 train --mesh 2x2 --checkpoint-dir run --checkpoint-every 50");
  }
};

// The learning rate rises for some steps, then falls along a cosine.
struct Schedule {
  float peak = 4e-3f;
  std::int64_t warmup = 20, period = 1000;

  float rate(std::int64_t step) const {
    const double rise = std::min(1.0, static_cast<double>(step + 1) / warmup);
    const double angle = std::min(1.0, static_cast<double>(step) / period) * std::acos(-1.0);
    return static_cast<float>(peak * rise * (0.55 + 0.45 * std::cos(angle)));
  }
};

// Returns the exit code.
int run(const Options& o) {
  std::shared_ptr<cairn::StopRequest> stop;
  if (o.stop) stop = std::make_shared<cairn::StopRequest>();  // early: no signal is missed
  const Ranks ranks(o.mesh);
  const Model model(ranks);
  const Adam adam{model};
  Batches batches(read_text(o.text));
  Schedule schedule;
  std::int64_t step = 0;
  float rate = 0;

  // What a checkpoint holds; it is the same for saves and restores. Keys are the paths of
  // TensorFlow's objects; Keras lists the same ones once more under _variables and
  // _trainable_variables.
  cairn::State state;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto number = std::to_string(i), weight = "model/" + parameters[i].path;
    const auto momentum = "optimizer/_momentums/" + number;
    const auto velocity = "optimizer/_velocities/" + number;
    state.add(weight, model.pieces.slice(model.weights, i));
    state.add(momentum, adam.pieces.slice(adam.momenta, i));
    state.add(velocity, adam.pieces.slice(adam.velocities, i));
    state.alias("optimizer/_trainable_variables/" + number, weight);
    state.alias("optimizer/_variables/" + std::to_string(2 * i + 2), momentum);
    state.alias("optimizer/_variables/" + std::to_string(2 * i + 3), velocity);
  }
  state.add("optimizer/_iterations", step).add("optimizer/_learning_rate", rate);
  state.alias("optimizer/_variables/0", "optimizer/_iterations");
  state.alias("optimizer/_variables/1", "optimizer/_learning_rate");
  state.add("schedule/peak", schedule.peak);
  state.add("schedule/warmup", schedule.warmup).add("schedule/period", schedule.period);
  state.add("data", batches.windows);

  const bool speaks = ranks.rank == 0;
  const auto say = [&](const std::string& line) {
    if (speaks) std::printf("%s\n", line.c_str()), std::fflush(stdout);
  };
  // All ranks open the file, so that all notice if that fails; the first one writes.
  std::FILE* losses = o.losses.empty() ? stdout : std::fopen(o.losses.c_str(), "a");
  if (!losses) throw std::runtime_error("cannot write " + o.losses);
  std::setvbuf(losses, nullptr, _IOLBF, BUFSIZ);  // whole lines, also if we are killed

  std::optional<cairn::CheckpointManager> manager;
  if (!o.checkpoint_dir.empty()) {
    cairn::ManagerOptions options;
    options.store.object_graph = true;
    options.keep.last = o.keep;
    for (const auto* moments : {"optimizer/_momentums/*", "optimizer/_velocities/*"}) {
      if (o.keep_optimizer == 0) continue;
      options.keep.keys.push_back({.keys = moments, .last = o.keep_optimizer});
    }
    options.when.interval.steps = o.every;
    options.when.stop = stop;
    options.async.on_change = [&](const cairn::SaveHandle& save) {
      if (save.committed()) say("saved step " + std::to_string(save.step()));
    };
    manager.emplace(cairn::mpi(MPI_COMM_WORLD), o.checkpoint_dir, options);
    if (const auto restored = manager->restore_latest(state)) {
      for (const auto& why : restored->skipped) say("passed over a damaged checkpoint, " + why);
      say("restored step " + std::to_string(step) + " from " + restored->prefix);
    }
  }

  const auto weights = model.weights;
  const auto count = model.pieces.size();
  const auto my_lanes = ranks.mine("data", lanes);
  const Flat gradients("gradients", lanes * count);
  const Window text("text");
  std::optional<cairn::StopReason> stopped;
  while (step < o.steps && !stopped) {
    auto batch = batches.next();
    double lane_losses[lanes] = {}, loss = 0;
    Kokkos::deep_copy(gradients, 0);
    for (auto lane = my_lanes.start[0]; lane < my_lanes.end(0); ++lane) {
      Kokkos::deep_copy(text, HostWindow(batch.data() + lane * (context + 1)));
      lane_losses[lane] = model.learn(text, Flat(gradients.data() + lane * count, count));
    }
    MPI_Allreduce(MPI_IN_PLACE, lane_losses, lanes, MPI_DOUBLE, MPI_SUM, ranks.data_comm);
    for (const double lane : lane_losses) loss += lane / lanes;
    rate = schedule.rate(step++);
    adam.step(gradients, rate, step);
    batches.done();
    if (speaks) std::fprintf(losses, "step %" PRId64 " loss %a = %.4f\n", step, loss, loss);

    if (o.fault[0] == ranks.rank && o.fault[1] == step) {
      Kokkos::parallel_for(
          "flip a bit", 1, KOKKOS_LAMBDA(int i) { weights(i) = -weights(i); });
    }
    if (!manager) continue;
    if (manager->should_save(step)) manager->save_async(step, state);
    stopped = manager->should_stop();
  }
  if (manager) manager->wait();
  if (!stopped || step == o.steps) return 0;
  say("stopped at step " + std::to_string(step) + ": " + stopped->text());
  return stopped->exit_code();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, code = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CLI::App app("A character-level language model, checkpointed with Cairn", "train");
  Options options(app);
  try {
    app.parse(argc, argv);
    const Kokkos::ScopeGuard kokkos;  // configured by KOKKOS_... in the environment
    code = run(options);
  } catch (const CLI::ParseError& error) {  // all ranks see the same arguments
    code = error.get_exit_code() != 0;
    if (rank == 0) app.exit(error);
  } catch (const std::exception& error) {  // all ranks have the Error of a collective call
    code = 1;
    if (rank == 0) std::fprintf(stderr, "train: %s\n", error.what());
  }
  MPI_Finalize();
  return code;
}
