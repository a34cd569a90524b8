// What goes wrong while ranks share files: one error on all ranks, nothing hangs, and what was
// there before is whole.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/log.hpp"
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

class MpiIoFaults : public ::testing::TestWithParam<Storage> {
 protected:
  MpiIoFaults() {
    set_log_sink([](LogLevel, std::string_view) {});
    options.writer = Writer::mpi_io;
    options.mpi_io.files = 2;
    options.chunk_bytes = 65536;
    auto tensor = slice(row.data(), {group->size(), columns}, {group->rank(), 0}, {1, columns});
    tensor.slices.front().memory = memory;
    state.store(GetParam()).add("u", std::move(tensor));
  }
  ~MpiIoFaults() override { set_log_sink({}); }

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
  void fail_a_save(std::optional<Code> code, const Text& text, Break&& broken) {
    const Directory directory(*group);
    CheckpointManager manager(group, directory.path(), options);
    fill(1);
    manager.save(1, state);
    fill(2);
    {
      [[maybe_unused]] const auto holds = broken();
      const auto error = testing::error_of([&] { manager.save(2, state); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), code.value_or(error->code())) << error->what();
      EXPECT_THAT(std::string(error->what()), text);
    }
    memory->refuses = false;
    expect_newest(manager, 1);
    fill(3);
    manager.save(3, state);
    expect_newest(manager, 3);
    const auto calls = testing::file_calls();
    EXPECT_EQ(calls.opened - calls.closed, opened_in_vain);
  }

  std::shared_ptr<Group> group = mpi(MPI_COMM_WORLD);
  std::vector<double> row = std::vector<double>(static_cast<std::size_t>(columns));
  std::shared_ptr<Reluctant> memory = std::make_shared<Reluctant>(row.data(), Dims{1, columns});
  ManagerOptions options;
  State state;
  static inline int opened_in_vain = 0;
};

INSTANTIATE_TEST_SUITE_P(Storages, MpiIoFaults, ::testing::Values(Storage::sliced, Storage::dense),
                         [](const auto& info) {
                           return info.param == Storage::dense ? "Dense" : "Sliced";
                         });

TEST_P(MpiIoFaults, ACallFailsOnOneRank) {
  for (const int call : {0, 1, 2}) {
    fail_a_save(Code::io, HasSubstr("MPI_File_write_at_all failed on"), [&] {
      return last() ? std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_IO, call)
                    : nullptr;
    });
  }
  fail_a_save(Code::no_space, HasSubstr("MPI_File_write_at_all failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_write_at_all", MPI_ERR_NO_SPACE)
                  : nullptr;
  });
  fail_a_save(Code::io, HasSubstr("MPI_File_sync failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_sync") : nullptr;
  });
  fail_a_save(Code::io, HasSubstr("MPI_File_close failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_close") : nullptr;
  });
}

TEST_P(MpiIoFaults, MemoryFailsInTheMiddle) {
  fail_a_save(Code::io, HasSubstr("the device is gone"), [&] {
    memory->refuses = last();
    memory->reads = 0;
    return 0;
  });
}

TEST_P(MpiIoFaults, LostBytesAreReported) {
  for (const bool all_lost : {false, true}) {
    options.mpi_io.read_back = true;
    options.mpi_io.hints = {{"cairn_test", "1"}, {"other", "x"}};
    fail_a_save(Code::data_loss,
                HasSubstr(cat("not what rank ", group->size() - 1, " wrote there")), [&] {
                  const auto lose = [&](int call, int bytes) {
                    return call > 0 ? 0 : all_lost ? bytes : 5;
                  };
                  return last() ? std::make_unique<LosingWrites>(lose) : nullptr;
                });
  }
}

// A write that fails while the library reports success is found without reading all.
TEST_P(MpiIoFaults, LostPagesAreFoundUnasked) {
  fail_a_save(Code::data_loss, HasSubstr("which reported no error"), [&] {
    const auto lose = [&](int call, int bytes) { return call == 0 ? bytes : 0; };
    return last() ? std::make_unique<LosingWrites>(lose) : nullptr;
  });
}

// What is known to be bad is read back unasked, and the message says with what it was written.
TEST_P(MpiIoFaults, BadHintsAreReadBackUnasked) {
  options.mpi_io.hints = {{"cb_nodes", "1"}};
  const auto doubt = group->shared_files()->doubt(options.mpi_io.hints);
  if (doubt.empty()) GTEST_SKIP() << group->shared_files()->library() << " is not known to be bad";
  EXPECT_THAT(doubt, HasSubstr("is known to lose bytes silently with the hint cb_nodes"));
  EXPECT_EQ(group->shared_files()->doubt({{"cb_buffer_size", "1"}}), "");
  setenv("OMPI_MCA_io_ompio_num_aggregators", "2", 1);
  EXPECT_THAT(group->shared_files()->doubt({}), HasSubstr("OMPI_MCA_io_ompio_num_aggregators"));
  unsetenv("OMPI_MCA_io_ompio_num_aggregators");
  fail_a_save(Code::data_loss, HasSubstr("the hint cb_nodes=1"), [&] {
    return last() ? std::make_unique<LosingWrites>([](int, int bytes) { return bytes; }) : nullptr;
  });
}

TEST_P(MpiIoFaults, AFileThatCannotBeOpened) {
  ++opened_in_vain;
  fail_a_save(Code::io, HasSubstr("MPI_File_open failed on"), [&] {
    return last() ? std::make_unique<FailingFileCall>("MPI_File_open") : nullptr;
  });
}

// Files may not grow beyond a limit: as on a full disk. Nothing of that may reach MPI-IO, where
// Open MPI 4.1 reports success, or hangs.
TEST_P(MpiIoFaults, AFileThatCannotGrow) {
  struct Limit {
    rlimit before{};
    Limit() {
      getrlimit(RLIMIT_FSIZE, &before);
      auto now = before;
      now.rlim_cur = 150000;
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &now);
    }
    ~Limit() { setrlimit(RLIMIT_FSIZE, &before); }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;
  };
  fail_a_save(Code::io, HasSubstr("File too large"), [] { return std::make_unique<Limit>(); });
}

}  // namespace
}  // namespace cairn
