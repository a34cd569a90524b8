// Saves that leave the state where it is until release(): what is saved when the application writes
// its state after release() or, breaking its promise, before it.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <thread>

#include "io/limited.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/save/window_kit.hpp"
#include "support/run_lengths.hpp"

namespace cairn {
namespace {

using test::Says;

class WindowSave : public test::Windows {};

// Whatever was written when release() comes, the rest is copied: each byte is of the step.
TEST_P(WindowSave, ReleaseAtEachPointSavesTheStep) {
  for (const auto rows : {few, many}) {
    std::size_t k = 0;
    const Act release = [](Ranks& rank, const SaveHandle& handle) {
      handle.release();
      rank.mine.spoil();
    };
    const auto check = [&](Ranks& rank, const SaveHandle& handle) {
      SCOPED_TRACE(cat(rows, " rows, released at operation ", k));
      rank.manager.wait();
      EXPECT_TRUE(handle.committed());
      EXPECT_EQ(rank.latest(), 4);
    };
    while (act_at(k, rows, release, check)) ++k;
    EXPECT_GT(k, 5u);
  }
}

// One byte is changed before release(), at each point of the window: either it had been written,
// and the step is saved as it was, or the save fails and says which tensor has changed.
TEST_P(WindowSave, AChangeAtEachPointIsFoundOrComesTooLateToMatter) {
  const std::vector<std::string> keys{"a", "b", "halo", "same"};
  int failed = 0, saved = 0;
  for (std::size_t tensor = 0; tensor < keys.size(); ++tensor) {
    for (const double where : {0.0, 1.0}) {
      std::size_t k = 0;
      const Act change = [&](Ranks& rank, const SaveHandle&) {
        auto& values =
            *std::array{&rank.mine.a, &rank.mine.b, &rank.mine.halo, &rank.mine.same}[tensor];
        // The ends of the strided slice are halo.
        auto* bytes = reinterpret_cast<unsigned char*>(values.data() + (tensor == 2 ? 1 : 0));
        const auto size = (values.size() - (tensor == 2 ? 2 : 0)) * sizeof(double);
        bytes[static_cast<std::size_t>(static_cast<double>(size - 1) * where)] ^= 1;
      };
      const auto check = [&](Ranks& rank, const SaveHandle& handle) {
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
      while (act_at(k, few, change, check)) ++k;
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_GT(saved, 20);
}

// Of a large state only a part of each chunk is looked at.
TEST_P(WindowSave, AStateThatIsWrittenOverIsFound) {
  const Act change = [](Ranks& rank, const SaveHandle&) {
    rank.mine.a.assign(rank.mine.a.size(), 0);
  };
  act_at(0, many, change, [](Ranks& rank, const SaveHandle& handle) {
    test::expect_error(Code::invalid_argument, Says("has changed while it was saved"),
                       [&] { rank.manager.wait(); });
    EXPECT_EQ(handle.stage(), SaveStage::failed);
    EXPECT_EQ(rank.latest(), 3);
  });
}

// With pages protected, any byte of a whole page tells, by whichever way it is seen.
TEST_P(WindowSave, ABrokenPromiseIsFound) {
  for (const char* way : {"userfaultfd", "mprotect", ""}) {
    SCOPED_TRACE(way);
    *way ? ::setenv("CAIRN_CHECK_PROMISE", way, 1) : ::unsetenv("CAIRN_CHECK_PROMISE");
    options_.async.check_promise = !*way;
    const Act change = [](Ranks& rank, const SaveHandle&) { rank.mine.b[123'456] += 1; };
    std::size_t k = 0;
    int found = 0;
    const auto check = [&](Ranks& rank, const SaveHandle& handle) {
      bool fails = false;
      try {
        rank.manager.wait();
      } catch (const Error& error) {
        fails = true;
        EXPECT_EQ(error.tensor(), "b");
        EXPECT_THAT(error.what(), Says("has changed while it was saved"));
        const bool warns =
            error.reason().find(test::wording("fail with EFAULT")) != std::string::npos;
        EXPECT_EQ(warns, way == std::string("mprotect"));
      }
      EXPECT_EQ(handle.committed(), !fails);
      EXPECT_EQ(rank.latest(), fails ? 3 : 4);
      if (rank.group->rank() == 0) found += fails;
    };
    while (act_at(k, many, change, check)) ++k;
    EXPECT_GT(found, 1);
  }
  options_.async.check_promise = true;  // who keeps his promise is left alone
  windows(many, [](Ranks& rank) {
    for (int step = 11; step <= 15; ++step) {
      rank.start(step).release();
      rank.mine.spoil();
    }
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 15);
  });
}

// Pages that are only in part an array's are not protected, so each of their bytes is looked at.
TEST_P(WindowSave, AWriteToAnEdgeIsFoundWherePagesAreProtected) {
  options_.async.check_promise = true;
  for (const bool is_front : {true, false}) {
    for (const std::string key : {"a", "b"}) {
      SCOPED_TRACE(cat(key, is_front ? ", front" : ", back"));
      const Act change = [&](Ranks& rank, const SaveHandle&) {
        const auto bytes =
            std::as_writable_bytes(std::span(key == "a" ? rank.mine.a : rank.mine.b));
        (is_front ? bytes.front() : bytes.back()) ^= std::byte{1};
      };
      act_at(0, many, change, [&](Ranks& rank, const SaveHandle& handle) {
        test::expect_error(Code::invalid_argument, Says("has changed while it was saved"), [&] {
          try {
            rank.manager.wait();
          } catch (const Error& error) {
            EXPECT_EQ(error.tensor(), key);
            throw;
          }
        });
        EXPECT_EQ(handle.stage(), SaveStage::failed);
        EXPECT_EQ(rank.latest(), 3);
      });
    }
  }
}

TEST_P(WindowSave, OnlyWhatMustBeCopiedTakesMemory) {
  options_.async.queue = inline_queue();  // the whole save is written within the call
  windows(many, [&](Ranks& rank) {
    for (int step = 1; step <= 4; ++step) {
      const auto handle = rank.start(step);
      handle.release();
      rank.mine.spoil();
      rank.manager.wait();
      EXPECT_TRUE(handle.committed());
    }
    EXPECT_LE(rank.manager.statistics().pool_bytes, 2 << 20);  // the least that a pool has
    EXPECT_EQ(rank.manager.statistics().plans_reused, 3);
    EXPECT_EQ(rank.latest(), 4);
  });
}

TEST_P(WindowSave, WithoutAReleaseTheStateIsWrittenFromWhereItIs) {
  windows(many, [&](Ranks& rank) {
    const auto first = rank.start(1);
    first.wait_written();
    rank.mine.spoil();
    const auto second = rank.start(2);  // waits for nothing: the first is written
    rank.manager.wait();
    rank.mine.spoil();
    EXPECT_TRUE(first.committed() && second.committed());
    second.release();
    EXPECT_EQ(rank.latest(), 2);
    rank.start(3);  // the manager ends, and a restart completes it
  });
  windows(many, [&](Ranks& rank) { EXPECT_EQ(rank.latest(), 3); });
}

TEST_P(WindowSave, ManySavesWhoseStateChangesAtOnceAfterRelease) {
  options_.keep.last = 2;
  windows(many, [&](Ranks& rank) {
    for (int step = 1; step <= 20; ++step) {
      const auto handle = rank.start(step, step % 5 == 0 ? Until::captured : Until::released);
      handle.release();
      rank.mine.spoil();
      rank.manager.poll();
    }
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 20);
    rank.mine.spoil();
    rank.manager.restore(19, rank.mine.state);
    EXPECT_EQ(rank.mine.seen(*rank.group), 19);
  });
}

// release() may be called by another thread than the manager's.
TEST_P(WindowSave, AnyThreadReleases) {
  windows(many, [&](Ranks& rank) {
    for (int step = 1; step <= 5; ++step) {
      const auto handle = rank.start(step);
      std::thread other([&] { handle.release(); });
      handle.release();
      rank.mine.spoil();
      other.join();
      rank.manager.wait();
    }
    EXPECT_EQ(rank.latest(), 5);
  });
}

// Gives memory for the copy at the call, not for that of release(), which is larger.
class Scarce : public StagingMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    return bytes <= std::size_t{2} << 20 ? memory_->take(bytes) : nullptr;
  }
  void give_back(std::byte* memory, std::size_t bytes) override {
    memory_->give_back(memory, bytes);
  }

 private:
  std::shared_ptr<StagingMemory> memory_ = page_memory();
};

// The writing thread goes on only when release() has told that it waits.
TEST_P(WindowSave, WithoutMemoryReleaseWaitsUntilTheStateIsWritten) {
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  set_log_sink([&](LogLevel, std::string_view line) {
    if (line.find(test::wording("release() waits until the state is written")) == line.npos) return;
    const std::lock_guard guard(mutex);
    ++waiting;
    changed.notify_all();
  });
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.async.memory = std::make_shared<Scarce>();
    Ranks rank(group, options, many);
    group->barrier();
    if (group->rank() == 0) {
      files_->set_observer([&](const std::string& operation) {
        if (operation.find("write ") != 0 || operation.find("part-0") == operation.npos) return;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return waiting == GetParam(); });
      });
    }
    group->barrier();
    const auto handle = rank.start(1);
    handle.release();
    rank.mine.spoil();
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 1);
    group->barrier();
    if (group->rank() == 0) files_->set_observer({});
  });
  set_log_sink({});
}

