#include "mpi/node_first.hpp"

#include <algorithm>

namespace cairn {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

NodeFirst::NodeFirst(MPI_Comm all, int rank, std::optional<int> node) : all_(all), rank_(rank) {
  find_nodes(node);
  const int size = static_cast<int>(nodes_.size());
  const int count = 1 + *std::max_element(nodes_.begin(), nodes_.end());
  has_ways_ = count > 1 && count < size;
  if (!has_ways_ || std::count(nodes_.begin(), nodes_.end(), nodes_[index(rank)]) == 1) {
    on_node_.free();
  }
  if (!has_ways_) {
    place_ = 0;
    return;
  }
  const auto split = [&](int colour, int key, HeldCommunicator& part) {
    check(MPI_Comm_split(all_, colour, key, part.put()), "MPI_Comm_split");
    if (part.get() == MPI_COMM_NULL) return;
    check(MPI_Comm_set_errhandler(part.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  };
  split(is_first() ? 0 : MPI_UNDEFINED, rank_, across_);
  if (std::is_sorted(nodes_.begin(), nodes_.end())) return;
  const int mine = nodes_[index(rank_)];
  int before = place_;
  for (const int other : nodes_) before += other < mine;
  split(0, before, in_order_);
}

void NodeFirst::find_nodes(std::optional<int> node) {
  if (node) {
    check(MPI_Comm_split(all_, *node, rank_, on_node_.put()), "MPI_Comm_split");
  } else {
    check(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, on_node_.put()),
          "MPI_Comm_split_type");
  }
  check(MPI_Comm_set_errhandler(on_node_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(on_node_.get(), &place_), "MPI_Comm_rank");
  int size = 0;
  check(MPI_Comm_size(all_, &size), "MPI_Comm_size");
  int first = rank_;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, on_node_.get()), "MPI_Bcast");
  nodes_.resize(static_cast<std::size_t>(size));
  check(MPI_Allgather(&first, 1, MPI_INT, nodes_.data(), 1, MPI_INT, all_), "MPI_Allgather");
  // Replaces the first rank on each rank's node by the number of first ranks before it.
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    const int lowest = nodes_[index(rank)];
    nodes_[index(rank)] = lowest == rank ? count++ : nodes_[index(lowest)];
  }
}

void NodeFirst::barrier() const {
  if (!is_alone()) check(MPI_Barrier(on_node_.get()), "MPI_Barrier");
  if (is_first()) check(MPI_Barrier(across()), "MPI_Barrier");
  if (!is_alone()) check(MPI_Barrier(on_node_.get()), "MPI_Barrier");
}

void NodeFirst::broadcast(void* values, int count, MPI_Datatype type, int root) const {
  const auto pass = [&](int from, MPI_Comm communicator) {
    check(MPI_Bcast(values, count, type, from, communicator), "MPI_Bcast");
  };
  if (!has_ways_) return pass(root, all_);
  // The root's node, with its first rank, gets the values first.
  const int from = nodes_[index(root)];
  const bool is_roots = from == nodes_[index(rank_)];
  if (is_roots && !is_alone()) {
    pass(static_cast<int>(std::count(nodes_.begin(), nodes_.begin() + root, from)), on_node_.get());
  }
  if (is_first()) pass(from, across());
  if (!is_roots && !is_alone()) pass(0, on_node_.get());
}

NodeFirst::Reduction::Reduction(const NodeFirst& way, std::int64_t* values, int count, MPI_Op op)
    : way_(way), values_(values), count_(count), op_(op) {
  begin(way.is_alone() ? Stage::across : Stage::to_first);
}

void NodeFirst::Reduction::begin(Stage stage) {
  const MPI_Comm node = way_.on_node_.get();
  if (stage == Stage::to_first) {
    const bool takes = way_.is_first();
    way_.check(MPI_Ireduce(takes ? MPI_IN_PLACE : values_, takes ? values_ : nullptr, count_,
                           MPI_INT64_T, op_, 0, node, &request_),
               "MPI_Ireduce");
  } else if (stage == Stage::across) {
    way_.check(
        MPI_Iallreduce(MPI_IN_PLACE, values_, count_, MPI_INT64_T, op_, way_.across(), &request_),
        "MPI_Iallreduce");
  } else if (stage == Stage::from_first) {
    way_.check(MPI_Ibcast(values_, count_, MPI_INT64_T, 0, node, &request_), "MPI_Ibcast");
  }
  stage_ = stage;
}

bool NodeFirst::Reduction::is_done() {
  while (stage_ != Stage::done) {
    int done = 0;
    way_.check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) return false;
    switch (stage_) {
      case Stage::to_first:
        begin(way_.is_first() ? Stage::across : Stage::from_first);
        break;
      case Stage::across:
        begin(way_.is_alone() ? Stage::done : Stage::from_first);
        break;
      default:
        stage_ = Stage::done;
    }
  }
  return true;
}

}  // namespace cairn
