// Faults while ranks write through HDF5: all ranks get one error, nothing hangs or leaks, and
// earlier checkpoints are whole.
#include <hdf5.h>

#include "base/text.hpp"
#include "layout/hdf5/library.hpp"
#include "mpi/fault_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::FailingFileCall;
using test::LosingWrites;
using ::testing::HasSubstr;

class Hdf5CollectiveFaults : public test::WriterFaults, public ::testing::Test {
 protected:
  Hdf5CollectiveFaults() {
    options.store.format = Format::hdf5;
    options.write.writer = Writer::hdf5_collective;
    state.add("words", words);
  }
  void TearDown() override {
    EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
    EXPECT_EQ(hdf5::Handle::open_count(), 0);
  }

  std::vector<std::string> words{"two", "words"};
};

TEST_F(Hdf5CollectiveFaults, MemoryFailsInTheMiddle) {
  fail_a_save(Code::io, test::Says("the device is gone"), [&] {
    memory->refuses = last();
    memory->reads = 0;
    return 0;
  });
}

// The write fails on all ranks: if it failed on one alone, libhdf5 would leave the others waiting
// (lost_rank_test.cpp).
TEST_F(Hdf5CollectiveFaults, AWriteFails) {
  for (const int call : {0, 1, 2}) {
    SCOPED_TRACE(call);
    const auto before = test::file_calls().written;
    fail_a_save(Code::io, test::Says("dataset 'u' cannot be written to"), [&] {
      return std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_IO, call);
    });
    // HDF5 did write collectively before.
    EXPECT_GT(test::file_calls().written, before);
  }
}

TEST_F(Hdf5CollectiveFaults, FlushFailsOnOneRank) {
  fail_a_save(Code::io, test::Says("cannot be flushed"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_sync") : nullptr;
  });
}

TEST_F(Hdf5CollectiveFaults, LostBytesAreReported) {
  options.write.mpi_io.read_back = true;
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
  options.write.mpi_io.hints = {{"cb_nodes", "1"}};
  if (group->shared_files()->doubt(options.write.mpi_io.hints).empty()) {
    GTEST_SKIP() << group->shared_files()->library() << " is not known to be bad";
  }
  fail_a_save(Code::data_loss, test::Says("the hint cb_nodes=1"), [&] {
    return last() ? std::make_unique<LosingWrites>([](int, int bytes) { return bytes; }) : nullptr;
  });
}

}  // namespace
}  // namespace cairn
