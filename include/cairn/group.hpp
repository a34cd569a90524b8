#pragma once
/// The ranks of a job, as far as a checkpoint needs them. Implementations: one rank (this header)
/// and MPI (cairn/mpi.hpp); tests have one of threads.
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
  /// The node of each rank, by rank; empty: not known. Gathers go node by node where it is. The
  /// same on all ranks, while the group lives.
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
  /// Sends and receives all of them; returns when the receives are complete and the send buffers
  /// may be reused. Between two ranks messages match in order. Not collective: a rank with nothing
  /// need not call. A rank may send to itself what it receives in the same call.
  virtual void exchange(std::span<const Send> sends, std::span<const Receive> receives) = 0;

  /// An exchange that goes on while its rank does something else.
  class Exchange {
   public:
    /// One that was not ended is given up; buffers are free then.
    virtual ~Exchange() = default;
    /// Returns when the receives are complete and the send buffers may be reused. Called once.
    virtual void end() = 0;
  };
  /// Begins what exchange() does. Several may be under way; they match in the order in which they
  /// are begun, and are ended in it. Buffers stay until the end. The default is done by the time it
  /// returns.
  virtual std::unique_ptr<Exchange> begin_exchange(std::span<const Send> sends,
                                                   std::span<const Receive> receives);

  /// Point to point with a length that the receiver does not know. `send` may wait for its receive,
  /// except to the rank itself, where the bytes are kept until they are asked for. These messages
  /// never match those of `exchange`.
  virtual void send(int to, std::string_view bytes) = 0;
  virtual std::string receive(int from) = 0;

  virtual void barrier() = 0;                                ///< collective
  virtual void broadcast(std::string& bytes, int root) = 0;  ///< collective, length travels too
  enum class Op { min, max, sum };                           ///< a sum wraps around
  virtual void all_reduce(std::span<std::int64_t> values, Op op) = 0;  ///< collective, elementwise

  /// An all_reduce that goes on while its ranks do something else. To be used from the thread that
  /// uses the group, again and again.
  class Reduction {
   public:
    /// Not collective. A reduction under way is given up: this rank does not get its result, and
    /// the other ranks do.
    virtual ~Reduction() = default;
    /// Collective, in order with other collectives, but waits for nobody. None may be under way.
    virtual void begin(std::span<const std::int64_t> values) = 0;
    /// Waits until all ranks have begun, and gives the result. Not collective: a rank may end
    /// several in any order, or give one up.
    virtual void end(std::span<std::int64_t> values) = 0;
    virtual bool under_way() const = 0;

   protected:
    /// For implementations, at begin() and end(). Throws invalid_argument.
    static void check_reduction(std::size_t values, std::size_t count, bool under_way, bool at_end,
                                int rank);
  };
  /// Not collective. The default is done by the time begin() returns.
  virtual std::unique_ptr<Reduction> reduction(std::size_t count, Op op);

  /// Files that ranks write together; null where this group has none.
  virtual SharedFiles* shared_files() { return nullptr; }
  /// HDF5 files that all ranks write together; null where this group has none. Only groups with
  /// shared files have them.
  virtual DatasetFiles* dataset_files() { return nullptr; }

  /// The ranks that this rank waits for just now, ascending; empty: it does not wait, or that is
  /// not known. Unlike all else here it may be called from any thread, at any time.
  virtual std::vector<int> awaited() const { return {}; }

  /// Ends the whole job with a message, which it hands to tell_fatal (cairn/log.hpp) first. For
  /// failures of messages between ranks, after which they cannot agree: the alternative is a hang.
  [[noreturn]] virtual void abort(std::string_view message) = 0;

 protected:
  /// For implementations: what can be refused before anything moves. Throws invalid_argument.
  void check_rank(int rank) const;
  void check_exchange(std::span<const Send> sends, std::span<const Receive> receives) const;
};

/// One rank. `abort` ends the process.
std::shared_ptr<Group> serial_group();

namespace detail {
/// Collective. Returns on all ranks where no rank has an exception; else throws on all ranks.
void agree_on(const std::shared_ptr<Group>& group, const std::exception_ptr& mine);
}  // namespace detail

/// Calls the function on each rank, then the ranks agree on whether it went well: what one rank
/// throws, all throw, as the same Error. Otherwise it gives back what the function returned.
///
/// Collective: all ranks of the group call it, from the thread that may call MPI, for one small
/// reduction over ranks. The function itself should do what this rank does alone. Where it makes
/// collective calls, it must make the same ones on every rank: run_and_agree() comes to the aid of
/// no rank that waits inside.
///
/// Where several ranks fail, the lowest one's error counts, and names that rank (Error::rank). An
/// Error keeps its code; of another exception the text is kept, under Code::application. Only
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
