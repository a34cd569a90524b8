// Saves into a bucket and restores from it, beside a bare client of libcurl that moves the same
// bytes in as many parts over as many connections; and how long save_async blocks beside one into a
// directory. Whoever's turn it is, an order drawn anew; seconds from a barrier until the slowest
// rank is done. AWS_ENDPOINT_URL leads to s3_server, which shares the machine.
//
//   mpirun -n 2 bucket_bench DIR [MIB OF EACH RANK [REPETITIONS [FILE.json]]]      (256 15)
#include <mpi.h>

#include <algorithm>
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bare_bucket.hpp"
#include "raw_io.hpp"
#include "rows_of_json.hpp"

namespace {

using namespace cairn;

// As the store in a bucket has them (src/store/bucket).
constexpr std::size_t part_bytes = std::size_t{8} << 20, connections = 4;

struct Contest {
  std::string measure, what;
  std::function<void()> run;
  std::size_t beside;                                   // which one of the list
  std::function<void()> before = [] {}, after = [] {};  // not measured
  std::vector<double> seconds = {};
};

ManagerOptions options() {
  ManagerOptions made;
  made.keep.last = 1;
  return made;
}

void run(const std::string& directory, std::int64_t mib, int repetitions, const std::string& json) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  const bench::Ranks ranks(MPI_COMM_WORLD);
  const auto rows = mib << 10;
  constexpr std::int64_t columns = 128;
  std::mt19937_64 random(static_cast<std::uint64_t>(ranks.rank()));
  std::vector<double> values(static_cast<std::size_t>(rows * columns)), read(values.size());
  for (auto& value : values) value = static_cast<double>(random());
  const auto state_of = [&](std::vector<double>& memory) {
    State state;
    state.add("u", slice(memory.data(), {rows * ranks.size(), columns}, {rows * ranks.rank(), 0},
                         {rows, columns}));
    return state;
  };
  auto state = state_of(values), target = state_of(read);
  const auto bytes = std::as_bytes(std::span(values));
  const auto into = std::as_writable_bytes(std::span(read));

  const auto* endpoint = std::getenv("AWS_ENDPOINT_URL");
  if (!endpoint) throw std::runtime_error("AWS_ENDPOINT_URL is not set");
  bench::BareBucket bare(std::string(endpoint) + "/bucket", part_bytes, connections);
  const auto key = "bare-" + std::to_string(ranks.rank());
  CheckpointManager saves(group, "s3://bucket/run", options());
  auto hdf5 = options();
  hdf5.store.format = Format::hdf5;
  CheckpointManager as_hdf5(group, "s3://bucket/hdf5", hdf5);
  CheckpointManager on_disk(group, directory, options());
  std::int64_t step = 0;
  const auto async = [&](CheckpointManager& manager) { manager.save_async(++step, state); };

  std::vector<Contest> all = {
      {"save", "by hand, libcurl", [&] { bare.put(key, bytes, false); }, 0},
      {"save", "by hand, with checksums", [&] { bare.put(key, bytes, true); }, 0},
      {"save", "Cairn", [&] { saves.save(++step, state); }, 0},
      {"save", "Cairn, HDF5", [&] { as_hdf5.save(++step, state); }, 0},
      {"restore", "by hand, libcurl", [&] { bare.get(key, into); }, 4},
      {"restore", "Cairn", [&] { saves.restore_latest(target); }, 4},
      {"restore", "Cairn, HDF5", [&] { as_hdf5.restore_latest(target); }, 4},
      {"blocked", "save_async into a directory", [&] { async(on_disk); }, 7, [] {},
       [&] { on_disk.wait(); }},
      {"blocked", "save_async into a bucket", [&] { async(saves); }, 7, [] {},
       [&] { saves.wait(); }},
  };
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937 shuffling(1);
  for (int turn = -2; turn < repetitions; ++turn) {  // two to warm up: older ones go from then on
    if (turn >= -1) std::shuffle(order.begin(), order.end(), shuffling);
    for (const auto i : order) {
      std::fill(read.begin(), read.end(), 0);
      all[i].before();
      ranks.barrier();
      const auto begin = MPI_Wtime();
      all[i].run();
      const auto seconds = ranks.max(MPI_Wtime() - begin);
      all[i].after();
      if (turn >= 0) all[i].seconds.push_back(seconds);
      if (all[i].measure == "restore" && read != values) throw std::runtime_error("wrong values");
    }
  }
  if (ranks.rank() != 0) return;
  nlohmann::json lines;
  const auto moved = static_cast<double>(bytes.size()) * ranks.size();
  for (const auto& one : all) {
    const auto& beside = all[one.beside].seconds;
    std::printf("%-8s %-28s %8.1f ms  %6.2f GB/s  x %.2f of the time\n", one.measure.c_str(),
                one.what.c_str(), 1000 * bench::median(one.seconds),
                moved / bench::median(one.seconds) / 1e9, bench::median_ratio(one.seconds, beside));
    lines.push_back(bench::row_of("bucket, " + one.measure, one.what, ranks.size(), moved,
                                  one.seconds, beside));
  }
  bench::write_rows(json, lines);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc < 2) throw std::runtime_error("usage: bucket_bench DIR [MIB [REPETITIONS [FILE]]]");
    run(argv[1], argc > 2 ? std::atoll(argv[2]) : 256, argc > 3 ? std::atoi(argv[3]) : 15,
        argc > 4 ? argv[4] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bucket_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
