// Dense tensors and HDF5 files in saves that leave the state where it is until release(): runs that
// lie in one slice of the rank that writes them stay, the others are copied at the call.
#include <array>
#include <thread>

#include "layout/hdf5/lay_out.hpp"
#include "session/save/window_kit.hpp"
#include "support/run_lengths.hpp"

namespace cairn {
namespace {

using test::Says;

class WindowDense : public test::Windows {
 protected:
  // Calls body(storage) for each kind of save whose tensors are dense.
  template <class F>
  void kinds(F&& body) {
    {
      SCOPED_TRACE("dense");
      body(Storage::dense);
    }
    if (!hdf5::available()) return;
    SCOPED_TRACE("HDF5");
    const auto before = options_;
    options_.store.format = Format::hdf5;
    if (GetParam() == 2) options_.store.codec = StoreCodec::deflate;
    body(Storage::automatic);
    options_ = before;
  }
};

TEST_P(WindowDense, ReleaseAtEachPointSavesTheStep) {
  kinds([&](Storage storage) {
    for (const auto rows : {few, many}) {
      std::size_t k = 0;
      const Act release = [](Ranks& rank, const SaveHandle& handle) {
        handle.release();
        rank.mine.spoil();
      };
      const Act check = [&](Ranks& rank, const SaveHandle& handle) {
        SCOPED_TRACE(cat(rows, " rows, released at operation ", k));
        rank.manager.wait();
        EXPECT_TRUE(handle.committed());
        EXPECT_EQ(handle.blocked_because(), "");
        EXPECT_EQ(rank.latest(), 4);
      };
      while (act_at(k, rows, release, check, storage)) ++k;
      EXPECT_GT(k, 5u);
    }
  });
}

TEST_P(WindowDense, AChangeAtEachPointIsFoundOrComesTooLateToMatter) {
  const std::vector<std::string> keys{"a", "halo"};
  kinds([&](Storage storage) {
    int failed = 0, saved = 0;
    for (std::size_t tensor = 0; tensor < keys.size(); ++tensor) {
      std::size_t k = 0;
      const Act change = [&](Ranks& rank, const SaveHandle&) {
        auto& values = *std::array{&rank.mine.a, &rank.mine.halo}[tensor];
        values[1] += 1;
      };
      const Act check = [&](Ranks& rank, const SaveHandle& handle) {
        SCOPED_TRACE(cat(keys[tensor], " changed at operation ", k));
        bool fails = false;
        try {
          rank.manager.wait();
        } catch (const Error& error) {
          fails = true;
          EXPECT_EQ(error.code(), Code::invalid_argument);
          EXPECT_EQ(error.tensor(), keys[tensor]);
          EXPECT_THAT(error.what(), Says("has changed while it was saved"));
        }
        EXPECT_EQ(handle.committed(), !fails);
        if (rank.group->rank() == 0) ++(fails ? failed : saved);
        EXPECT_EQ(rank.latest(), fails ? 3 : 4);
      };
      while (act_at(k, few, change, check, storage)) ++k;
    }
    EXPECT_GT(failed, 1);
    EXPECT_GT(saved, 5);
  });
}

TEST_P(WindowDense, OnlyWhatTravelsTakesMemory) {
  options_.async.queue = inline_queue();  // the whole save is written within the call
  kinds([&](Storage storage) {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    windows(
        many,
        [&](Ranks& rank) {
          for (int step = 1; step <= 4; ++step) {
            const auto handle = rank.start(step);
            handle.release();
            rank.mine.spoil();
            rank.manager.wait();
            EXPECT_TRUE(handle.committed());
          }
          // The least that a pool has; what this rank writes has 3.9 MB.
          EXPECT_LE(rank.manager.statistics().pool_bytes, 2 << 20);
          EXPECT_EQ(rank.latest(), 4);
        },
        storage);
  });
}

// A replaced save ends its window, however far it is.
TEST_P(WindowDense, AReplacedSaveLetsGo) {
  options_.async.when_busy = WhenBusy::replace;
  kinds([&](Storage storage) {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    windows(
        many,
        [&](Ranks& rank) {
          for (int step = 1; step <= 10; ++step) {
            const auto handle = rank.start(step);
            rank.manager.save_async(100 + step, rank.mine.state, {.until = Until::released})
                .release();
            rank.mine.spoil();
            handle.release();
          }
          rank.manager.wait();
          rank.mine.spoil();
          EXPECT_EQ(rank.manager.restore_latest(rank.mine.state)->step, 110);
          EXPECT_EQ(rank.mine.seen(*rank.group), 10);
        },
        storage);
  });
}

// Each rank has columns, so that each run has parts of all ranks: the state may change at once, and
// the handle says why.
TEST_P(WindowDense, ATensorOfWhichAllTravelsIsCopiedAtTheCall) {
  if (GetParam() == 1) return;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    const std::int64_t rows = 4000, width = 50;
    const Dims shape{rows, group->size() * width};
    std::vector<double> first(static_cast<std::size_t>(rows * width)), second = first,
                                                                       halves = first;
    State state;
    state.store(Storage::dense);
    const Dims start{0, group->rank() * width};
    state.add("columns", slice(first.data(), shape, start, {rows, width}));
    state.add("more columns", slice(second.data(), shape, start, {rows, width}));
    state.add("rows", slice(halves.data(), {group->size() * rows, width}, {group->rank() * rows, 0},
                            {rows, width}));
    CheckpointManager manager(group, "/run", options_);
    const auto set = [&](double value) {
      first.assign(first.size(), value);
      second.assign(second.size(), value + 0.5);
    };
    for (int step = 1; step <= 3; ++step) {
      set(step);
      halves.assign(halves.size(), step);
      const auto handle = manager.save_async(step, state, {.until = Until::released});
      EXPECT_THAT(handle.blocked_because(),
                  testing::AllOf(Says("tensor 'columns' and others are copied at the call: "),
                                 Says("each of its runs has parts of several ranks or slices")));
      set(-1);
      handle.release();
      halves.assign(halves.size(), -1);
      manager.wait();
      EXPECT_TRUE(handle.committed());
      manager.restore(step, state);
      EXPECT_EQ(first, std::vector<double>(first.size(), step));
      EXPECT_EQ(second, std::vector<double>(second.size(), step + 0.5));
      EXPECT_EQ(halves, std::vector<double>(halves.size(), step));
    }
  });
}