// What stays is all that may stay: whatever else a save does with the state, it does in the call.
TEST_P(WindowSave, AllKindsOfSaves) {
  struct Kind {
    const char* name;
    std::function<void(ManagerOptions&)> set;
    Storage storage = Storage::automatic;
  };
  std::vector<Kind> kinds{
      {"io rank", [](auto& options) { options.write.io_ranks = IoRanks::count(1); }},
      {"dense", [](auto&) {}, Storage::dense},
      {"frozen",
       [](auto& options) {
         options.frozen.keys = {"a", "same"};
       }},
      {"no renames", [](auto& options) { options.write.atomic_rename = false; }},
      {"pool", [](auto& options) { options.async.pool_bytes = 1 << 20; }},
      {"encoded", [](auto&) {}},
  };
  if (hdf5::available()) {
    kinds.push_back({"HDF5", [](auto& options) { options.store.format = Format::hdf5; }});
  }
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.name);
    std::optional<test::RunLengthLayout> encoded;
    if (kind.name == std::string("encoded")) encoded.emplace();
    options_ = {};
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.owner_wait_seconds = 0;
    kind.set(options_);
    windows(
        many,
        [&](Ranks& rank) {
          for (int step = 1; step <= 3; ++step) {
            const auto handle = rank.start(step);
            const bool served = kind.name == std::string("io rank") && rank.group->rank() > 0;
            const std::string why =
                test::wording("all is copied at the call: an io rank writes it");
            EXPECT_EQ(handle.blocked_because(), served ? why : "");
            handle.release();
            rank.mine.spoil();
          }
          rank.manager.wait();
          EXPECT_EQ(rank.latest(), 3);
        },
        kind.storage);
  }
}

