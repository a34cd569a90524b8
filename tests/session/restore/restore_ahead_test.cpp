// Restores that read files of a disk ahead: a wrong byte is found on all ranks alike, wherever it
// is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/temporary_directory.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/read_faults.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 600, columns = 1000;  // of 8 bytes: 4.6 MiB

ManagerOptions small_chunks(Format format) {
  set_log_sink({});
  ManagerOptions options;
  options.write.chunk_bytes = std::int64_t{1} << 20;
  options.store.format = format;
  return options;
}

double right(std::int64_t row, std::int64_t column) {
  return static_cast<double>(row * columns + column);
}

/// A large tensor cut by rows or columns, and small ones that all ranks hold.
struct Part {
  Part(int rank, int ranks, bool by_columns) : start{0, 0}, extent{rows, columns} {
    const std::int64_t extents[] = {rows, columns};
    const std::size_t cut = by_columns ? 1 : 0;
    start[cut] = extents[cut] * rank / ranks;
    extent[cut] = extents[cut] * (rank + 1) / ranks - start[cut];
    u.assign(static_cast<std::size_t>(extent[0] * extent[1]), -1);
    state.add("u", slice(u.data(), {rows, columns}, start, extent));
    for (std::size_t i = 0; i < small.size(); ++i) {
      small[i].assign(300, -1);
      state.add(cat("small", i), slice(small[i].data(), {300}, {0}, {300}));
    }
  }
  template <class F>
  void each(F&& f) {
    for (std::size_t i = 0; i < u.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      f(u[i], right(start[0] + at / extent[1], start[1] + at % extent[1]));
    }
    for (std::size_t i = 0; i < small.size(); ++i) {
      for (auto& one : small[i]) f(one, static_cast<double>(i));
    }
  }
  void fill() {
    each([](double& value, double should) { value = should; });
  }
  std::size_t wrong() {
    std::size_t count = 0;
    each([&](double& value, double should) { count += value != should; });
    return count;
  }
  std::size_t touched() {
    std::size_t count = 0;
    each([&](double& value, double) { count += value != -1; });
    return count;
  }

  Dims start, extent;
  std::vector<double> u;
  std::array<std::vector<double>, 40> small;
  State state;
};

class RestoreAhead : public testing::TestWithParam<Format> {
 protected:
  ~RestoreAhead() override { test::set_read_fault({}); }

  // Saves on three ranks, in rows. Returns false if this build lacks the format.
  bool save() {
    try {
      run_threads(3, [&](std::shared_ptr<Group> group) {
        Part part(group->rank(), 3, false);
        part.fill();
        CheckpointManager(group, directory_.path(), small_chunks(GetParam())).save(1, part.state);
      });
    } catch (const Error& error) {
      if (error.code() == Code::unsupported) return false;
      throw;
    }
    contents_ = read_contents(*io::posix_file_system(), directory_.path() / "ckpt-1");
    return true;
  }
  fs::path file_of(const Piece& one) const { return data_path(contents_, one.file); }

  // Calls f with places of a slice where a byte may be wrong.
  template <class F>
  void each_place(F&& f) {
    for (const auto& tensor : contents_.tensors) {
      if (tensor.key != "u" && tensor.key != "small0" && tensor.key != "small39") continue;
      for (const auto& one : tensor.slices) {
        const std::int64_t parts = tensor.key == "u" ? 3 : 1;
        for (std::int64_t i = 0; i <= parts; ++i) {
          f(tensor, one, one.offset + (one.stored_bytes - 1) * i / parts);
        }
      }
    }
  }
  static void flip(const fs::path& path, std::int64_t at) {
    const auto file = io::posix_file_system()->open_write(path);
    std::byte byte;
    file->read_at(at, {&byte, 1});
    byte ^= std::byte{16};
    file->write_at(at, {&byte, 1});
    file->sync();
    file->close();
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }

