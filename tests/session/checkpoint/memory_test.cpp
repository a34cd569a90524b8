// Measures how much memory a save and a restore take beyond the state itself, counted at operator
// new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "io/temporary_directory.hpp"
#include "support/sample_state.hpp"
#include "testing/threads.hpp"

namespace {

thread_local std::int64_t calls_here = 0;

// Counts of the whole process. Relaxed order is enough: values that are compared were counted
// before a barrier.
std::atomic<std::int64_t> bytes_in_use{0}, most_bytes{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++calls_here;
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  const auto got = static_cast<std::int64_t>(malloc_usable_size(memory));
  const auto now = bytes_in_use.fetch_add(got, std::memory_order_relaxed) + got;
  auto most = most_bytes.load(std::memory_order_relaxed);
  while (now > most && !most_bytes.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void give_back(void* memory) noexcept {
  if (!memory) return;
  bytes_in_use.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)),
                         std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// The array forms of the standard library call these. The nothrow form (of std::stable_sort) would,
// too, but AddressSanitizer has its own, which does not.
void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return counted(size, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

namespace cairn {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t chunk = mib;
constexpr Dims::value_type rows = 2048, columns = 4096;  // of 8 bytes: 64 MiB

enum class Layout { rows, columns, all };

Box part_of(Layout layout, int rank, int ranks) {
  Box box = Box::whole({rows, columns});
  if (layout == Layout::all) return box;
  const std::size_t d = layout == Layout::rows ? 0 : 1;
  const auto extent = box.extent[d];
  box.start[d] = extent * rank / ranks;
  box.extent[d] = extent * (rank + 1) / ranks - box.start[d];
  return box;
}

// One rank's part of the tensor, in an array that may have a border of one column on each side.
struct Field {
  std::vector<double> values;
  Box box;
  Dims strides;
  std::int64_t first;
  State state;

  Field(Layout layout, int rank, int ranks, bool border) : box(part_of(layout, rank, ranks)) {
    const auto width = box.extent[1] + (border ? 2 : 0);
    first = border ? 1 : 0;
    strides = {width, 1};
    values.resize(static_cast<std::size_t>(box.extent[0] * width));
    state.add("u", slice(values.data() + first, {rows, columns}, box.start, box.extent, strides));
  }
  static double right(std::int64_t row, std::int64_t column) {
    return static_cast<double>(row * columns + column);
  }
  double& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(first + row * strides[0] + column)];
  }
  void fill() {
    for (std::int64_t i = 0; i < box.extent[0]; ++i) {
      for (std::int64_t j = 0; j < box.extent[1]; ++j) {
        at(i, j) = right(box.start[0] + i, box.start[1] + j);
      }
    }
  }
  std::int64_t wrong() {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < box.extent[0]; ++i) {
      for (std::int64_t j = 0; j < box.extent[1]; ++j) {
        count += at(i, j) != right(box.start[0] + i, box.start[1] + j);
      }
    }
    return count;
  }
};

class Memory : public testing::Test {
 protected:
  Memory() { options_.write.chunk_bytes = chunk; }

  // The most bytes that all ranks together held during the call, beyond those before it.
  template <class F>
  static std::int64_t beyond(Group& group, F&& call) {
    static std::int64_t before;
    group.barrier();
    if (group.rank() == 0) {
      before = bytes_in_use;
      most_bytes = before;
    }
    group.barrier();
    call();
    group.barrier();
    const auto most = most_bytes - before;
    group.barrier();
    return most;
  }

  std::int64_t save(int ranks, Layout layout, bool border, Storage storage = Storage::automatic) {
    std::int64_t most = 0;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Field field(layout, group->rank(), ranks, border);
      field.fill();
      field.state.store(storage);
      CheckpointManager manager(group, directory_.path(), options_);
      const auto bytes = beyond(*group, [&] { manager.save(1, field.state); });
      if (group->rank() == 0) most = bytes;
    });
    return most;
  }

  std::int64_t restore(int ranks, Layout layout, bool border) {
    std::int64_t most = 0;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Field field(layout, group->rank(), ranks, border);
      CheckpointManager manager(group, directory_.path(), options_);
      const auto bytes = beyond(*group, [&] { ASSERT_TRUE(manager.restore_latest(field.state)); });
      if (group->rank() == 0) most = bytes;
      EXPECT_EQ(field.wrong(), 0);
    });
    return most;
  }

  // Plans and messages: they grow with the number of chunks, not with their size.
  static constexpr std::int64_t small_change = mib;
  static std::int64_t chunks(int ranks, int each) { return ranks * each * chunk + small_change; }

  test::TemporaryDirectory directory_;
  ManagerOptions options_;
};

TEST_F(Memory, IsCounted) {
  run_threads(1, [&](std::shared_ptr<Group> group) {
    const auto most = beyond(*group, [] { std::vector<char> some(10 * mib); });
    EXPECT_GE(most, 10 * mib);
    EXPECT_LT(most, 10 * mib + 4096);
  });
}