// Whatever is stored how: small slices and captured tensors are the application's after the call.
TEST_P(WindowDense, WhatIsSmallOrCapturedMayChangeAtOnce) {
  const auto body = [&](Storage storage) {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      const std::int64_t size = 30'000;
      std::vector<double> small(500), captured(static_cast<std::size_t>(size)), stays = captured;
      State state;
      state.store(storage);
      for (auto [key, values] :
           {std::pair{"small", &small}, {"captured", &captured}, {"stays", &stays}}) {
        const auto mine = std::ssize(*values);
        auto tensor = slice(values->data(), {group->size() * mine}, {group->rank() * mine}, {mine});
        tensor.captured = values == &captured;
        state.add(key, tensor);
      }
      auto options = options_;
      const auto queue = std::make_shared<test::HeldTasks>();
      options.async.queue = queue;
      CheckpointManager manager(group, "/run", options);
      const auto set = [](std::vector<double>& values, double to) {
        values.assign(values.size(), to);
      };
      for (int step = 1; step <= 3; ++step) {
        set(small, step), set(captured, step + 0.25), set(stays, step + 0.5);
        queue->is_held = true;  // nothing is written before the release
        const auto handle = manager.save_async(step, state, {.until = Until::released});
        set(small, -1), set(captured, -1);
        handle.release();
        set(stays, -1);
        queue->is_held = false;
        queue->drain();
        manager.wait();
        manager.restore(step, state);
        EXPECT_EQ(small, std::vector<double>(small.size(), step));
        EXPECT_EQ(captured, std::vector<double>(captured.size(), step + 0.25));
        EXPECT_EQ(stays, std::vector<double>(stays.size(), step + 0.5));
      }
    });
  };
  body(Storage::automatic);
  kinds(body);
}

// Memory that only the thread that saves reads, as that of a device.
class OtherMemory : public SliceMemory {
 public:
  explicit OtherMemory(std::vector<double>& values)
      : host_(host_memory(DType::float64, values.data(), values.data(),
                          {static_cast<std::int64_t>(values.size())}, {})) {}
  void read(const Box& part, std::byte* out) const override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    std::as_const(*host_).read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { host_->write(part, in); }
  bool writable() const override { return true; }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<SliceMemory> host_;
};

TEST_P(WindowDense, MemoryThatOneThreadReadsIsCopiedAtTheCall) {
  for (const auto storage : {Storage::automatic, Storage::dense}) {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      const std::int64_t size = 300'000;
      std::vector<double> device(static_cast<std::size_t>(size)), host = device;
      State state;
      state.store(storage);
      for (auto* values : {&device, &host}) {
        auto tensor = slice(values->data(), {group->size() * size}, {group->rank() * size}, {size});
        if (values == &device) tensor.slices[0].memory = std::make_shared<OtherMemory>(device);
        state.add(values == &device ? "device" : "host", tensor);
      }
      CheckpointManager manager(group, "/run", options_);
      for (int step = 1; step <= 3; ++step) {
        device.assign(device.size(), step);
        host.assign(host.size(), step + 0.5);
        const auto handle = manager.save_async(step, state, {.until = Until::released});
        EXPECT_THAT(handle.blocked_because(),
                    testing::AllOf(Says("tensor 'device' is copied at the call: "),
                                   Says("only the thread that saves may read its memory")));
        device.assign(device.size(), -1);
        handle.release();
        host.assign(host.size(), -1);
        manager.wait();
        manager.restore(step, state);
        EXPECT_EQ(device, std::vector<double>(device.size(), step));
        EXPECT_EQ(host, std::vector<double>(host.size(), step + 0.5));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, WindowDense, testing::Values(1, 2, 3),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
