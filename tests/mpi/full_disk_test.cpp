// A real disk that is full: a small tmpfs, which another program fills before any operation of a
// save. All ranks get one error, the older checkpoint is whole, and the next save succeeds once
// there is room again.
#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <numeric>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/log.hpp"
#include "io/file_system.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"

namespace cairn {
namespace {

// A tmpfs that rank 0 mounts for all processes.
class SmallDisk {
 public:
  explicit SmallDisk(Group& group) : group_(group), place_(group) {
    why_not = from_root(group, [&]() -> std::string {
      if (::mount("cairn-test", path().c_str(), "tmpfs", 0, "size=12m") == 0) return "";
      return cat("a small tmpfs cannot be mounted: ", ::strerror(errno));
    });
  }
  ~SmallDisk() {
    group_.barrier();
    if (group_.rank() == 0 && why_not.empty()) ::umount2(path().c_str(), MNT_DETACH);
    group_.barrier();
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  const std::filesystem::path& path() const { return place_.path(); }

  void fill() const {
    const int file = ::open(other().c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ASSERT_GE(file, 0);
    const std::string some(4096, 'x');
    while (::write(file, some.data(), some.size()) > 0) {
    }
    ASSERT_EQ(errno, ENOSPC);
    ::close(file);
  }
  void free() const { ::unlink(other().c_str()); }

  std::string why_not;

 private:
  std::filesystem::path other() const { return path() / "somebody-elses"; }
  Group& group_;
  test::Directory place_;
};

// Calls a function before each operation on it.
class WatchedFiles final : public io::FileSystem {
 public:
  explicit WatchedFiles(std::function<void()> tell) : tell_(std::move(tell)) {}
  std::unique_ptr<io::File> create(const io::Path& path) override {
    tell_();
    return std::make_unique<File>(tell_, files_->create(path));
  }
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    return files_->open_read(path);
  }
  std::unique_ptr<io::File> open_write(const io::Path& path) override {
    tell_();
    return std::make_unique<File>(tell_, files_->open_write(path));
  }
  void rename(const io::Path& from, const io::Path& to) override {
    tell_();
    files_->rename(from, to);
  }
  bool try_link(const io::Path& from, const io::Path& to) override {
    tell_();
    return files_->try_link(from, to);
  }
  void remove(const io::Path& path) override { files_->remove(path); }
  void create_directory(const io::Path& path) override {
    tell_();
    files_->create_directory(path);
  }
  void remove_directory(const io::Path& path) override { files_->remove_directory(path); }
  std::vector<std::string> list(const io::Path& path) override { return files_->list(path); }
  std::optional<io::Status> status(const io::Path& path) override { return files_->status(path); }
  void sync_directory(const io::Path& path) override {
    tell_();
    files_->sync_directory(path);
  }
  std::int64_t free_bytes(const io::Path& directory) override {
    tell_();
    return files_->free_bytes(directory);
  }
  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    return files_->try_lock(path);
  }

 private:
  class File final : public io::File {
   public:
    File(const std::function<void()>& tell, std::unique_ptr<io::File> file)
        : tell_(tell), file_(std::move(file)) {}
    void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
      tell_();
      file_->write_at(offset, bytes);
    }
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
      file_->read_at(offset, bytes);
    }
    std::int64_t size() const override { return file_->size(); }
    void resize(std::int64_t bytes) override {
      tell_();
      file_->resize(bytes);
    }
    void reserve(std::int64_t bytes) override {
      tell_();
      file_->reserve(bytes);
    }
    std::int64_t next_hole(std::int64_t from) const override { return file_->next_hole(from); }
    void sync() override {
      tell_();
      file_->sync();
    }
    void close() override { file_->close(); }

   private:
    const std::function<void()>& tell_;
    std::unique_ptr<io::File> file_;
  };

  std::function<void()> tell_;
  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
};

// Memory that calls a function when it is read.
class WatchedMemory final : public SliceMemory {
 public:
  WatchedMemory(double* data, Dims extent, std::function<void()> tell)
      : memory_(host_memory(DType::float64, data, data, std::move(extent), {})),
        tell_(std::move(tell)) {}
  void read(const Box& part, std::byte* out) const override {
    tell_();
    memory_->read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  bool writable() const override { return true; }

 private:
  std::shared_ptr<SliceMemory> memory_;
  std::function<void()> tell_;
};

using Way = std::pair<Format, Writer>;

class FullDisk : public ::testing::TestWithParam<Way> {
 protected:
  FullDisk() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~FullDisk() override { set_log_sink({}); }
  void fill_row(std::int64_t step) {
    std::iota(row_.begin(), row_.end(), static_cast<double>(1000000 * step + group_->rank()));
  }
  void expect_newest(CheckpointManager& manager, std::int64_t step) {
    fill_row(step);
    const auto right = row_;
    std::fill(row_.begin(), row_.end(), -1.0);
    const auto report = manager.restore_latest(state_);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, step);
    EXPECT_EQ(row_, right);
  }

  std::shared_ptr<Group> group_ = mpi(MPI_COMM_WORLD);
  std::vector<double> row_ = std::vector<double>(20000);
  State state_;
};

