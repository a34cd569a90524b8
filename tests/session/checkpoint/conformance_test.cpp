// The conformance suite on ranks of one process: threads on a disk in memory and on a real one, and
// a single rank without any.
#include <filesystem>

#include "io/temporary_directory.hpp"
#include "support/conformance.hpp"
#include "testing/threads.hpp"
#ifdef CAIRN_CONFORMANCE_HDF5
#include "support/dataset_group.hpp"
#endif
#include "support/bucket_server.hpp"
#include "support/rounds.hpp"
#include "support/sharing_group.hpp"

namespace cairn::test {
namespace {

class OneProcess : public Launcher {
 public:
  explicit OneProcess(const Combination& combination) : needs_(combination.needs) {}
  void once(const std::function<void()>& function) override { function(); }

 protected:
  // Gives thread ranks what processes have of MPI-IO and parallel HDF5.
  std::shared_ptr<Group> with_files(std::shared_ptr<Group> group) {
#ifdef CAIRN_CONFORMANCE_HDF5
    if (needs_ & shared_datasets) {
      return std::make_shared<DatasetGroup>(std::move(group), files());
    }
#endif
    if (!(needs_ & shared_files)) return group;
    return std::make_shared<SharingGroup>(std::move(group), files());
  }

 private:
  unsigned needs_;
};

class InMemory : public OneProcess {
 public:
  using OneProcess::OneProcess;
  void new_disk() override { disk_ = std::make_shared<io::MemoryFileSystem>(); }
  std::shared_ptr<io::FileSystem> files() override { return disk_; }
  std::filesystem::path directory() override { return "/run"; }
  io::MemoryFileSystem* memory() override { return disk_.get(); }

 private:
  std::shared_ptr<io::MemoryFileSystem> disk_;
};

// The number of the run decides in which order the threads go on.
class ThreadsInMemory : public InMemory {
 public:
  using InMemory::InMemory;
  void run(int ranks, const test::RankBody& body) override {
    run_threads(ranks, [&](auto group) { body(with_files(group)); },
                {.seed = ++seed_, .ranks_per_node = 2});
  }
  std::vector<int> counts() const override {
    if (sanitized) return {3};
    return {1, 3, 7};
  }
  std::vector<std::pair<int, int>> pairs() const override {
    if (sanitized) return {{1, 3}, {5, 2}};
    std::vector<std::pair<int, int>> all;
    for (int n = 1; n <= 7; ++n) {
      for (int m = 1; m <= 7; ++m) all.emplace_back(n, m);
    }
    return all;
  }
  unsigned rounds() const override { return sanitized ? 1 : 8; }

 private:
  unsigned seed_ = 0;
};

// All threads run at once, on files of the operating system.
class ThreadsOnFiles : public OneProcess {
 public:
  using OneProcess::OneProcess;
  void new_disk() override { disk_ = std::make_unique<TemporaryDirectory>(place_for_files()); }
  std::shared_ptr<io::FileSystem> files() override { return io::posix_file_system(); }
  std::filesystem::path directory() override { return disk_->path(); }
  void run(int ranks, const test::RankBody& body) override {
    run_threads(ranks, [&](auto group) { body(with_files(group)); });
  }
  std::vector<int> counts() const override { return {3}; }
  std::vector<std::pair<int, int>> pairs() const override {
    if (sanitized) return {{3, 2}};
    return {{3, 5}, {6, 2}, {7, 7}};
  }
  unsigned rounds() const override { return 1; }

 private:
  std::unique_ptr<TemporaryDirectory> disk_;
};

// The same on a store that has no files.
class ThreadsInABucket : public ThreadsInMemory {
 public:
  using ThreadsInMemory::ThreadsInMemory;
  // Files of dense tensors have several parts.
  void new_disk() override { files_ = std::make_shared<BucketServer>()->files(16384); }
  std::shared_ptr<io::FileSystem> files() override { return files_; }
  io::MemoryFileSystem* memory() override { return nullptr; }
  std::vector<int> counts() const override { return {3}; }
  std::vector<std::pair<int, int>> pairs() const override { return {{3, 5}, {6, 2}}; }
  unsigned rounds() const override { return 1; }

 private:
  std::shared_ptr<BucketFiles> files_;
};

class Serial : public InMemory {
 public:
  using InMemory::InMemory;
  void run(int ranks, const test::RankBody& body) override {
    ASSERT_EQ(ranks, 1);
    body(with_files(serial_group()));
  }
  std::vector<int> counts() const override { return {1}; }
  std::vector<std::pair<int, int>> pairs() const override {
    return std::vector<std::pair<int, int>>(sanitized ? 2 : 8, {1, 1});
  }
  unsigned rounds() const override { return sanitized ? 1 : 4; }
};

template <class T>
LauncherKind kind(const char* name) {
  return {name, shared_files | shared_datasets | codecs,
          [](const Combination& one) { return std::make_unique<T>(one); }};
}

}  // namespace

std::vector<LauncherKind> launcher_kinds() {
  return {kind<ThreadsInMemory>("threads_in_memory"),
          kind<ThreadsOnFiles>("threads_on_files"),
          kind<Serial>("one_rank"),
          {"threads_in_a_bucket", nothing_special, kind<ThreadsInABucket>("").make, false}};
}

}  // namespace cairn::test
