#pragma once
/// Saves whose state stays where it is until release(), on a disk in memory: with it a test can act
/// between any two writes of a rank, on the thread that writes.
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "support/loops.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn::test {

/// One rank's part of a state: contiguous, strided and small slices, a replica and texts.
struct WindowState {
  static constexpr std::int64_t width = 1000;
  int rank;
  std::int64_t step = 0;
  std::vector<double> a, b, halo, same;
  std::vector<std::string> words{"", ""};
  State state;

  /// `rows`: of each slice; a slice of 9 rows has 72 kB.
  WindowState(const Group& group, std::int64_t rows, Storage storage = Storage::automatic)
      : rank(group.rank()) {
    const Dims shape{group.size() * rows, width}, start{group.rank() * rows, 0}, mine{rows, width};
    a.resize(static_cast<std::size_t>(rows * width));
    b.resize(a.size());
    halo.resize(static_cast<std::size_t>(rows * (width + 2)));
    same.resize(9000);
    state.store(storage);
    state.add("a", slice(&a, shape, start, mine));
    state.add("b", slice(b.data(), shape, start, mine));
    state.add("halo", slice(halo.data() + 1, shape, start, mine, {width + 2, 1}));
    state.add("same", same);
    state.add("step", step);
    state.add("words", words);
  }
  void fill(std::int64_t at) {
    step = at;
    int tensor = 0;
    for (auto* values : {&a, &b, &halo, &same}) {
      // Replicas are the same on all ranks.
      const auto base =
          static_cast<double>(at * 100 + (values == &same ? 0 : rank * 10) + tensor++);
      set_ramp(*values, base);
    }
    words = {cat("at ", at), cat("rank-free ", at)};
  }
  void spoil() {
    step = -1;
    for (auto* values : {&a, &b, &halo, &same}) set_all(*values, -1);
    words = {"spoilt", "spoilt"};
  }
  /// The step whose values are in memory, all of them; -1 if they do not belong together.
  std::int64_t seen(const Group& group) {
    WindowState right(group, std::ssize(a) / width);
    right.fill(step);
    constexpr std::size_t line = width + 2;
    for (std::size_t i = 0; i < halo.size(); i += line) {  // the halo is not restored
      for (const auto edge : {i, i + line - 1}) halo[edge] = right.halo[edge];
    }
    const bool whole = same_values(a, right.a) && same_values(b, right.b) &&
                       same_values(halo, right.halo) && same_values(same, right.same) &&
                       words == right.words;
    return whole ? step : -1;
  }
};

/// Runs tasks at once, in the thread that gives them; while it is held, when it is drained.
class HeldTasks : public TaskQueue {
 public:
  ~HeldTasks() override { drain(); }
  void run(std::function<void()> task) override {
    if (!is_held) return task();
    tasks_.push_back(std::move(task));
  }
  void drain() override {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }
  bool is_held = false;

 private:
  std::vector<std::function<void()>> tasks_;
};

class Windows : public Manager {
 protected:
  static constexpr std::int64_t few = 9, many = 160;  // rows: 72 kB and 1.28 MB a slice
  struct Ranks {
    std::shared_ptr<Group> group;
    WindowState mine;  // outlives the manager, which may still write it as it ends
    CheckpointManager manager;
    Ranks(std::shared_ptr<Group> g, const ManagerOptions& options, std::int64_t rows,
          Storage storage = Storage::automatic)
        : group(g), mine(*g, rows, storage), manager(g, "/run", options) {}
    SaveHandle start(std::int64_t step, Until until = Until::released) {
      mine.fill(step);
      return manager.save_async(step, mine.state, {.until = until});
    }
    /// The step that is restored; -1 if what it restores is not that step's.
    std::int64_t latest() {
      mine.spoil();
      const auto report = manager.restore_latest(mine.state);
      return report && report->step == mine.seen(*group) ? report->step : -1;
    }
  };
  /// Saves steps 2 and 3 with copies and then step 4 with a window; calls `act` on the thread that
  /// writes, before the k-th operation of rank 0's task. Returns whether there was one.
  using Act = std::function<void(Ranks&, const SaveHandle&)>;
  bool act_at(std::size_t k, std::int64_t rows, const Act& act, const Act& after,
              Storage storage = Storage::automatic) {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    bool acted = false;
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      const auto queue = std::make_shared<HeldTasks>();
      options.async.queue = queue;
      Ranks rank(group, options, rows, storage);
      for (int step = 2; step <= 3; ++step) {
        rank.start(step, Until::captured);
        rank.manager.wait();
      }
      group->barrier();
      queue->is_held = true;
      const auto handle = rank.start(4);
      group->barrier();
      // One rank's task after the other.
      for (int turn = 0; turn < group->size(); ++turn) {
        if (turn == group->rank()) {
          std::size_t operation = 0;
          files_->set_observer([&](const std::string&) {
            if (turn != 0 || operation++ != k) return;
            acted = true;
            act(rank, handle);
          });
          queue->is_held = false;
          queue->drain();
          files_->set_observer({});
        }
        group->barrier();
      }
      after(rank, handle);
    });
    return acted;
  }
  template <class F>
  void windows(std::int64_t rows, F&& body, Storage storage = Storage::automatic) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Ranks rank(group, options_, rows, storage);
      body(rank);
    });
  }
};

}  // namespace cairn::test
