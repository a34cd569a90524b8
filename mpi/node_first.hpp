#pragma once
/// Collectives that cost the network one message per node, however many ranks the node has. An MPI
/// library may do so by itself; Open MPI 4.1 does not, least of all if ranks are dealt to nodes in
/// turn.
#include <mpi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mpi/mpi_check.hpp"

namespace cairn {

/// Knows which ranks share a node, and runs collectives through nodes: among the ranks of each
/// node, then among the first ranks of all nodes, then back. With one node, or one rank per node, a
/// collective is one call on the communicator of all ranks (has_ways_ is false). The caller makes
/// these calls in the same order on all ranks and stays in each until it is done, so that they
/// match on all communicators.
class NodeFirst {
 public:
  /// Collective. The communicator must outlive this object. Ranks that give the same number count
  /// as one node; without a number, ranks that share memory do.
  NodeFirst(MPI_Comm all, int rank, std::optional<int> node);

  /// The node of each rank. Nodes are numbered from 0, in the order of their lowest ranks.
  std::span<const int> nodes() const { return nodes_; }

  void barrier() const;
  void broadcast(void* values, int count, MPI_Datatype type, int root) const;

  /// An all_reduce in place, which makes progress when its rank calls is_done().
  class Reduction {
   public:
    Reduction(const NodeFirst& way, std::int64_t* values, int count, MPI_Op op);
    bool is_done();

   private:
    enum class Stage { to_first, across, from_first, done };
    void begin(Stage stage);
    const NodeFirst& way_;
    std::int64_t* values_;
    int count_;
    MPI_Op op_;
    Stage stage_ = Stage::done;
    MPI_Request request_ = MPI_REQUEST_NULL;
  };

  /// A communicator of all ranks on which those of a node are neighbours, for reductions that go on
  /// while ranks do something else. Such a reduction is one operation of MPI and has no stages.
  /// With stages, the first rank of a node would have to begin the next one itself. It may instead
  /// wait for a message of the application that another rank sends only when it has the result: the
  /// job would hang, since MPI has no way to let one operation follow another. With neighbours on a
  /// node, MPI's trees send fewer messages between nodes than with ranks that are dealt to nodes in
  /// turn.
  MPI_Comm in_order() const { return in_order_.get() == MPI_COMM_NULL ? all_ : in_order_.get(); }

 private:
  void find_nodes(std::optional<int> node);
  void check(int code, const char* function) const { check_mpi(code, function, rank_); }
  bool is_first() const { return place_ == 0; }
  bool is_alone() const { return on_node_.get() == MPI_COMM_NULL; }
  MPI_Comm across() const { return has_ways_ ? across_.get() : all_; }

  MPI_Comm all_;
  int rank_, place_ = 0;
  bool has_ways_ = false;
  std::vector<int> nodes_;
  HeldCommunicator on_node_;   // null if the rank is alone there, or has_ways_ is false
  HeldCommunicator across_;    // of first ranks; null on others, or if has_ways_ is false
  HeldCommunicator in_order_;  // null if ranks are in this order already
};

}  // namespace cairn