TEST_P(FullDisk, BeforeAnyOperationOfASave) {
  const auto [format, writer] = GetParam();
  if (format == Format::hdf5 && !hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  const SmallDisk disk(*group_);
  if (!disk.why_not.empty()) GTEST_SKIP() << disk.why_not;
  // Rank 0 counts the operations, and the reads of its own memory. Before operation fill_before
  // (from 0) the disk is filled; -1: never. Another thread writes the state file while the next
  // save begins, so nothing fills the disk once fill_before is reset.
  std::mutex counting;
  int operations = 0, fill_before = -1;
  const auto count = [&](int from, int fill_at) {
    const std::lock_guard lock(counting);
    operations = from;
    fill_before = fill_at;
  };
  const auto tell = [&] {
    const std::lock_guard lock(counting);
    if (group_->rank() == 0 && operations++ == fill_before) disk.fill();
  };
  ManagerOptions options;
  options.write.file_system = std::make_shared<WatchedFiles>(tell);
  options.store.format = format;
  options.write.writer = writer;
  options.write.chunk_bytes = 65536;
  options.keep.last = 2;
  const Dims whole{group_->size(), std::ssize(row_)}, extent{1, std::ssize(row_)};
  auto tensor = slice(row_.data(), whole, {group_->rank(), 0}, extent);
  tensor.slices.front().memory = std::make_shared<WatchedMemory>(row_.data(), extent, tell);
  std::vector<std::string> words{"two", "words"};
  state_.add("u", std::move(tensor)).add("words", words);
  auto owner = std::make_unique<CheckpointManager>(group_, disk.path() / "run", options);
  auto& manager = *owner;
  fill_row(1);
  manager.save(1, state_);
  count(0, -1);
  fill_row(2);
  manager.save(2, state_);
  const auto so_far = [&] {
    const std::lock_guard lock(counting);
    return operations;
  };
  const auto all = static_cast<int>(broadcast_value(*group_, so_far()));
  ASSERT_GT(all, 10);

  std::int64_t newest = 2;
  int failed = 0;
  for (int before = 0; before < all; ++before) {
    SCOPED_TRACE(cat("full before operation ", before, " of ", all));
    const auto step = newest + 1;
    fill_row(step);
    count(0, before);
    const auto error = test::error_of([&] { manager.save(step, state_); });
    count(0, -1);
    const auto texts =
        all_gather(*group_, error ? cat(code_name(error->code()), ": ", error->what()) : "");
    EXPECT_THAT(texts, ::testing::Each(texts.front()));
    if (error) {
      EXPECT_EQ(error->code(), Code::no_space) << error->what();
      ++failed;
    } else {
      newest = step;  // it had all that it needed
    }
    expect_newest(manager, newest);
    EXPECT_LE(manager.steps().size(), 3u) << "old ones stay on a full disk";
    group_->barrier();
    if (group_->rank() == 0) disk.free();
    group_->barrier();
    if (error) {
      fill_row(step);
      manager.save(step, state_);
      newest = step;
      expect_newest(manager, newest);
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(failed, 3);
  owner.reset();
  // A new manager finds just these steps, and nothing of a failed save.
  CheckpointManager again(group_, disk.path() / "run", options);
  std::vector<std::int64_t> steps;
  for (const auto& info : again.steps()) steps.push_back(info.step);
  EXPECT_THAT(steps, ::testing::ElementsAre(newest - 1, newest));
  expect_newest(again, newest);
}

TEST_P(FullDisk, BeforeAJobBegins) {
  const auto [format, writer] = GetParam();
  if (writer != Writer::posix) GTEST_SKIP() << "it is rank 0 that begins";
  if (format == Format::hdf5 && !hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  const SmallDisk disk(*group_);
  if (!disk.why_not.empty()) GTEST_SKIP() << disk.why_not;
  ManagerOptions options;
  options.store.format = format;
  options.write.writer = writer;
  options.keep.last = 0;
  const Dims whole{group_->size(), std::ssize(row_)}, extent{1, std::ssize(row_)};
  state_.add("u", slice(row_.data(), whole, {group_->rank(), 0}, extent));
  const auto job = [&](const std::function<void(CheckpointManager&)>& body) {
    CheckpointManager manager(group_, disk.path() / "run", options);
    body(manager);
  };
  const auto save = [&](CheckpointManager& manager, std::int64_t step) {
    fill_row(step);
    manager.save(step, state_);
  };
  job([&](auto& manager) {
    save(manager, 1);
    save(manager, 2);
  });
  if (group_->rank() == 0) disk.fill();
  group_->barrier();
  for (const bool first : {true, false}) {
    job([&](auto& manager) {
      expect_newest(manager, 2);
      if (first) manager.pin(1);
      EXPECT_TRUE(manager.steps().front().pinned);
      const auto error = test::error_of([&] { save(manager, 3); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::no_space) << error->what();
    });
  }
  if (group_->rank() == 0) disk.free();
  group_->barrier();
  job([&](auto& manager) {
    save(manager, 3);
    expect_newest(manager, 3);
  });
}

std::string name_of(const ::testing::TestParamInfo<Way>& info) {
  const auto [format, writer] = info.param;
  const char* by = writer == Writer::posix ? "Posix" : writer == Writer::mpi_io ? "MpiIo" : "";
  return cat(format == Format::hdf5 ? "Hdf5" : "Bundle", *by ? by : "Collective");
}
INSTANTIATE_TEST_SUITE_P(Ways, FullDisk,
                         ::testing::Values(Way{Format::bundle, Writer::posix},
                                           Way{Format::bundle, Writer::mpi_io},
                                           Way{Format::hdf5, Writer::posix},
                                           Way{Format::hdf5, Writer::mpi_io},
                                           Way{Format::hdf5, Writer::hdf5_collective}),
                         name_of);

}  // namespace
}  // namespace cairn
