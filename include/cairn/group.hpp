#pragma once
/// The interface to the ranks of a job. Implementations: one rank (this header) and MPI
/// (cairn/mpi.hpp); tests have ranks that are threads.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

class DatasetFiles;
class SharedFiles;

/// Messages between ranks. Each member is called from the thread that uses the library; the
/// collectives by all ranks in the same order. Sizes may exceed 2 GiB. A failing operation throws
/// Error(Code::communication) on the rank that sees it: no verdict is possible after that.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks with the same number share memory (a host). Numbered from 0 by their lowest rank.
  virtual int node() const = 0;
  /// The node of each rank, by rank; empty: not known. If it is known, gathers go node by node. The
  /// same on all ranks, and unchanged while the group lives.
  virtual std::span<const int> nodes() const { return {}; }

  /// One message of a round. Lengths are known to both sides.
  struct Send {
    int to;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from;
    std::span<std::byte> bytes;
  };
  /// Sends and receives all messages of a round; returns when the receives are complete and the
  /// send buffers may be reused. Between two ranks messages match in order. Not collective: a rank
  /// without messages need not call it. A rank may send to itself what it receives in the same
  /// call.
  virtual void exchange(std::span<const Send> sends, std::span<const Receive> receives) = 0;

  /// An exchange that goes on while its rank does other work.
  class Exchange {
   public:
    /// Gives up an exchange that was not ended; then its buffers may be reused.
    virtual ~Exchange() = default;
    /// Returns when the receives are complete and the send buffers may be reused. Called once.
    virtual void end() = 0;
  };
  /// Begins an exchange as exchange() makes it. Several may be under way; they match in the order
  /// in which they begin, and must end in this order. Buffers must stay until end() returns. The
  /// default has completed the exchange when it returns.
  virtual std::unique_ptr<Exchange> begin_exchange(std::span<const Send> sends,
                                                   std::span<const Receive> receives);

  /// Point to point, with a length that the receiver does not know. `send` may wait for its
  /// receive, except to the rank itself: then the bytes are kept until `receive`. These messages
  /// never match those of `exchange`.
  virtual void send(int to, std::string_view bytes) = 0;
  virtual std::string receive(int from) = 0;

  virtual void barrier() = 0;                                ///< collective
  virtual void broadcast(std::string& bytes, int root) = 0;  ///< collective; sends the length too
  enum class Op { min, max, sum };                           ///< a sum wraps around
  virtual void all_reduce(std::span<std::int64_t> values, Op op) = 0;  ///< collective, elementwise

  /// An all_reduce that goes on while its ranks do other work. It may be begun and ended any number
  /// of times, by the thread that uses the group.
  class Reduction {
   public:
    /// Not collective. Gives up a reduction under way: this rank does not get its result, the other
    /// ranks do.
    virtual ~Reduction() = default;
    /// Collective, in order with other collectives, but waits for no rank. No other reduction of
    /// this object may be under way.
    virtual void begin(std::span<const std::int64_t> values) = 0;
    /// Waits until all ranks have begun, and gives the result. Not collective: a rank may end
    /// several in any order, or give one up.
    virtual void end(std::span<std::int64_t> values) = 0;
    virtual bool under_way() const = 0;

   protected:
    /// For implementations, to check the arguments of begin() and end(). Throws invalid_argument.
    static void check_reduction(std::size_t values, std::size_t count, bool under_way, bool at_end,
                                int rank);
  };
  /// Not collective. The default has completed the reduction when begin() returns.
  virtual std::unique_ptr<Reduction> reduction(std::size_t count, Op op);

  /// Files that ranks write together; null if this group has none.
  virtual SharedFiles* shared_files() { return nullptr; }
  /// HDF5 files that all ranks write together; null if this group has none. Only groups with shared
  /// files have them.
  virtual DatasetFiles* dataset_files() { return nullptr; }

  /// The ranks for which this rank waits at present, ascending; empty: it does not wait, or they
  /// are not known. Unlike all other members it may be called from any thread, at any time.
  virtual std::vector<int> awaited() const { return {}; }

  /// Ends the whole job with a message, which it first passes to tell_fatal (cairn/log.hpp). It is
  /// called when messages between ranks fail: then ranks cannot agree, and the job would hang.
  [[noreturn]] virtual void abort(std::string_view message) = 0;

 protected:
  /// For implementations: check arguments before any message is sent. Throw invalid_argument.
  void check_rank(int rank) const;
  void check_exchange(std::span<const Send> sends, std::span<const Receive> receives) const;
};

/// A group of one rank. `abort` ends the process.
std::shared_ptr<Group> serial_group();

namespace detail {
/// Collective. Returns on all ranks if no rank has an exception; else throws on all ranks.
void agree_on(const std::shared_ptr<Group>& group, const std::exception_ptr& mine);
}  // namespace detail

/// Calls the function on each rank, then the ranks agree on whether it succeeded: if it throws on
/// one rank, all ranks throw the same Error. Else it returns the function's result.
///
/// Collective: all ranks of the group call it, from the thread that may call MPI; it costs one
/// small reduction over ranks. The function should only do work of this rank alone. If it makes
/// collective calls, it must make the same ones on every rank: run_and_agree() cannot help a rank
/// that waits inside the function.
///
/// If several ranks fail, all throw the lowest one's error, which names that rank (Error::rank). An
/// Error keeps its code; another exception keeps its text and gets Code::application. Only
/// Error(Code::communication) is thrown by one rank alone, and ends the job.
template <class F>
auto run_and_agree(const std::shared_ptr<Group>& group, F&& function) {
  using Result = std::invoke_result_t<F>;
  std::exception_ptr mine;
  if constexpr (std::is_void_v<Result>) {
    try {
      std::forward<F>(function)();
    } catch (...) {
      mine = std::current_exception();
    }
    detail::agree_on(group, mine);
  } else {
    std::optional<std::decay_t<Result>> result;
    try {
      result.emplace(std::forward<F>(function)());
    } catch (...) {
      mine = std::current_exception();
    }
    detail::agree_on(group, mine);
    return *std::move(result);
  }
}

}  // namespace cairn
