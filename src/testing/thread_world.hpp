#pragma once
/// Shared by the ranks that are threads: mailboxes, rounds of collectives, and which rank may run.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "testing/fibres.hpp"
#include "testing/machine.hpp"

namespace cairn {

/// One mutex guards everything. Bytes are copied without it, straight from the sender's memory. The
/// caller checks rank numbers. The thread of a rank calls all operations of that rank.
class ThreadWorld {
 public:
  /// With a machine, ranks are fibres, and the machine keeps their time.
  ThreadWorld(int ranks, std::optional<unsigned> seed, Machine* machine);

  int size() const { return static_cast<int>(ranks_.size()); }

  Machine* machine() const { return machine_; }
  /// Runs all ranks until they have left. `entered` is called before a rank goes on.
  void run_fibres(const std::function<void(int)>& rank, std::function<void(int)> entered);
  void start();                        ///< all threads exist: let them run
  void enter(int rank);                ///< first call of a rank: waits for its turn
  void leave(int rank, bool crashed);  ///< last call of a rank
  void stop(Error why);                ///< ends all ranks' waits, at once and later
  [[noreturn]] void crash();
  bool crashed() const;

  void yield(int rank);
  void exchange(int rank, std::span<const Group::Send> sends,
                std::span<const Group::Receive> receives);
  void send(int rank, int to, std::string_view bytes);
  std::string receive(int rank, int from);

  /// The collective that a rank calls; all ranks must call the same.
  struct Call {
    std::string_view operation;  ///< a literal
    int root = 0;
    Group::Op op = Group::Op::sum;
    std::size_t count = 0;
    bool operator==(const Call&) const = default;
  };
  void barrier(int rank);
  void broadcast(int rank, std::string& bytes, int root);
  void all_reduce(int rank, std::span<std::int64_t> values, Group::Op op);
  /// Returns the number of the reduction, for end_reduction() or give_up_reduction().
  std::uint64_t begin_reduction(int rank, std::span<const std::int64_t> values, Group::Op op);
  void end_reduction(int rank, std::uint64_t number, std::span<std::int64_t> values);
  void give_up_reduction(std::uint64_t number) noexcept;
  /// The ranks that this rank waits for at present. Any thread.
  std::vector<int> awaited(int rank) const;

 private:
  using Lock = MutexLock;  // as a parameter: the caller's lock of mutex_
  enum class Channel { exchange, point_to_point };

  /// Belongs to its sender, which waits until no receiver uses it.
  struct Message {
    int from, to;
    Channel channel;
    std::span<const std::byte> bytes;
    Machine::Time left = {};
    enum { posted, taken, done } state = posted;
  };
  struct Wait {
    const char* operation;
    int peer;  ///< -1: everybody
    const std::function<bool()>* ready;
  };
  /// The turn of a rank to run, with a seed. It has a mutex of its own: a rank that is woken by one
  /// that holds the world's mutex would at once wait again, for that mutex.
  class Turn {
   public:
    void give();
    void await();

   private:
    Mutex mutex_;
    std::condition_variable given_;
    bool is_given_ CAIRN_GUARDED_BY(mutex_) = false;
  };
  struct Rank {
    std::condition_variable changed;  ///< used without a seed
    Turn turn;
    const Wait* wait = nullptr;  ///< what it waits for; null while it can go on
    std::uint64_t round = 0;     ///< the collective in which it waits for everybody
    bool ended = false;
    std::uint64_t rounds = 0;  ///< number of collectives that it has taken part in
    std::map<std::pair<int, Channel>, std::deque<Message*>> inbox;
    std::deque<std::string> to_itself;
  };
  struct Round {
    Call call;
    int opened_by = 0;
    int arrived = 0, left = 0;
    int lost = -1;  ///< a rank that ended and will never arrive
    std::vector<std::int64_t> values;
    std::shared_ptr<const std::string> bytes;
    Machine::Time last = {};  ///< of the latest that has arrived; in a broadcast, of the root
  };

  void begin(Lock& lock, int rank) CAIRN_REQUIRES(mutex_);
  void wait(Lock& lock, int rank, const char* operation, int peer,
            const std::function<bool()>& ready) CAIRN_REQUIRES(mutex_);
  void pass_turn(Lock& lock, int rank) CAIRN_REQUIRES(mutex_);
  Turn& choose_next() CAIRN_REQUIRES(mutex_);
  bool can_go_on(const Rank& rank) const CAIRN_REQUIRES(mutex_);
  bool nobody_can_go_on() const CAIRN_REQUIRES(mutex_);
  void report_deadlock() CAIRN_REQUIRES(mutex_);
  void set_stop(Error why) CAIRN_REQUIRES(mutex_);
  void throw_if_stopped() const CAIRN_REQUIRES(mutex_);
  void wake(int rank) CAIRN_REQUIRES(mutex_);
  void wake_all() CAIRN_REQUIRES(mutex_);

  void post(std::vector<Message>& messages) CAIRN_REQUIRES(mutex_);
  void withdraw(Lock& lock, int rank, std::vector<Message>& messages) CAIRN_REQUIRES(mutex_);
  void wait_until_received(Lock& lock, int rank, std::vector<Message>& messages)
      CAIRN_REQUIRES(mutex_);
  template <class Copy>
  void take(Lock& lock, int rank, int from, Channel channel, Copy copy) CAIRN_REQUIRES(mutex_);
  [[noreturn]] void throw_ended(int ended, int rank, const char* operation) const
      CAIRN_REQUIRES(mutex_);

  Round& arrive(int rank, const Call& call, std::uint64_t& number) CAIRN_REQUIRES(mutex_);
  void add(Round& round, std::span<const std::int64_t> values, Group::Op op) CAIRN_REQUIRES(mutex_);
  void wait_for_all(Lock& lock, int rank, const Round& round, std::uint64_t number)
      CAIRN_REQUIRES(mutex_);
  void finish(std::uint64_t number) CAIRN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Rank> ranks_;  // never resized; all members but `turn` need the mutex
  std::vector<int> ended_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Round> rounds_ CAIRN_GUARDED_BY(mutex_);
  int alive_ CAIRN_GUARDED_BY(mutex_), waiting_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool started_ CAIRN_GUARDED_BY(mutex_) = false;
  bool stopped_ CAIRN_GUARDED_BY(mutex_) = false, crashed_ CAIRN_GUARDED_BY(mutex_) = false;
  std::optional<Error> why_stopped_ CAIRN_GUARDED_BY(mutex_);
  std::optional<std::mt19937> generator_ CAIRN_PT_GUARDED_BY(mutex_);
  int turn_ CAIRN_GUARDED_BY(mutex_) = -1;  ///< the rank that runs, with a seed
  Machine* machine_ = nullptr;
  std::unique_ptr<Fibres> fibres_;
};

}  // namespace cairn