  // Checks that all ranks get the same error, or none, and returns it.
  std::optional<Error> restore(int ranks, bool by_columns, DirectIo mode,
                               bool verify_first = false) {
    std::mutex mutex;
    std::vector<std::optional<Error>> errors(static_cast<std::size_t>(ranks));
    auto options = small_chunks(GetParam());
    options.read_only = true;
    options.restore.verify_first = verify_first;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Part part(group->rank(), ranks, by_columns);
      CheckpointManager manager(group, directory_.path(), options);
      std::optional<Error> error;
      try {
        manager.restore(1, part.state, {.direct_io = mode});
        EXPECT_EQ(part.wrong(), 0u) << "rank " << group->rank();
      } catch (const Error& caught) {
        error = caught;
        if (verify_first) {
          EXPECT_EQ(part.touched(), 0u) << "rank " << group->rank();
        }
      }
      const std::lock_guard guard(mutex);
      errors[static_cast<std::size_t>(group->rank())] = error;
    });
    for (const auto& error : errors) {
      EXPECT_EQ(error.has_value(), errors[0].has_value());
      if (error && errors[0]) {
        EXPECT_STREQ(error->what(), errors[0]->what());
      }
    }
    return errors[0];
  }

  test::TemporaryDirectory directory_{fs::current_path()};
  CheckpointContents contents_;
};
INSTANTIATE_TEST_SUITE_P(Formats, RestoreAhead, testing::Values(Format::bundle, Format::hdf5),
                         [](const auto& info) {
                           return info.param == Format::hdf5 ? "hdf5" : "bundle";
                         });

constexpr DirectIo modes[] = {DirectIo::automatic, DirectIo::on, DirectIo::off};

TEST_P(RestoreAhead, AnyRanksInAnyMode) {
  if (!save()) GTEST_SKIP() << "this build writes no HDF5";
  for (const auto mode : modes) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const bool by_columns : {false, true}) {
        SCOPED_TRACE(cat("mode ", static_cast<int>(mode), ", ", ranks, " ranks"));
        const auto error = restore(ranks, by_columns, mode, ranks == 2);
        EXPECT_FALSE(error) << error->what();
      }
    }
  }
}

TEST_P(RestoreAhead, ADamagedByteIsFoundWhereverItLies) {
  if (!save()) GTEST_SKIP() << "this build writes no HDF5";
  int turn = 0;
  each_place([&](const StoredTensor& tensor, const Piece& one, std::int64_t at) {
    SCOPED_TRACE(cat(tensor.key, ", byte ", at, " of file ", one.file));
    flip(file_of(one), at);
    const auto error = restore(2, turn % 2 == 0, modes[turn % 3], turn % 4 == 0);
    ++turn;
    ASSERT_TRUE(error);
    EXPECT_STREQ(code_name(error->code()), code_name(Code::data_loss));
    EXPECT_EQ(error->tensor(), tensor.key);
    EXPECT_EQ(error->path(), file_of(one).string());
    flip(file_of(one), at);
  });
  EXPECT_GE(turn, 8);
  for (const auto mode : modes) EXPECT_FALSE(restore(2, true, mode));
}

TEST_P(RestoreAhead, WhatADiskDoesNotGiveIsToldToAllRanks) {
  if (!save()) GTEST_SKIP() << "this build writes no HDF5";
  int turn = 0;
  each_place([&](const StoredTensor& tensor, const Piece& one, std::int64_t at) {
    SCOPED_TRACE(cat(tensor.key, ", byte ", at, " of file ", one.file));
    flip(file_of(one), at), flip(file_of(one), at);  // out of the page cache
    const auto path = file_of(one).string();
    // The few bytes that are read to open the checkpoint are left alone.
    test::set_read_fault([&](const test::ReadCall& call) {
      const auto size = static_cast<std::int64_t>(call.bytes);
      const bool hit = call.path == path && call.offset <= at && at < call.offset + size;
      return hit ? std::int64_t{-EIO} : size;
    });
    const auto error = restore(3, turn % 2 == 0, modes[turn % 3]);
    ++turn;
    test::set_read_fault({});
    ASSERT_TRUE(error);
    EXPECT_STREQ(code_name(error->code()), code_name(Code::io));
    EXPECT_EQ(error->tensor(), tensor.key);
    EXPECT_EQ(error->path(), path);
  });
}

}  // namespace
}  // namespace cairn