TEST_F(Memory, ASaveOfContiguousArraysCopiesNothing) {
  EXPECT_LE(save(4, Layout::rows, false), small_change);
}

TEST_F(Memory, ASaveOfStridedArraysPacksPieceByPiece) {
  EXPECT_LE(save(4, Layout::rows, true), chunks(4, 1));
}

TEST_F(Memory, ADenseSaveStagesThreeChunksARank) {
  EXPECT_LE(save(4, Layout::columns, false, Storage::dense), chunks(4, 3));
}

TEST_F(Memory, ADenseSaveOfStridedArraysStagesNoMore) {
  EXPECT_LE(save(3, Layout::columns, true, Storage::dense), chunks(3, 3));
}

TEST_F(Memory, AnIoRankHoldsNoMoreOfOthersThanItsLimit) {
  options_.overwrite = true;
  options_.write.io_ranks = IoRanks::count(1);
  options_.write.io_ranks.memory_bytes = chunk;
  // In addition, each of the other ranks may pack a chunk, and the io rank a piece of its own.
  EXPECT_LE(save(4, Layout::rows, true), chunks(1, 1 + 3 + 1));
  options_.write.io_ranks.memory_bytes = 2 * chunk + chunk / 2;
  EXPECT_LE(save(4, Layout::rows, true), chunks(1, 2 + 3 + 1));
  EXPECT_LE(restore(4, Layout::rows, true), chunks(4, 3));
}

TEST_F(Memory, RestoringTheSameLayoutReservesNoMoreThanForAChunk) {
  save(4, Layout::rows, false);
  EXPECT_LE(restore(4, Layout::rows, false), chunks(4, 2));
}

TEST_F(Memory, RestoringTheSameLayoutIntoABorderStagesAChunk) {
  save(4, Layout::rows, true);
  EXPECT_LE(restore(4, Layout::rows, true), chunks(4, 2));
}

TEST_F(Memory, FourRowsToThreeColumns) {
  save(4, Layout::rows, false);
  EXPECT_LE(restore(3, Layout::columns, false), chunks(3, 4));
}

TEST_F(Memory, ThreeColumnsToFourRowsWithABorder) {
  save(3, Layout::columns, false);
  EXPECT_LE(restore(4, Layout::rows, true), chunks(4, 4));
}

TEST_F(Memory, EverybodyWantsEverything) {
  save(4, Layout::rows, false);
  EXPECT_LE(restore(4, Layout::all, false), chunks(4, 4));
  EXPECT_LE(restore(3, Layout::all, true), chunks(3, 4));
}

TEST_F(Memory, VerifyingFirstCostsNoMore) {
  options_.restore.verify_first = true;
  save(4, Layout::rows, false);
  EXPECT_LE(restore(3, Layout::columns, true), chunks(3, 4));
}

TEST_F(Memory, ConvertingIsDoneByPieces) {
  save(4, Layout::rows, false);
  run_threads(3, [&](std::shared_ptr<Group> group) {
    const auto box = part_of(Layout::columns, group->rank(), 3);
    std::vector<float> values(static_cast<std::size_t>(box.count()));
    State state;
    state.add("u", slice(values.data(), {rows, columns}, box.start, box.extent));
    CheckpointManager manager(group, directory_.path(), options_);
    const RestoreOptions round{.convert = Conversion::round};
    const auto most = beyond(*group, [&] { ASSERT_TRUE(manager.restore_latest(state, round)); });
    EXPECT_LE(most, chunks(3, 4));
    EXPECT_EQ(values.back(), static_cast<float>(Field::right(rows - 1, box.end(1) - 1)));
  });
}

TEST_F(Memory, AnAsynchronousSaveOfTheSameStructureAllocatesNothingBeforeItReturns) {
  std::int64_t step = 1;
  std::vector<double> u(10'000, 1), v(12 * 10, 2);
  State state;
  state.add("step", step).add("u", u);
  state.add("v", slice(v.data() + 13, {8, 10}, {0, 0}, {8, 10}, {12, 1}));
  CheckpointManager manager(serial_group(), directory_.path(), options_);
  manager.save_async(1, state);
  manager.wait();
  for (step = 2; step < 6; ++step) {
    const auto calls = calls_here;
    manager.save_async(step, state);
    EXPECT_EQ(calls_here - calls, 0) << "step " << step;
    manager.wait();
  }
  EXPECT_GT(calls_here, 0);
}

TEST_F(Memory, AnAsynchronousSaveHoldsItsPoolAndLittleMore) {
  for (const int ranks : {1, 3}) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Field field(Layout::rows, group->rank(), ranks, false);
      CheckpointManager manager(group, directory_.path() / std::to_string(ranks), options_);
      manager.save_async(1, field.state);
      manager.wait();
      const auto most = beyond(*group, [&] {
        manager.save_async(2, field.state);
        manager.wait();
      });
      EXPECT_LE(most, small_change);  // pages of the pool do not come from operator new
    });
  }
}

}  // namespace
}  // namespace cairn
