// Saves and restores with real processes, MPI messages, and files of the operating system, for
// every pair of rank counts up to the size of the job.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/ragged_case.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::Directory;
using test::first_ranks;

class MpiFormats : public testing::TestWithParam<Format> {};

TEST_P(MpiFormats, NToMOfAllPairs) {
  const auto world = mpi(MPI_COMM_WORLD);
  ManagerOptions options;
  options.store.format = GetParam();
  for (int n = 1; n <= world->size(); ++n) {
    for (int m = 1; m <= world->size(); ++m) {
      if (world->size() > 4 && n != world->size() && m != world->size()) continue;
      const Directory directory(*world);
      test::NToMCase one(n, m, static_cast<unsigned>(n + m));
      if (n % 2 == 1) one.storage = Storage::dense;
      if (const auto group = first_ranks(n, world->rank())) {
        one.save(group, directory.path(), options);
      }
      world->barrier();
      if (const auto group = first_ranks(m, world->rank())) {
        EXPECT_EQ(one.restore(group, directory.path(), {}), "") << n << " to " << m;
      }
      world->barrier();
    }
  }
}

std::vector<Format> formats() {
  std::vector<Format> all{Format::bundle};
  if (hdf5::available()) all.push_back(Format::hdf5);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, MpiFormats, testing::ValuesIn(formats()), [](const auto& info) {
  return info.param == Format::hdf5 ? "Hdf5" : "Bundle";
});

TEST(MpiCheckpoint, IoRanks) {
  const auto world = mpi(MPI_COMM_WORLD);
  const int ranks = world->size();
  ManagerOptions two, one_a_node;
  two.write.io_ranks = IoRanks::count(2);
  two.write.io_ranks.memory_bytes = 4096;
  one_a_node.write.io_ranks = IoRanks::one_a_node();
  for (unsigned seed = 0; seed < 4; ++seed) {
    const Directory directory(*world);
    test::NToMCase one(ranks, ranks, seed);
    if (seed % 2 == 1) one.storage = Storage::dense;
    one.save(world, directory.path(), seed < 2 ? two : one_a_node);
    world->barrier();
    for (const auto& options : {two, one_a_node, ManagerOptions{}}) {
      EXPECT_EQ(one.restore(world, directory.path(), options), "") << "seed " << seed;
      world->barrier();
    }
  }
}

// No rename is relied on, and few ranks touch files; some of the restoring managers own the
// directory, some do not.
TEST(MpiCheckpoint, IoRanksWithoutAtomicRename) {
  const auto world = mpi(MPI_COMM_WORLD);
  ManagerOptions options;
  options.write.atomic_rename = false;
  options.overwrite = true;
  options.write.io_ranks = IoRanks::count(2);
  options.write.io_ranks.memory_bytes = 4096;
  for (int n = 1; n <= world->size(); ++n) {
    for (int m = 1; m <= world->size(); ++m) {
      if (world->size() > 3 && n != world->size() && m != world->size()) continue;
      const Directory directory(*world);
      test::NToMCase one(n, m, static_cast<unsigned>(100 + n + m));
      if (m % 2 == 1) one.storage = Storage::dense;
      if (const auto group = first_ranks(n, world->rank())) {
        one.save(group, directory.path(), options);
        group->barrier();
        one.save(group, directory.path(), options);  // over it
      }
      world->barrier();
      EXPECT_TRUE(fs::exists(directory.path() / ".cairn" / "no-atomic-rename"));
      for (const auto& file : fs::directory_iterator(directory.path())) {
        EXPECT_EQ(file.path().string().find(".part_"), std::string::npos) << file.path();
      }
      world->barrier();
      auto restoring = options;
      restoring.read_only = n % 2 == 1;
      if (const auto group = first_ranks(m, world->rank())) {
        EXPECT_EQ(one.restore(group, directory.path(), restoring), "") << n << " to " << m;
      }
      world->barrier();
    }
  }
}

TEST(MpiCheckpoint, RaggedAndRankPrivate) {
  const auto world = mpi(MPI_COMM_WORLD);
  for (int m = 1; m <= world->size(); ++m) {
    const Directory directory(*world);
    const test::RaggedCase one(world->size(), m, static_cast<unsigned>(m));
    one.save(world, directory.path(), {});
    world->barrier();
    if (const auto group = first_ranks(m, world->rank())) {
      EXPECT_EQ(one.restore(group, directory.path(), {}), "") << "to " << m;
    }
    world->barrier();
  }
}

TEST(MpiCheckpoint, ADirectoryThatCannotBeMadeIsAnErrorOnAllRanks) {
  const auto world = mpi(MPI_COMM_WORLD);
  try {
    CheckpointManager(world, "/dev/null/run");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io) << error.what();
    EXPECT_NE(std::string(error.what()).find("/dev/null"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cairn
