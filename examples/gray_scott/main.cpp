// Gray–Scott reaction and diffusion of two substances u and v, checkpointed with Cairn.
//
// Kill it at any time and start it again, on any number of ranks: it goes on from the newest whole
// checkpoint and ends with exactly the bits of a run that nobody disturbed.
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/kokkos.hpp>
#include <cairn/mpi.hpp>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "gray_scott.hpp"
#include "grid.hpp"
#include "output.hpp"
#include "rebalance.hpp"

constexpr auto codecs = words(cairn::StoreCodec());

struct Options {
  int size = 512, steps = 2000, every = 0, max_to_keep = 5, keep_u = 0, rebalance = 0, slow = -1;
  double seconds = 0, mtbf = 0, margin = 30, flush = 0;
  std::string checkpoint_dir, tier, protection = "xor", format = "bundle", restart = "auto";
  std::string codec = "none", initial, image, keep_start;
  int home_every = 10;
  bool async = false, released = false, stop = false, digest = false, times = false,
       progress = isatty(STDERR_FILENO);

  explicit Options(CLI::App& app) {
    const CLI::Range count(0, 1 << 30);
    app.option_defaults()->always_capture_default();
    app.add_option("--size", size, "cells a side")->check(CLI::Range(1, 32768));
    app.add_option("--steps", steps, "last time step")->check(count);
    auto* dir = app.add_option("--checkpoint-dir", checkpoint_dir, "home of the checkpoints");
    app.add_option("--checkpoint-every", every, "steps; 0: never")->check(count)->needs(dir);
    app.add_option("--checkpoint-seconds", seconds, "time between saves; 0: no matter")->needs(dir);
    app.add_option("--mtbf", mtbf,
                   "seconds between failures of the job; saves come as often as is best; "
                   "0: no matter")
        ->needs(dir);
    auto* in_order =
        app.add_flag("--stop", stop,
                     "on SIGTERM, SIGUSR1, SIGUSR2, shortly before the time "
                     "limit, or when there is a file STOP: save, exit with 75 (76 for STOP)");
    in_order->needs(dir);
    app.add_option("--margin", margin, "seconds, of the time limit")->needs(in_order);
    auto* beside = app.add_flag("--async", async, "save while the computation goes on")->needs(dir);
    app.add_flag("--released", released, "with --async: save without a copy")->needs(beside);
    auto* nodes = app.add_option(
        "--tier", tier, "directory of each node, for checkpoints on the nodes: %n, %h in it");
    nodes->needs(dir);
    app.add_option("--protection", protection, "of those, against the loss of a node")
        ->needs(nodes)
        ->check(CLI::IsMember({"none", "xor", "reed_solomon"}));
    app.add_option("--home-every", home_every, "one of so many saves goes to --checkpoint-dir")
        ->needs(nodes)
        ->check(count);
    app.add_option("--flush", flush,
                   "MB a second at which these go there from the nodes, while the computation goes "
                   "on; 0: straight there")
        ->needs(nodes)
        ->check(CLI::NonNegativeNumber);
    app.add_option("--max-to-keep", max_to_keep, "newest ones that stay; 0: all")->check(count);
    app.add_option("--keep-u", keep_u,
                   "newest ones that have u, without which there is no restart; others keep v, for "
                   "pictures; 0: all")
        ->check(count);
    app.add_option("--format", format, "of the checkpoints")
        ->check(CLI::IsMember({"bundle", "hdf5"}));
    app.add_option("--codec", codec, "of fields in HDF5 checkpoints")
        ->check(CLI::IsMember(std::vector<std::string>(codecs.begin(), codecs.end())));
    auto* blocks =
        app.add_option("--rebalance", rebalance,
                       "steps after which ranks that were slow get fewer cells; 0: never");
    blocks->check(count);
    app.add_option(
           "--slow", slow,
           "to try that: a rank that is taken for nine times as slow as all others, whatever "
           "clocks say; the next one after each rebalancing")
        ->needs(blocks)
        ->check(count);
    app.add_flag(
           "--keep-start{files}", keep_start,
           "each checkpoint also has the first u and v: in files that all share or, with "
           "--keep-start=blocks, in blocks that a save leaves out where they are there already")
        ->needs(dir)
        ->check(CLI::IsMember({"files", "blocks"}))
        ->excludes(blocks);
    app.add_option("--initial", initial, "FILE.h5:/GROUP with u and v to begin with");
    auto* from = app.add_option("--restart", restart, "auto (newest one, if any), none, or a step");
    from->needs(dir)->check(CLI::IsMember({"auto", "none"}) | count);
    app.add_option("--image", image, "PNG file for v at the end");
    app.add_flag("--digest", digest, "last line: 'digest HEX step S', over u and v");
    app.add_flag("--times", times, "how long each save took, and where it is");
    app.add_flag("--progress,!--no-progress", progress, "a progress bar on standard error");
    app.footer("Example: mpirun -n 4 gray_scott --checkpoint-dir run --checkpoint-every 100");
  }
};

