// Over how many devices a save asks its file system to lay new files: the table in docs/writers.md.
#include <gtest/gtest.h>

#include <mutex>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

struct Asked {
  int devices = 0;
  bool yields = false;
  bool operator==(const Asked&) const = default;
};
void PrintTo(const Asked& asked, std::ostream* out) {
  *out << asked.devices << (asked.yields ? " unless chosen" : "");
}

class Spreading : public io::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  void spread(const io::Path&, int devices, bool yields) override {
    const std::lock_guard guard(mutex_);
    asked_.push_back({devices, yields});
    throw Error(Code::io, "cannot lay out", "only speed depends on it");
  }
  std::vector<Asked> asked() {
    const std::lock_guard guard(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::vector<Asked> asked_;
};

// What the first save by so many ranks asks for.
std::vector<Asked> ask(int ranks, const WriteOptions& write, Format format = Format::bundle) {
  const auto files = std::make_shared<Spreading>(std::make_shared<io::MemoryFileSystem>());
  run_threads(ranks, [&](std::shared_ptr<Group> group) {
    ManagerOptions options;
    options.write = write;
    options.write.file_system = files;
    options.store.format = format;
    double value = group->rank();
    State state;
    state.add("u", slice(&value, {group->size()}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    double restored = -1;
    State other;
    other.add("u", slice(&restored, {group->size()}, {group->rank()}, {1}));
    ASSERT_TRUE(manager.restore_latest(other));
    EXPECT_EQ(restored, group->rank());
  });
  return files->asked();
}

using All = std::vector<Asked>;

TEST(Stripes, FourForEachRankThatWritesDealtOverTheFiles) {
  EXPECT_EQ(ask(1, {}), (All{{4, true}}));
  EXPECT_EQ(ask(3, {}), (All{{4, true}}));
  EXPECT_EQ(ask(20, {}), (All{{3, true}}));
  EXPECT_EQ(ask(20, {.io_ranks = IoRanks::automatic(4)}), (All{{4, true}}));
}

TEST(Stripes, OneFileOfManyRanksIsWide) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  EXPECT_EQ(ask(20, {}, Format::hdf5), (All{{64, true}}));
}

TEST(Stripes, AsTheUserSays) {
  EXPECT_EQ(ask(2, {.stripes = 7}), (All{{7, false}}));
  EXPECT_EQ(ask(2, {.stripes = -1}), All{});
  EXPECT_EQ(ask(2, {.atomic_rename = false}), All{});
  for (const int wrong : {-2, 2001}) {
    EXPECT_THROW(ask(1, {.stripes = wrong}), Error) << wrong;
  }
}

// What three saves by two ranks ask for.
std::vector<Asked> ask_thrice(bool async) {
  const auto files = std::make_shared<Spreading>(std::make_shared<io::MemoryFileSystem>());
  run_threads(2, [&](std::shared_ptr<Group> group) {
    ManagerOptions options;
    options.write.file_system = files;
    double value = group->rank();
    State state;
    state.add("u", slice(&value, {group->size()}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options);
    for (const int step : {1, 2, 3}) {
      if (async) {
        manager.save_async(step, state);
        manager.wait();
      } else {
        manager.save(step, state);
      }
    }
  });
  return files->asked();
}

// For the directory that saves share, stripes are asked for once.
TEST(Stripes, SavesFromOneDirectoryAskOnce) {
  EXPECT_EQ(ask_thrice(false), (All{{4, true}}));
  EXPECT_EQ(ask_thrice(true), (All{{4, true}}));
}

}  // namespace
}  // namespace cairn
