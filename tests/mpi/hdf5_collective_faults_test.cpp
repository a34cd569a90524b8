// What goes wrong while ranks write through HDF5: one error on all ranks, nothing hangs or leaks,
// and what was there before is whole.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <filesystem>
#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/log.hpp"
#include "format/hdf5/library.hpp"
#include "mpi/file_fakes.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"
#include "support/reluctant.hpp"

namespace cairn {
namespace {

using test::Directory;
using test::Reluctant;
using testing::FailingFileCall;
using ::testing::HasSubstr;
using testing::LosingWrites;

constexpr std::int64_t columns = 30000;

class Hdf5CollectiveFaults : public ::testing::Test {
 protected:
  Hdf5CollectiveFaults() {
    set_log_sink([](LogLevel, std::string_view) {});
    options.format = Format::hdf5;
    options.writer = Writer::hdf5_collective;
    options.chunk_bytes = 65536;
    auto tensor = slice(row.data(), {group->size(), columns}, {group->rank(), 0}, {1, columns});
    tensor.slices.front().memory = memory;
    state.add("u", std::move(tensor)).add("words", words);
  }
  ~Hdf5CollectiveFaults() override { set_log_sink({}); }

  bool last() const { return group->rank() + 1 == group->size(); }
  void fill(std::int64_t step) {
    std::iota(row.begin(), row.end(), static_cast<double>(1000000 * step + group->rank()));
  }
  void expect_newest(CheckpointManager& manager, std::int64_t step) {
    fill(step);
    const auto right = row;
    std::fill(row.begin(), row.end(), -1.0);
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, step);
    EXPECT_EQ(row, right);
  }

  // A good save, one that fails, another good one. The middle runs with what `broken` returns.
  template <class Text, class Break>
  void fail_a_save(Code code, const Text& text, Break&& broken) {
    const Directory directory(*group);
    CheckpointManager manager(group, directory.path(), options);
    fill(1);
    manager.save(1, state);
    fill(2);
    {
      [[maybe_unused]] const auto holds = broken();
      const auto error = testing::error_of([&] { manager.save(2, state); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), code) << error->what();
      EXPECT_THAT(std::string(error->what()), text);
    }
    memory->refuses = false;
    expect_newest(manager, 1);
    if (group->rank() == 0) {
      EXPECT_FALSE(std::filesystem::exists(directory.path() / "ckpt-2.h5"));
    }
    fill(3);
    manager.save(3, state);
    expect_newest(manager, 3);
    const auto calls = testing::file_calls();
    EXPECT_EQ(calls.opened, calls.closed);
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
    EXPECT_EQ(hdf5::Handle::open_count(), 0);
  }

  std::shared_ptr<Group> group = mpi(MPI_COMM_WORLD);
  std::vector<double> row = std::vector<double>(static_cast<std::size_t>(columns));
  std::vector<std::string> words{"two", "words"};
  std::shared_ptr<Reluctant> memory = std::make_shared<Reluctant>(row.data(), Dims{1, columns});
  ManagerOptions options;
  State state;
};

TEST_F(Hdf5CollectiveFaults, MemoryFailsInTheMiddle) {
  fail_a_save(Code::io, HasSubstr("the device is gone"), [&] {
    memory->refuses = last();
    memory->reads = 0;
    return 0;
  });
}

// On all of them: where one fails alone, libhdf5 leaves the others waiting.
TEST_F(Hdf5CollectiveFaults, AWriteFails) {
  for (const int call : {0, 1, 2}) {
    SCOPED_TRACE(call);
    const auto before = testing::file_calls().written;
    fail_a_save(Code::io, HasSubstr("dataset 'u' cannot be written to"), [&] {
      return std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_IO, call);
    });
    // HDF5 did write collectively.
    EXPECT_GT(testing::file_calls().written, before);
  }
}

TEST_F(Hdf5CollectiveFaults, FlushFailsOnOneRank) {
  fail_a_save(Code::io, HasSubstr("cannot be flushed"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_sync") : nullptr;
  });
}

TEST_F(Hdf5CollectiveFaults, LostBytesAreReported) {
  options.mpi_io.read_back = true;
  for (const bool all_lost : {false, true}) {
    fail_a_save(Code::data_loss,
                HasSubstr(cat("not what rank ", group->size() - 1, " wrote there")), [&] {
                  const auto lose = [&](int call, int bytes) {
                    return call > 0 ? 0 : all_lost ? bytes : 5;
                  };
                  return last() ? std::make_unique<LosingWrites>(lose) : nullptr;
                });
  }
}

TEST_F(Hdf5CollectiveFaults, BadHintsAreReadBackUnasked) {
  options.mpi_io.hints = {{"cb_nodes", "1"}};
  if (group->shared_files()->doubt(options.mpi_io.hints).empty()) {
    GTEST_SKIP() << group->shared_files()->library() << " is not known to be bad";
  }
  fail_a_save(Code::data_loss, HasSubstr("the hint cb_nodes=1"), [&] {
    return last() ? std::make_unique<LosingWrites>([](int, int bytes) { return bytes; }) : nullptr;
  });
}

}  // namespace
}  // namespace cairn
