// Saves and restores beside plain I/O. scripts/bench starts it and says whose turn it is.
//
// What one contestant leaves behind for the next (freed blocks, a busy disk) is written back before
// the next one's time begins. A save's time ends when data and names are synced, for all. Only
// Cairn, and the row that says so, makes and checks checksums, and only Cairn commits atomically.
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "arena.hpp"
#include "cairn/mpi.hpp"

namespace cairn::bench {

Arena::Arena(MPI_Comm communicator, const std::filesystem::path& directory, Recipe what)
    : ranks(communicator),
      group(mpi(communicator)),
      work(directory / "cairn_bench"),
      recipe(std::move(what)),
      source(recipe, ranks.rank(), ranks.size(), Sample::Fill::values),
      plain((static_cast<std::size_t>(recipe.bytes() / ranks.size()) + 4095) / 4096 * 4096) {
  const Sample bytes(Recipe::one_tensor(static_cast<std::int64_t>(plain.bytes().size())),
                     ranks.rank(), 1, Sample::Fill::values);
  const auto some = bytes.datasets();
  const auto size = static_cast<std::size_t>(some[0].rows * some[0].columns) * sizeof(double);
  for (std::size_t i = 0; i < plain.bytes().size(); ++i) plain.bytes()[i] = some[0].data[i % size];
  fresh(work);
}

void Arena::settle() const {
  ranks.barrier();
  if (ranks.rank() == 0) sync_file_system(work.parent_path());
  ranks.barrier();
}

void Arena::remove(const std::filesystem::path& directory) const {
  ranks.barrier();
  if (ranks.rank() == 0) std::filesystem::remove_all(directory);
  settle();
}

void Arena::fresh(const std::filesystem::path& directory) const {
  remove(directory);
  if (ranks.rank() == 0) std::filesystem::create_directories(directory);
  settle();
}

namespace {

constexpr const char* usage =
    "usage: mpirun -np N save_restore_bench DIRECTORY one|small|mix MIB "
    "[--saves|--async|--restore|--ways|--hdf5|--mpi-io]\n"
    "Takes its turns from standard input: see scripts/bench.\n";

Recipe recipe_of(const std::string& state, std::int64_t mib, int ranks) {
  if (mib < 1 || mib > 1 << 20) throw std::runtime_error(usage);
  if (state == "one") return Recipe::one_tensor(mib << 20);
  if (state == "small") return Recipe::many_small(ranks);
  if (state == "mix") return Recipe::mixed(mib << 20);
  throw std::runtime_error(usage);
}

Contestants contestants(Arena& arena, const std::string& mode) {
  if (mode == "--mpi-io") return mpi_io_contests(arena);
  if (mode == "--ways") return ways_contests(arena);
  if (mode == "--saves") return save_contests(arena);
  if (mode == "--async") return async_contests(arena);
  if (mode == "--restore") return restore_contests(arena);
  if (mode == "--hdf5") {
#ifndef CAIRN_BENCH_HDF5
    throw std::runtime_error("this program was built without HDF5");
#endif
    return hdf5_contests(arena);
  }
  if (!mode.empty()) throw std::runtime_error(usage);
  auto all = save_contests(arena);
  for (auto& one : async_contests(arena)) all.push_back(std::move(one));
  for (auto& one : restore_contests(arena)) all.push_back(std::move(one));
  return all;
}

void run(int argc, char** argv) {
  if (argc < 4 || argc > 5) throw std::runtime_error(usage);
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Arena arena(MPI_COMM_WORLD, argv[1], recipe_of(argv[2], std::stoll(argv[3]), ranks));
  auto all = contestants(arena, argc == 5 ? argv[4] : "");
  std::string caches;
  if (arena.ranks.rank() == 0) caches = drop_caches(arena.work);
  serve(arena.ranks, std::move(all), static_cast<double>(arena.recipe.bytes()), caches);
  arena.remove(arena.work);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    cairn::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_restore_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
