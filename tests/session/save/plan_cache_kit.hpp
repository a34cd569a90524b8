#pragma once
/// Managers on a disk in memory whose ranks count their messages and collective calls.
#include "support/group_around.hpp"
#include "support/manager_kit.hpp"

namespace cairn {

/// Counts the messages and collective calls of a rank.
class CountingGroup : public test::GroupAround {
 public:
  using GroupAround::GroupAround;
  int reductions = 0, others = 0;

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    ++others;
    GroupAround::exchange(sends, receives);
  }
  void send(int to, std::string_view bytes) override {
    ++others;
    GroupAround::send(to, bytes);
  }
  std::string receive(int from) override {
    ++others;
    return GroupAround::receive(from);
  }
  void barrier() override {
    ++others;
    GroupAround::barrier();
  }
  void broadcast(std::string& bytes, int root) override {
    ++others;
    GroupAround::broadcast(bytes, root);
  }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    ++reductions;
    GroupAround::all_reduce(values, op);
  }
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override {
    return std::make_unique<Counting>(*this, GroupAround::reduction(count, op));
  }

 private:
  struct Counting final : Reduction {
    Counting(CountingGroup& group, std::unique_ptr<Reduction> inner)
        : group_(group), inner_(std::move(inner)) {}
    void begin(std::span<const std::int64_t> values) override {
      ++group_.reductions;
      inner_->begin(values);
    }
    void end(std::span<std::int64_t> values) override { inner_->end(values); }
    bool under_way() const override { return inner_->under_way(); }
    CountingGroup& group_;
    std::unique_ptr<Reduction> inner_;
  };
};

class PlanCache : public Manager {
 protected:
  struct Counted {
    std::shared_ptr<CountingGroup> group;
    Rank rank;
  };
  template <class F>
  void counted_job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> inner) {
      const auto group = std::make_shared<CountingGroup>(inner);
      Counted one{group, Rank(group, options_)};
      body(one.rank, *group);
    });
  }
  void set(Rank& rank, std::int64_t step) {
    rank.step = step;
    rank.value = static_cast<double>(step * 100 + rank.group->rank());
  }
  SaveHandle start(Rank& rank, std::int64_t step) {
    set(rank, step);
    return rank.manager.save_async(step, rank.state);
  }
};

}  // namespace cairn
