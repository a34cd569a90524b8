#pragma once
/// Checks that all ranks make the same call of the public interface, and watches how long they wait
/// in it.
///
/// Every collective call begins with an *entry check*: a sum over ranks, always of the same number
/// of values, which tells in which call each rank is. It must be the same operation for all calls,
/// since MPI does not define what happens if a reduction meets a broadcast, or a reduction of
/// another length. So ranks in different calls find out instead of waiting for each other. Values
/// that a call has to add up anyhow go with the check. The rounds of should_save and should_stop
/// are entry checks too, begun in one call and ended in a later one. MPI takes blocking and
/// non-blocking reductions for different operations, hence all entry checks are non-blocking.
#include <sys/types.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error_of.hpp"
#include "base/watch.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "group/watched_files.hpp"

namespace cairn {

/// A group that checks that its ranks are in the same call, and whose waits are watched.
class CallGroup final : public Group, private WatchedCaller {
 public:
  static constexpr std::size_t room = 24;  ///< values that a call may add to its entry check

  /// Wraps a group; returns it unchanged if it is a CallGroup already.
  static std::shared_ptr<CallGroup> of(std::shared_ptr<Group>);
  explicit CallGroup(std::shared_ptr<Group>);

  /// Names the object on which calls are made, such as " of 'ckpt' in /run": the same call on
  /// another object is a different call. Not collective, but the same on all ranks.
  void describe(std::string object);

  /// Collective. Adds up the values (at most `room`) over ranks. Throws disagreement, on all ranks,
  /// if they are in different calls.
  void check_entry(std::span<std::int64_t> values = {});

  /// The check in two halves, between which other calls may be made; for rounds.
  class EntryCheck {
   public:
    /// `call` is a literal that names the call; null: the call that this rank is in.
    EntryCheck(CallGroup& group, const char* call);
    void begin(std::span<const std::int64_t> values);
    void end(std::span<std::int64_t> values);
    bool under_way() const { return reduction_->under_way(); }

   private:
    // The values of the sum. `call`: weight times hash of the call, 0 if all ranks are in the same
    // one. `rounds`: how many ranks are in a round; `round_ranks`: the sum of the numbers of these
    // ranks. From `payload` on: the values of the caller.
    enum Slot { call, rounds, round_ranks, payload };
    using Values = std::array<std::int64_t, payload + room>;
    [[noreturn]] void differ(const Values& sum, const char* mine) const;

    CallGroup& group_;
    /// Null for the check of an ordinary call: then the name is that of the rank's present call.
    const char* const call_;
    std::unique_ptr<Reduction> reduction_;
  };

  /// Whether a call may be made inside another call of the same thread, from its callback.
  enum class Inside {
    any,  ///< calls may be inside each other
    none  ///< no two of these inside each other: saves and restores
  };
  /// While it lives, this rank is in that call (a literal). Throws busy if another thread is in a
  /// call, or if the call may not be made inside this thread's present one: the outer call holds
  /// what it has found out about files and plans, and a save or restore inside would change that.
  /// Throws invalid_argument in a process that was forked. These errors are local: nobody can know
  /// whether other ranks have made the same mistake; the watch reports a rank that others then
  /// miss.
  class Call {
   public:
    Call(Group& group, const char* name, Inside inside = Inside::any);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallGroup* const group_;
    // Whether this call has set in_call_ and alone_, and so resets them; and the name of the call
    // that it was made inside of.
    bool outermost_ = false, is_alone_ = false;
    const char* before_ = "";
  };

  /// Whether this process is a forked child of the one that made the group. A child has neither the
  /// threads nor the ranks, and the files of the group's owner belong to the parent. A child's copy
  /// of a manager is left as it is, memory and all: its destructor would give up the parent's
  /// directory.
  bool forked() const;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node() const override { return inner_->node(); }
  std::span<const int> nodes() const override { return inner_->nodes(); }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override;
  std::unique_ptr<Exchange> begin_exchange(std::span<const Send> sends,
                                           std::span<const Receive> receives) override;
  void send(int to, std::string_view bytes) override;
  std::string receive(int from) override;
  void barrier() override;
  void broadcast(std::string& bytes, int root) override;
  void all_reduce(std::span<std::int64_t> values, Op op) override;
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override;
  SharedFiles* shared_files() override { return shared_files_.get(); }
  DatasetFiles* dataset_files() override { return dataset_files_.get(); }
  std::vector<int> awaited() const override { return inner_->awaited(); }
  void abort(std::string_view message) override;

 private:
  class WatchedExchange;
  std::string text_of(const char* call) const;
  WatchedRank* caller() override;

  const std::shared_ptr<Group> inner_;
  const int rank_, size_;
  // The factor of this rank in the sum of an entry check: rank_weight() in collectives.hpp.
  const std::uint64_t weight_;
  // The process that made the group; another one is a forked child.
  const pid_t process_;
  std::atomic<std::thread::id> in_call_;  ///< the thread that is in a call
  const char* alone_ = nullptr;           ///< its call of kind Inside::none, if any
  // As given to describe(); part of what the entry check compares.
  std::string object_;
  WatchedRank watched_;
  // Made by the first check_entry() and reused, so that later calls allocate nothing.
  std::unique_ptr<EntryCheck> entry_check_;
  std::unique_ptr<SharedFiles> shared_files_;    ///< null if the group has none
  std::unique_ptr<DatasetFiles> dataset_files_;  ///< likewise
};

/// Runs a collective call of the public interface, whose name is a literal. After a failed message
/// the ranks cannot agree on anything: then this ends the job, rather than hang.
template <class F, CallGroup::Inside inside = CallGroup::Inside::any>
auto collective_call(Group& group, const char* call, F&& function) {
  const CallGroup::Call named(group, call, inside);
  try {
    return function();
  } catch (const Error& error) {
    if (error.code() == Code::communication) group.abort(error.what());
    throw;
  } catch (const std::exception& error) {
    group.abort(error_of(error).what());  // the other ranks do not know of it
    throw;
  }
}

/// The same for a call that no other call of this kind may be inside of.
template <class F>
auto exclusive_call(Group& group, const char* call, F&& function) {
  return collective_call<F, CallGroup::Inside::none>(group, call, std::forward<F>(function));
}

}  // namespace cairn