// Returns the exit code.
int run(const Options& o) {
  if (!o.image.empty() && !GRAY_SCOTT_PNG) throw std::runtime_error("--image needs libpng");
  std::shared_ptr<cairn::StopRequest> stop;
  if (o.stop) {
    cairn::StopOptions how{.signals = {SIGTERM, SIGUSR1, SIGUSR2}, .margin_seconds = o.margin};
    stop = std::make_shared<cairn::StopRequest>(how);
  }
  Grid grid(o.size, MPI_COMM_WORLD);
  GrayScott gs(grid);
  std::int64_t step = 0;

  // advance() swaps the Views of old and new fields, and a rebalancing makes others: each save or
  // restore asks for the Views of that moment, and where they begin.
  const cairn::Dims shape{grid.n, grid.n};
  const auto start = [&] { return cairn::Dims{grid.start[0], grid.start[1]}; };
  cairn::State fields;
  fields.add("u", [&] { return cairn::slice(grid.owned(gs.u), shape, start()); });
  fields.add("v", [&] { return cairn::slice(grid.owned(gs.v), shape, start()); });
  // What a checkpoint holds; it is the same for saves and restores.
  cairn::State state = fields;
  state.add("step", step).add("dt", gs.dt);
  state.add("F", gs.F).add("k", gs.k).add("Du", gs.Du).add("Dv", gs.Dv);
  Field first_u, first_v;
  if (!o.keep_start.empty()) {
    gs.start(grid);
    first_u = Field("first u", gs.u.extent(0), gs.u.extent(1));
    first_v = Field("first v", gs.v.extent(0), gs.v.extent(1));
    Kokkos::deep_copy(first_u, gs.u), Kokkos::deep_copy(first_v, gs.v);
    state.add("start/u", cairn::slice(grid.owned(first_u), shape, start()));
    state.add("start/v", cairn::slice(grid.owned(first_v), shape, start()));
  }

  const bool speaks = grid.rank == 0;
  const auto say = [&](const std::string& line) {
    if (speaks) std::printf("%s\n", line.c_str()), std::fflush(stdout);
  };
  std::optional<cairn::CheckpointManager> manager;
  std::optional<cairn::RestoreReport> restored;
  if (!o.checkpoint_dir.empty()) {
    cairn::ManagerOptions options;
    options.keep.last = o.max_to_keep;
    if (o.keep_u > 0) options.keep.keys = {{.keys = "u", .last = o.keep_u}};
    if (o.keep_start == "files") options.frozen.keys = {"start/*"};
    if (o.keep_start == "blocks") options.write.skip_unchanged = cairn::SkipUnchanged::on;
    if (o.format == "hdf5") options.store.format = cairn::Format::hdf5;
    const auto codec = std::find(codecs.begin(), codecs.end(), o.codec) - codecs.begin();
    options.store.codec = static_cast<cairn::StoreCodec>(codec);
    options.when.interval = {.steps = o.every, .seconds = o.seconds};
    if (o.mtbf > 0) options.when.interval.optimal_for = cairn::Mtbf::job(o.mtbf);
    options.when.stop = stop;
    options.tier.directory = o.tier;
    options.tier.home_every = o.home_every;
    options.tier.flush_bytes_per_second = static_cast<std::int64_t>(1e6 * o.flush);
    options.tier.protection = o.protection == "none"  ? cairn::Protection::none
                              : o.protection == "xor" ? cairn::Protection::parity
                                                      : cairn::Protection::reed_solomon;
    options.async.on_change = [&](const cairn::SaveHandle& save) {
      if (save.committed()) say("saved step " + std::to_string(save.step()));
    };
    manager.emplace(cairn::mpi(MPI_COMM_WORLD), o.checkpoint_dir, options);
    if (o.restart == "auto") restored = manager->restore_latest(state);
    if (!std::isalpha(o.restart[0])) restored = manager->restore(std::stoll(o.restart), state);
  }

  if (restored) {
    for (const auto& why : restored->skipped) say("passed over a damaged checkpoint, " + why);
    say("restored step " + std::to_string(step) + " from " + restored->prefix);
  } else if (!o.initial.empty()) {
    const auto colon = o.initial.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("--initial wants FILE.h5:/GROUP");
    const auto group = o.initial.substr(colon + 1);
    cairn::restore_hdf5(cairn::mpi(MPI_COMM_WORLD), o.initial.substr(0, colon), fields,
                        {.rename = {{"u", group + "/u"}, {"v", group + "/v"}}});
    say("began with the fields of " + o.initial);
  } else {
    gs.start(grid);
  }

  std::optional<cairn::StopReason> stopped;
  std::optional<cairn::SaveHandle> reads;  // a save that reads the fields where they are
  while (step < o.steps && !stopped) {
    // The first step after a save only reads the fields that it saves, the second writes over them.
    if (reads && step > reads->step()) {
      reads->release();
      reads.reset();
    }
    gs.advance(grid);
    ++step;
    if (o.progress && speaks && (step % 10 == 0 || step == o.steps)) {
      const std::string bar(static_cast<std::size_t>(50 * step / o.steps), '#');
      std::fprintf(stderr, "\r[%-50s] %" PRId64, bar.c_str(), step);
    }
    if (o.rebalance > 0 && step % o.rebalance == 0 && step < o.steps) {
      const auto cells = 1.0 * grid.extent[0] * grid.extent[1];
      const auto slow = (o.slow + step / o.rebalance - 1) % grid.ranks;
      const double seconds = o.slow < 0 ? gs.seconds : cells * (slow == grid.rank ? 9 : 1);
      const auto bytes = move_fields(grid, gs, rebalanced(grid, seconds));
      gs.seconds = 0;
      say("rebalanced at step " + std::to_string(step) + ", " + std::to_string(bytes) +
          " bytes moved");
    }
    if (!manager) continue;
    if (manager->should_save(step)) {
      if (o.async) {
        const auto until = o.released ? cairn::Until::released : cairn::Until::captured;
        reads = manager->save_async(step, state, {.until = until});
      } else {
        const double begin = MPI_Wtime();
        const auto prefix = manager->save(step, state);
        say("saved step " + std::to_string(step));
        if (o.times) say("in " + std::to_string(MPI_Wtime() - begin) + " s: " + prefix);
      }
    }
    stopped = manager->should_stop();
  }
  if (manager) manager->wait();

  if (o.progress && speaks) std::fputc('\n', stderr);
  if (stopped && step < o.steps) {
    say("stopped at step " + std::to_string(step) + ": " + stopped->text());
    return stopped->exit_code();
  }
  if (!o.digest && o.image.empty()) return 0;
  const auto all_u = grid.gather(gs.u), all_v = grid.gather(gs.v);
  if (speaks && !o.image.empty()) write_png(o.image, all_v, grid.n);
  const auto hash = fnv1a(all_v, fnv1a(all_u));
  if (speaks && o.digest) std::printf("digest %016" PRIx64 " step %" PRId64 "\n", hash, step);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, code = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CLI::App app("Gray-Scott reaction and diffusion, checkpointed with Cairn", "gray_scott");
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
    if (rank == 0) std::fprintf(stderr, "gray_scott: %s\n", error.what());
  }
  MPI_Finalize();
  return code;
}