TEST_P(WindowSave, AStorageLimitCopiesAtTheCall) {
  options_.write.file_system = io::limited(files_, 1e6);
  options_.write.storage_limit_seconds = 1e6;
  windows(many, [&](Ranks& rank) {
    const auto handle = rank.start(1);
    EXPECT_THAT(handle.blocked_because(), Says("with a storage limit the state is copied"));
    EXPECT_NE(handle.stage(), SaveStage::committed);
    rank.mine.spoil();
    rank.manager.wait();
    EXPECT_EQ(rank.start(2, Until::captured).blocked_because(), "");
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 2);
  });
}

// A replaced save ends its window, released or not.
TEST_P(WindowSave, AReplacedSaveLetsGo) {
  options_.async.when_busy = WhenBusy::replace;
  windows(many, [&](Ranks& rank) {
    for (int step = 1; step <= 10; ++step) {
      const auto handle = rank.start(step);
      rank.manager.save_async(100 + step, rank.mine.state, {.until = Until::released}).release();
      rank.mine.spoil();
      handle.release();
    }
    rank.manager.wait();
    rank.mine.spoil();
    EXPECT_EQ(rank.manager.restore_latest(rank.mine.state)->step, 110);
    EXPECT_EQ(rank.mine.seen(*rank.group), 10);
  });
}

// With a full disk the writing ends early, and so does the window.
TEST_P(WindowSave, AFailedSaveLetsGo) {
  windows(many, [&](Ranks& rank) {
    const int me = rank.group->rank();
    if (me == 0) files_->inject({Code::no_space, "write", "part-00000", 0, 1});
    rank.group->barrier();
    const auto handle = rank.start(1);
    handle.release();
    rank.mine.spoil();
    test::expect_error(Code::no_space, testing::HasSubstr("part-00000"),
                       [&] { rank.manager.wait(); });
    handle.release();
    rank.start(2).release();
    rank.mine.spoil();
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 2);
  });
}

TEST_P(WindowSave, RanksMustAgree) {
  if (GetParam() == 1) return;
  windows(few, [&](Ranks& rank) {
    const auto until = [&](int one) {
      return rank.group->rank() == one ? Until::captured : Until::released;
    };
    for (int step = 1; step <= 3; ++step) {
      test::expect_error(Code::disagreement, testing::HasSubstr("until"),
                         [&] { rank.start(step, until(step % 2)); });
      rank.start(step).release();
      rank.manager.wait();
    }
    EXPECT_EQ(rank.latest(), 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, WindowSave, testing::Values(1, 2, 3),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
