// A small language model learns to write like Debian's licenses, checkpointed with Cairn.
//
// Kill it at any time and start it again, on any mesh of ranks: it goes on from the newest whole
// checkpoint, and its losses are exactly those of a run that nobody disturbed. with_tensorflow.py
// beside this file has the same model in TensorFlow, and goes on from the same checkpoints.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <bit>
#include <cairn/cairn.hpp>
#include <cairn/kokkos.hpp>
#include <cairn/mpi.hpp>
#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "adam.hpp"

struct Options {
  int steps = 300, every = 0, max_to_keep = 5;
  std::vector<int> mesh, fault{-1, 0};
  std::string text = "/usr/share/common-licenses", checkpoint_dir, restart = "auto", losses;
  double margin = 30;
  bool stop = false, digest = false;

  explicit Options(CLI::App& app) {
    const CLI::Range count(0, 1 << 30);
    app.option_defaults()->always_capture_default();
    app.add_option("--steps", steps, "last step")->check(count);
    app.add_option("--mesh", mesh, "data ranks x tensor ranks (default: all are data ranks)")
        ->delimiter('x')
        ->expected(2);
    app.add_option("--text", text, "a directory with text files");
    auto* dir = app.add_option("--checkpoint-dir", checkpoint_dir, "home of the checkpoints");
    app.add_option("--checkpoint-every", every, "steps; 0: never")->check(count)->needs(dir);
    auto* in_order =
        app.add_flag("--stop", stop,
                     "on SIGTERM, SIGUSR1, SIGUSR2, shortly before the time "
                     "limit, or when there is a file STOP: save, exit with 75 (76 for STOP)");
    in_order->needs(dir);
    app.add_option("--margin", margin, "seconds, of the time limit")->needs(in_order);
    app.add_option("--max-to-keep", max_to_keep, "newest ones that stay; 0: all")->check(count);
    auto* from = app.add_option("--restart", restart, "auto (newest one, if any), none, or a step");
    from->needs(dir)->check(CLI::IsMember({"auto", "none"}) | count);
    app.add_option("--losses", losses,
                   "file that the steps' losses are added to, in place of output");
    app.add_option("--inject-fault", fault, "RANK:STEP: then a bit of this rank's weights flips")
        ->delimiter(':')
        ->expected(2);
    app.add_flag("--digest", digest, "last line: 'digest HEX step S', over the weights");
    app.footer("Example: mpirun -n 4 train --mesh 2x2 --checkpoint-dir run --checkpoint-every 50");
  }
};

// The learning rate: up for some steps, then down along a cosine.
struct Schedule {
  float peak = 4e-3f;
  std::int64_t warmup = 20, period = 1000;

  float rate(std::int64_t step) const {
    const double rise = std::min(1.0, static_cast<double>(step + 1) / warmup);
    const double angle = std::min(1.0, static_cast<double>(step) / period) * std::acos(-1.0);
    return static_cast<float>(peak * rise * (0.55 + 0.45 * std::cos(angle)));
  }
};

