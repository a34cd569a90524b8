#include "testing/threads.hpp"

#include <exception>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "testing/thread_world.hpp"

namespace cairn {
namespace {

/// The rank of the current thread, if any.
struct Seat {
  ThreadWorld* world = nullptr;
  int rank = -1;
};
thread_local Seat seat;

class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<ThreadWorld> world, int rank,
              std::shared_ptr<const std::vector<int>> nodes)
      : world_(std::move(world)), rank_(rank), nodes_(std::move(nodes)) {}

  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  int node() const override { return nodes_->at(static_cast<std::size_t>(rank_)); }
  std::span<const int> nodes() const override { return *nodes_; }

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    check_thread();
    const auto pause = paused();
    check_exchange(sends, receives);
    world_->exchange(rank_, sends, receives);
  }
  void send(int to, std::string_view bytes) override {
    check_thread();
    const auto pause = paused();
    check_rank(to);
    world_->send(rank_, to, bytes);
  }
  std::string receive(int from) override {
    check_thread();
    const auto pause = paused();
    check_rank(from);
    return world_->receive(rank_, from);
  }
  void barrier() override {
    check_thread();
    const auto pause = paused();
    world_->barrier(rank_);
  }
  void broadcast(std::string& bytes, int root) override {
    check_thread();
    const auto pause = paused();
    check_rank(root);
    world_->broadcast(rank_, bytes, root);
  }
  void all_reduce(std::span<std::int64_t> values, Op op) override {
    check_thread();
    const auto pause = paused();
    world_->all_reduce(rank_, values, op);
  }
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override {
    check_thread();
    return std::make_unique<ThreadReduction>(*this, count, op);
  }
  std::vector<int> awaited() const override { return world_->awaited(rank_); }
  void abort(std::string_view message) override {
    const Error why =
        Error(Code::communication, cat("rank ", rank_, " has aborted the job: ", message))
            .on_rank(rank_);
    world_->stop(why);
    throw Error(why);
  }

 private:
  // A reduction is known by its number: other ranks may need it whether or not this rank asks for
  // it.
  class ThreadReduction final : public Reduction {
   public:
    ThreadReduction(const ThreadGroup& group, std::size_t count, Op op)
        : world_(group.world_), rank_(group.rank_), count_(count), op_(op) {}
    ~ThreadReduction() override {
      if (under_way()) world_->give_up_reduction(*number_);
    }
    void begin(std::span<const std::int64_t> values) override {
      check_reduction(values.size(), count_, under_way(), false, rank_);
      const Machine::Pause pause(world_->machine(), rank_);
      number_ = world_->begin_reduction(rank_, values, op_);
    }
    void end(std::span<std::int64_t> values) override {
      check_reduction(values.size(), count_, under_way(), true, rank_);
      const Machine::Pause pause(world_->machine(), rank_);
      world_->end_reduction(rank_, *number_, values);
      number_.reset();
    }
    bool under_way() const override { return number_.has_value(); }

   private:
    std::shared_ptr<ThreadWorld> world_;
    int rank_;
    std::size_t count_;
    Op op_;
    std::optional<std::uint64_t> number_;
  };

  Machine::Pause paused() const { return {world_->machine(), rank_}; }
  void check_thread() const {
    if (seat.world == world_.get() && seat.rank == rank_) return;
    throw Error(Code::internal,
                cat("the group of rank ", rank_, " is used outside the thread of that rank"))
        .on_rank(rank_);
  }

  std::shared_ptr<ThreadWorld> world_;
  int rank_;
  std::shared_ptr<const std::vector<int>> nodes_;
};

bool is_communication_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == Code::communication;
  } catch (...) {
    return false;
  }
}

void rethrow_first(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr first;
  for (const auto& failure : failures) {
    if (!failure) continue;
    if (!is_communication_error(failure)) std::rethrow_exception(failure);
    if (!first) first = failure;
  }
  if (first) std::rethrow_exception(first);
}

// The node of each rank.
std::vector<int> nodes_of(int ranks, const ThreadOptions& options) {
  auto nodes = options.machine ? options.machine->nodes() : options.nodes;
  for (int rank = static_cast<int>(nodes.size()); rank < ranks; ++rank) {
    nodes.push_back(options.ranks_per_node > 0 ? rank / options.ranks_per_node : 0);
  }
  return nodes;
}

}  // namespace

void run_threads(int ranks, const std::function<void(std::shared_ptr<Group>)>& body,
                 const ThreadOptions& options) {
  if (ranks < 1) throw Error(Code::invalid_argument, cat("a group of ", ranks, " ranks"));
  auto* const machine = options.machine;
  const auto world = std::make_shared<ThreadWorld>(ranks, options.seed, machine);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  const auto shared_nodes = std::make_shared<const std::vector<int>>(nodes_of(ranks, options));
  const auto run_rank = [&](int rank) {
    seat = {world.get(), rank};
    bool crashed = false;
    try {
      world->enter(rank);
      if (machine) machine->resume(rank);
      body(std::make_shared<ThreadGroup>(world, rank, shared_nodes));
    } catch (const Crashed&) {
      crashed = true;
    } catch (...) {
      failures[rank] = std::current_exception();
    }
    if (machine) machine->pause(rank);
    seat = {};
    world->leave(rank, crashed);
  };
  const auto end = [&] {
    if (world->crashed()) throw Crashed{};
    rethrow_first(failures);
  };
  if (machine) {
    world->run_fibres(run_rank, [&](int rank) {
      seat = {world.get(), rank};
      machine->entered(rank);
    });
    return end();
  }

  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  std::exception_ptr not_started;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  } catch (...) {
    not_started = std::current_exception();
    world->stop(Error(Code::communication, "a thread for a rank could not be started"));
    for (int rank = static_cast<int>(threads.size()); rank < ranks; ++rank) {
      world->leave(rank, false);
    }
  }
  world->start();
  for (auto& thread : threads) thread.join();
  if (not_started) std::rethrow_exception(not_started);
  end();
}

void yield_point() {
  // A destructor that runs during unwinding must not throw.
  if (seat.world && std::uncaught_exceptions() == 0) seat.world->yield(seat.rank);
}

void crash() {
  if (!seat.world) throw Error(Code::internal, "crash() outside the thread of a rank");
  seat.world->crash();
}

}  // namespace cairn
