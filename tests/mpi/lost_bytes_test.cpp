#include <gmock/gmock.h>

#include <iostream>
#include <map>
#include <string>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "group/collectives.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::Directory;
using ::testing::HasSubstr;

// Open MPI before 4.1.7 now and then loses bytes among several aggregators, if ranks write small
// neighbouring pieces that begin in the middle of a page. Whatever it does here, a save fails with
// an error, or all its bytes are right. It happens in programs without threads, so this one runs as
// such. Other tests show that the check works at all (mpi_io_faults_test.cpp).
void save_until_bytes_are_lost(const std::map<std::string, std::string>& hints,
                               const std::string& blamed, int most_saves) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const int size = world->size(), me = world->rank();
  constexpr int enough_lost = 3, rows_a_rank = 7;
  constexpr std::int64_t columns = 2100;  // one row a write, with chunks of 4 KiB
  ManagerOptions options;
  options.write.writer = Writer::mpi_io;
  options.write.mpi_io.files = 1;
  options.write.mpi_io.hints = hints;
  options.write.chunk_bytes = 4096;
  options.keep.last = 2;
  std::vector<std::uint8_t> head(1000), rows(rows_a_rank * columns);
  // If the library is not known to lose bytes with these hints, the test asks for the check.
  options.write.mpi_io.read_back = !hints.empty() && world->shared_files()->doubt(hints).empty();
  std::vector<LocalTensor> parts;
  for (int i = 0; i < rows_a_rank; ++i) {
    parts.push_back(slice(rows.data() + i * columns, {rows_a_rank * size, columns},
                          {i * size + me, 0}, {1, columns}));
  }
  State state;
  state.store(Storage::dense).add("head", head).add("rows", patches(std::move(parts)));
  const auto fill = [&](std::int64_t step) {
    std::fill(head.begin(), head.end(), static_cast<std::uint8_t>(step));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(step * 3 + me * 31) + i * 7);
    }
  };
  fill(0);
  CheckpointManager(world, directory.path()).save(0, state);
  CheckpointManager manager(world, directory.path(), options);
  int newest = 0, lost = 0, saves = 0;
  while (saves < most_saves && lost < enough_lost) {
    fill(++saves);
    try {
      manager.save(saves, state);
      newest = saves;
    } catch (const Error& error) {
      ++lost;
      ASSERT_EQ(error.code(), Code::data_loss) << error.what();
      ASSERT_THAT(error.what(), test::Says("are not what rank"));
      ASSERT_THAT(error.what(), HasSubstr(blamed));
      ASSERT_GE(error.rank(), 0);
      require_same(*world, "the error", error.what());
    }
    // The newest committed checkpoint is whole: a restore checks what it reads.
    fill(newest);
    const auto right = rows;
    fill(-1);
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    ASSERT_EQ(report->step, newest);
    ASSERT_TRUE(report->skipped.empty()) << report->skipped.front();
    ASSERT_EQ(rows, right);
  }
  if (me == 0) {
    std::cout << "[ LOST     ] " << world->shared_files()->library() << ", " << size
              << " ranks: bytes of " << lost << " of " << saves << " saves, all reported\n";
  }
}

TEST(MpiLostBytes, AreFoundBeforeTheCommit) {
  const auto size = cat(mpi(MPI_COMM_WORLD)->size());
  save_until_bytes_are_lost({{"cb_nodes", size}}, "the hint cb_nodes=" + size, 60);
}

// OMPIO chooses several aggregators by itself if there are enough ranks (16 by default). A
// parameter of the test run makes these ranks enough.
TEST(MpiLostBytes, AreFoundWhereTheLibraryChooses) {
  save_until_bytes_are_lost({}, "with several aggregators", 30);
}

}  // namespace
}  // namespace cairn