// A sum over the bits of all weights and their places in the model, the same on any mesh.
std::uint64_t digest(const Ranks& ranks, const Model& model) {
  std::uint64_t sum = 0;
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), model.weights);
  for (int i = 0; i < parameters && ranks.data == 0; ++i) {
    if (ranks.tensor > 0 && model.all[i].weights.fully_replicated()) continue;
    auto element = (std::uint64_t(i) << 32) +
                   model.pieces.boxes[i].start[0] * model.all[i].shape[1] * model.all[i].shape[2];
    for (auto at = model.pieces.starts[i]; at < model.pieces.starts[i + 1]; ++at) {
      auto bits = element++ << 20 ^ std::bit_cast<std::uint32_t>(host(at));
      sum += next_random(bits);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

// The exit code.
int run(const Options& o) {
  std::shared_ptr<cairn::StopRequest> stop;
  if (o.stop) {
    cairn::StopOptions how{.signals = {SIGTERM, SIGUSR1, SIGUSR2}, .margin_seconds = o.margin};
    stop = std::make_shared<cairn::StopRequest>(how);
  }
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const Ranks ranks(o.mesh.empty() ? size : o.mesh[0], o.mesh.empty() ? 1 : o.mesh[1]);
  Model model(ranks);
  Adam adam(ranks, model);
  Batches batches(read_text(o.text));
  Schedule schedule;
  std::int64_t step = 0;
  float rate = 0;

  // What a checkpoint holds, for saving and for restoring alike. Keys are the paths of TensorFlow's
  // objects; under _variables and _trainable_variables Keras lists the same ones once more.
  cairn::State state;
  for (int i = 0; i < parameters; ++i) {
    const auto& [path, shape, spread, weights_layout, moments_layout] = model.all[i];
    const auto add = [&, &shape = shape](const std::string& key, const Pieces& pieces,
                                         const Flat& array, const cairn::Layout& layout,
                                         const std::string& other_path) {
      const auto slice = cairn::slice(pieces(array, i), shape, pieces.boxes[i].start);
      state.add(key, cairn::laid_out(slice, layout, ranks.rank));
      state.alias("optimizer/" + other_path, key);
    };
    const auto number = [](int n) { return "/" + std::to_string(n); };
    add("model/" + path, model.pieces, model.weights, weights_layout,
        "_trainable_variables" + number(i));
    add("optimizer/_momentums" + number(i), adam.pieces, adam.momenta, moments_layout,
        "_variables" + number(2 * i + 2));
    add("optimizer/_velocities" + number(i), adam.pieces, adam.velocities, moments_layout,
        "_variables" + number(2 * i + 3));
  }
  state.add("optimizer/_iterations", step).add("optimizer/_learning_rate", rate);
  state.alias("optimizer/_variables/0", "optimizer/_iterations");
  state.alias("optimizer/_variables/1", "optimizer/_learning_rate");
  state.add("schedule/peak", schedule.peak);
  state.add("schedule/warmup", schedule.warmup).add("schedule/period", schedule.period);
  state.add("data/order", batches.order).add("data/position", batches.position);
  state.add("data/random", batches.random);

  const bool speaks = ranks.rank == 0;
  const auto say = [&](const std::string& line) {
    if (speaks) std::printf("%s\n", line.c_str()), std::fflush(stdout);
  };
  // All ranks open it, so that all hear if that cannot be; the first one writes.
  std::FILE* losses = o.losses.empty() ? stdout : std::fopen(o.losses.c_str(), "a");
  if (!losses) throw std::runtime_error("cannot write " + o.losses);
  std::setvbuf(losses, nullptr, _IOLBF, BUFSIZ);  // whole lines, also if we are killed

  std::optional<cairn::CheckpointManager> manager;
  if (!o.checkpoint_dir.empty()) {
    cairn::ManagerOptions keep;
    keep.max_to_keep = o.max_to_keep;
    keep.object_graph = true;
    keep.interval.steps = o.every;
    keep.stop = stop;
    keep.async.on_change = [&](const cairn::SaveHandle& save) {
      if (save.committed()) say("saved step " + std::to_string(save.step()));
    };
    manager.emplace(cairn::mpi(MPI_COMM_WORLD), o.checkpoint_dir, keep);
    std::optional<cairn::RestoreReport> restored;
    if (o.restart == "auto") restored = manager->restore_latest(state);
    if (!std::isalpha(o.restart[0])) restored = manager->restore(std::stoll(o.restart), state);
    if (restored) {
      for (const auto& why : restored->skipped) say("passed over a damaged checkpoint, " + why);
      say("restored step " + std::to_string(step) + " from " + restored->prefix);
    }
  }

  const auto weights = model.weights;
  const auto count = model.pieces.size();
  const Flat gradients("gradients", lanes * count);
  const Tokens input("input", lane_tokens), target("target", lane_tokens);
  const auto host_input = Kokkos::create_mirror(input), host_target = Kokkos::create_mirror(target);
  std::optional<cairn::StopReason> stopped;
  while (step < o.steps && !stopped) {
    const auto batch = batches.next();
    double lane_losses[lanes] = {}, loss = 0;
    Kokkos::deep_copy(gradients, 0);
    for (int lane = ranks.first_lane(ranks.data); lane < ranks.first_lane(ranks.data + 1); ++lane) {
      for (int n = 0; n < lane_tokens; ++n) {
        const int at = (lane * sequences + n / context) * (context + 1) + n % context;
        host_input(n) = batch[at];
        host_target(n) = batch[at + 1];
      }
      Kokkos::deep_copy(input, host_input);
      Kokkos::deep_copy(target, host_target);
      lane_losses[lane] = model.learn(input, target, Flat(gradients.data() + lane * count, count));
    }
    MPI_Allreduce(MPI_IN_PLACE, lane_losses, lanes, MPI_DOUBLE, MPI_SUM, ranks.data_comm);
    for (const double lane : lane_losses) loss += lane / lanes;
    rate = schedule.rate(step++);
    adam.step(ranks, model, gradients, rate, step);
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
  if (losses != stdout) std::fclose(losses);
  if (stopped && step < o.steps) {
    say("stopped at step " + std::to_string(step) + ": " + stopped->text());
    return stopped->exit_code();
  }

  const auto hash = o.digest ? digest(ranks, model) : 0;
  if (speaks && o.digest) std::printf("digest %016" PRIx64 " step %" PRId64 "\n", hash, step);
  return 0;
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
  } catch (const std::exception& error) {  // a cairn::Error of a collective call is on all ranks
    code = 1;
    if (rank == 0) std::fprintf(stderr, "train: %s\n", error.what());
  }
  MPI_Finalize();
  return code;
}
