#pragma once
/// Ranks that ask should_save and should_stop, each with a clock of its own.
#include <functional>

#include "support/group_around.hpp"
#include "support/manager_kit.hpp"

namespace cairn {

// Counts the collective operations of ranks.
class CountingGroup : public test::GroupAround {
 public:
  using GroupAround::GroupAround;
  void barrier() override { ++collectives, GroupAround::barrier(); }
  void broadcast(std::string& bytes, int root) override {
    ++collectives, GroupAround::broadcast(bytes, root);
  }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    ++collectives, GroupAround::all_reduce(values, op);
  }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    ++collectives, GroupAround::exchange(sends, receives);
  }
  void send(int to, std::string_view bytes) override {
    ++collectives, GroupAround::send(to, bytes);
  }
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override {
    return std::make_unique<Counting>(*this, GroupAround::reduction(count, op));
  }
  int collectives = 0;  ///< blocking ones
  int begun = 0, ended = 0;

 private:
  struct Counting final : Reduction {
    Counting(CountingGroup& group, std::unique_ptr<Reduction> inner)
        : group_(group), inner_(std::move(inner)) {}
    void begin(std::span<const std::int64_t> values) override {
      ++group_.begun;
      inner_->begin(values);
    }
    void end(std::span<std::int64_t> values) override {
      ++group_.ended;
      inner_->end(values);
    }
    bool under_way() const override { return inner_->under_way(); }
    CountingGroup& group_;
    std::unique_ptr<Reduction> inner_;
  };
};

class RoundQuestions : public Manager {
 protected:
  // The clock of each rank, in seconds since 1970: only rank 0's may matter.
  struct Worker {
    std::shared_ptr<CountingGroup> group;
    std::shared_ptr<StopRequest> stop;
    std::shared_ptr<double> time = std::make_shared<double>(1e9);
    std::unique_ptr<Rank> rank;
    int me() const { return group->rank(); }
    CheckpointManager& manager() { return rank->manager; }
  };
  using Body = std::function<void(Worker&)>;
  void workers(const Body& body, const StopOptions& how = {.signals = {}, .time_limit = false},
               bool with_stop = true) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Worker worker;
      worker.group = std::make_shared<CountingGroup>(group);
      auto options = options_;
      if (with_stop) options.when.stop = worker.stop = std::make_shared<StopRequest>(how);
      options.when.clock = [time = worker.time] { return *time; };
      if (group->rank() != 0) *worker.time = 5;
      worker.rank = std::make_unique<Rank>(worker.group, options);
      worker.group->collectives = worker.group->begun = worker.group->ended = 0;
      body(worker);
    });
  }
  // Returns the steps at which should_save said yes, and saves then. on(step) is called before the
  // questions.
  static std::vector<std::int64_t> saved_steps(Worker& worker, std::int64_t from, std::int64_t to,
                                               const std::function<void(std::int64_t)>& on) {
    std::vector<std::int64_t> saved;
    for (auto step = from; step <= to; ++step) {
      on(step);
      if (!worker.manager().should_save(step)) continue;
      saved.push_back(step);
      worker.rank->save(step);
    }
    return saved;
  }
};
using Steps = std::vector<std::int64_t>;

}  // namespace cairn
