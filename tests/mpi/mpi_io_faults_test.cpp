// Faults while ranks share files: all ranks get one error, nothing hangs, and earlier checkpoints
// are whole.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>

#include "base/text.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "mpi/fault_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::FailingFileCall;
using test::LosingWrites;
using ::testing::HasSubstr;

class MpiIoFaults : public test::WriterFaults, public ::testing::TestWithParam<Storage> {
 protected:
  MpiIoFaults() {
    options.write.writer = Writer::mpi_io;
    options.write.mpi_io.files = 2;
    state.store(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Storages, MpiIoFaults, ::testing::Values(Storage::sliced, Storage::dense),
                         [](const auto& info) {
                           return info.param == Storage::dense ? "Dense" : "Sliced";
                         });

TEST_P(MpiIoFaults, ACallFailsOnOneRank) {
  for (const int call : {0, 1, 2}) {
    fail_a_save(Code::io, test::Says("MPI_File_write_at_all failed on"), [&] {
      return last() ? std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_IO, call)
                    : nullptr;
    });
  }
  fail_a_save(Code::no_space, test::Says("MPI_File_write_at_all failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_NO_SPACE)
                  : nullptr;
  });
  fail_a_save(Code::io, test::Says("MPI_File_sync failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_sync") : nullptr;
  });
  fail_a_save(Code::io, test::Says("MPI_File_close failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_close") : nullptr;
  });
}

TEST_P(MpiIoFaults, MemoryFailsInTheMiddle) {
  fail_a_save(Code::io, test::Says("the device is gone"), [&] {
    memory->refuses = last();
    memory->reads = 0;
    return 0;
  });
}

TEST_P(MpiIoFaults, LostBytesAreReported) {
  for (const bool all_lost : {false, true}) {
    options.write.mpi_io.read_back = true;
    options.write.mpi_io.hints = {{"cairn_test", "1"}, {"other", "x"}};
    fail_a_save(Code::data_loss,
                HasSubstr(cat("not what rank ", group->size() - 1, " wrote there")), [&] {
                  const auto lose = [&](int call, int bytes) {
                    return call > 0 ? 0 : all_lost ? bytes : 5;
                  };
                  return last() ? std::make_unique<LosingWrites>(lose) : nullptr;
                });
  }
}

// A write that fails while the library reports success is found without reading everything back.
TEST_P(MpiIoFaults, LostPagesAreFoundUnasked) {
  fail_a_save(Code::data_loss, test::Says("which reported no error"), [&] {
    const auto lose = [&](int call, int bytes) { return call == 0 ? bytes : 0; };
    return last() ? std::make_unique<LosingWrites>(lose) : nullptr;
  });
}

// With hints that are known to be bad, the files are read back unasked, and the message names what
// wrote them.
TEST_P(MpiIoFaults, BadHintsAreReadBackUnasked) {
  options.write.mpi_io.hints = {{"cb_nodes", "1"}};
  const auto doubt = group->shared_files()->doubt(options.write.mpi_io.hints);
  if (doubt.empty()) GTEST_SKIP() << group->shared_files()->library() << " is not known to be bad";
  EXPECT_THAT(doubt, test::Says("is known to lose bytes silently with the hint cb_nodes"));
  EXPECT_EQ(group->shared_files()->doubt({{"cb_buffer_size", "1"}}), "");
  setenv("OMPI_MCA_io_ompio_num_aggregators", "2", 1);
  EXPECT_THAT(group->shared_files()->doubt({}), HasSubstr("OMPI_MCA_io_ompio_num_aggregators"));
  unsetenv("OMPI_MCA_io_ompio_num_aggregators");
  fail_a_save(Code::data_loss, test::Says("the hint cb_nodes=1"), [&] {
    return last() ? std::make_unique<LosingWrites>([](int, int bytes) { return bytes; }) : nullptr;
  });
}

TEST_P(MpiIoFaults, AFileThatCannotBeOpened) {
  ++opened_in_vain;
  fail_a_save(Code::io, test::Says("MPI_File_open failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_open") : nullptr;
  });
}

// Files may not grow beyond a limit, as on a full disk. MPI-IO must not see that: Open MPI 4.1
// reports success, or hangs.
TEST_P(MpiIoFaults, AFileThatCannotGrow) {
  struct Limit {
    rlimit before{};
    Limit() {
      getrlimit(RLIMIT_FSIZE, &before);
      auto now = before;
      now.rlim_cur = 150000;
      setrlimit(RLIMIT_FSIZE, &now);
    }
    ~Limit() { setrlimit(RLIMIT_FSIZE, &before); }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;
  };
  fail_a_save(Code::io, test::Says("File too large"), [] { return std::make_unique<Limit>(); });
}

// Looks at the file of a save while its elements are written to it.
class Witness : public SliceMemory {
 public:
  Witness(std::filesystem::path directory, double* data, Dims extent)
      : directory_(std::move(directory)),
        memory_(host_memory(DType::float64, data, data, std::move(extent), {})) {}
  void read(const Box& part, std::byte* out) const override {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      struct stat status {};
      if (entry.path().filename() != "part.h5") continue;
      ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
      least_bytes = std::min<std::int64_t>(least_bytes, status.st_blocks * 512);
    }
    memory_->read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  bool writable() const override { return true; }
  mutable std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();

 private:
  std::filesystem::path directory_;
  std::shared_ptr<SliceMemory> memory_;
};

// The same as AFileThatCannotGrow: the room is reserved before an MPI library sees the file.
class Hdf5Space : public ::testing::TestWithParam<Writer> {};

TEST_P(Hdf5Space, IsTakenBeforeMpiWrites) {
  if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  const auto group = mpi(MPI_COMM_WORLD);
  ManagerOptions options;
  options.store.format = Format::hdf5;
  options.write.writer = GetParam();
  const test::Directory directory(*group);
  constexpr std::int64_t columns = 300000;
  std::vector<double> row(columns);
  const auto witness = std::make_shared<Witness>(directory.path(), row.data(), Dims{1, columns});
  auto tensor = slice(row.data(), {group->size(), columns}, {group->rank(), 0}, {1, columns});
  tensor.slices.front().memory = witness;
  State state;
  state.add("u", std::move(tensor));
  CheckpointManager manager(group, directory.path(), options);
  manager.save(1, state);
  const auto bytes = group->size() * columns * static_cast<std::int64_t>(sizeof(double));
  ASSERT_LT(witness->least_bytes, std::numeric_limits<std::int64_t>::max()) << "nobody looked";
  EXPECT_GE(witness->least_bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Writers, Hdf5Space,
                         ::testing::Values(Writer::mpi_io, Writer::hdf5_collective),
                         [](const auto& info) {
                           return info.param == Writer::mpi_io ? "MpiIo" : "Collective";
                         });

}  // namespace
}  // namespace cairn
