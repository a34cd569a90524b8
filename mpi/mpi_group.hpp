#pragma once
/// A Group with a communicator of its own.
#include <mpi.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/watch.hpp"
#include "cairn/group.hpp"
#include "mpi/mpi_check.hpp"
#include "mpi/mpi_datasets.hpp"
#include "mpi/mpi_files.hpp"
#include "mpi/node_first.hpp"
#include "mpi/roll_call.hpp"

namespace cairn {

/// Owns a duplicate of a communicator. MPI returns errors on it instead of ending the job.
class OwnCommunicator {
  HeldCommunicator communicator_;  // destroyed after the members made of it

 public:
  explicit OwnCommunicator(MPI_Comm original);  // collective
  ~OwnCommunicator();
  OwnCommunicator(const OwnCommunicator&) = delete;
  OwnCommunicator& operator=(const OwnCommunicator&) = delete;
  MPI_Comm get() const { return communicator_.get(); }
  RollCall roll_call;                 ///< for the reductions on it
  std::optional<NodeFirst> by_nodes;  ///< made when this communicator is known to work
};

class MpiGroup final : public Group {
 public:
  /// MPI counts are int: longer messages go in pieces of this many bytes, larger reductions in
  /// pieces of as many values.
  static constexpr std::size_t default_piece = std::size_t{1} << 30;

  /// Collective. Tests give a small piece, and a number that the ranks of a pretended node share.
  explicit MpiGroup(MPI_Comm original, std::size_t piece = default_piece,
                    std::optional<int> pretended_node = std::nullopt);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node() const override { return nodes()[static_cast<std::size_t>(rank_)]; }
  std::span<const int> nodes() const override { return communicator_->by_nodes->nodes(); }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override;
  std::unique_ptr<Exchange> begin_exchange(std::span<const Send> sends,
                                           std::span<const Receive> receives) override;
  void send(int to, std::string_view bytes) override;
  std::string receive(int from) override;
  void barrier() override;
  void broadcast(std::string& bytes, int root) override;
  void all_reduce(std::span<std::int64_t> values, Op op) override;
  std::unique_ptr<Reduction> reduction(std::size_t count, Op op) override;
  SharedFiles* shared_files() override { return &files_; }
  DatasetFiles* dataset_files() override { return &datasets_; }
  std::vector<int> awaited() const override { return communicator_->roll_call.awaited(); }
  [[noreturn]] void abort(std::string_view message) override;

 private:
  class Requests;
  class UnderWay;
  std::unique_ptr<Requests> begin_requests(std::span<const Send>, std::span<const Receive>);
  void begin() const;
  void check(int code, const char* function) const;

  std::shared_ptr<OwnCommunicator> communicator_;
  std::size_t piece_;
  int rank_, size_;
  MpiFiles files_;
  MpiDatasets datasets_;
  std::deque<std::string> to_itself_;
  WatchedRank watched_;
};

}  // namespace cairn
