#include "mpi/mpi_group.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/mpi.hpp"
#include "mpi/mpi_check.hpp"
#include "mpi/mpi_reduction.hpp"

namespace cairn {
namespace {

// Point-to-point messages of the two kinds never match; collectives have a context of their own.
constexpr int exchange_tag = 1;
constexpr int message_tag = 2;

/// Calls function(offset, length) for each piece; once, with length 0, if there are no bytes.
template <class F>
void for_each_piece(std::size_t bytes, std::size_t piece, F function) {
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(piece, bytes - offset);
    function(offset, static_cast<int>(length));
    offset += length;
  } while (offset < bytes);
}

int rank_in(MPI_Comm communicator) {
  int rank = -1;
  check_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm communicator, int rank) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size", rank);
  return size;
}

void require_usable(MPI_Comm communicator) {
  if (!mpi_is_usable()) {
    throw Error(Code::invalid_argument, "MPI cannot be used now",
                "it is not initialised yet, or finalised already",
                "Make the group between MPI_Init and MPI_Finalize.");
  }
  if (communicator == MPI_COMM_NULL) {
    throw Error(Code::invalid_argument, "the communicator is MPI_COMM_NULL",
                "this rank is in no group", "Call cairn::mpi only on ranks that are in it.");
  }
  int is_inter = 0;
  check_mpi(MPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
  if (is_inter) {
    throw Error(Code::invalid_argument, "the communicator is an intercommunicator",
                "a checkpoint belongs to one group of ranks", "Merge it with MPI_Intercomm_merge.");
  }
}

// Here all ranks wait for each other for the first time.
std::shared_ptr<OwnCommunicator> own_communicator(MPI_Comm original,
                                                  std::optional<int> pretended_node) {
  require_usable(original);
  const int rank = rank_in(original);
  WatchedRank watched(rank, size_of(original, rank), [] { return std::vector<int>(); });
  watched.call("cairn::mpi");
  const Waiting waiting(watched, nullptr);
  auto made = std::make_shared<OwnCommunicator>(original);
  made->by_nodes.emplace(made->get(), rank, pretended_node);
  return made;
}

}  // namespace

OwnCommunicator::OwnCommunicator(MPI_Comm original) {
  check_mpi(MPI_Comm_dup(original, communicator_.put()), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  roll_call.open(get());
}

OwnCommunicator::~OwnCommunicator() {
  try {
    if (mpi_is_usable()) roll_call.close(get());
  } catch (const Error& error) {
    log(LogLevel::error, error.what());
  }
}

/// Requests under way. If an operation fails, the rest is cancelled as far as MPI allows.
class MpiGroup::Requests {
 public:
  explicit Requests(std::size_t count) { requests_.reserve(count); }
  ~Requests() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      // Only receives can be cancelled with every MPI. A send that is not complete is left to MPI.
      if (i < receives_) MPI_Cancel(&requests_[i]);
      int done = 0;
      if (MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done) continue;
      if (requests_[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests_[i]);
    }
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  MPI_Request* add(int expected_bytes = -1) {
    if (expected_bytes >= 0) {
      ++receives_;
      expected_.push_back(expected_bytes);
    }
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  /// Waits for all requests. Receives must have been added first.
  void wait(const MpiGroup& group);

 private:
  std::vector<MPI_Request> requests_;
  std::size_t receives_ = 0;
  std::vector<int> expected_;
};

void MpiGroup::Requests::wait(const MpiGroup& group) {
  // One by one: MPI_Waitall of Open MPI 4.1 can spin for ever on a message that is truncated.
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    MPI_Status status;
    group.check(MPI_Wait(&requests_[i], &status), "MPI_Wait");
    if (i >= receives_) continue;
    int bytes = 0;
    group.check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (bytes == expected_[i]) continue;
    throw Error(Code::communication,
                cat("a message from rank ", status.MPI_SOURCE, " to rank ", group.rank_, " has ",
                    bytes, " bytes where ", expected_[i], " were expected"))
        .on_rank(group.rank_);
  }
}

MpiGroup::MpiGroup(MPI_Comm original, std::size_t piece, std::optional<int> pretended_node)
    : communicator_(own_communicator(original, pretended_node)),
      piece_(std::max<std::size_t>(piece, 1)),
      rank_(rank_in(communicator_->get())),
      size_(size_of(communicator_->get(), rank_)),
      files_(communicator_->get(), rank_),
      datasets_(communicator_->get(), rank_, files_),
      watched_(rank_, size_, [made = communicator_.get()] { return made->roll_call.awaited(); }) {}

void MpiGroup::check(int code, const char* function) const { check_mpi(code, function, rank_); }

void MpiGroup::begin() const {
  if (mpi_is_usable()) return;
  // Not Code::communication, which would end the job: MPI_Finalize is collective, so all ranks get
  // this error.
  throw Error(Code::invalid_argument, "MPI is finalised already", "ranks can no longer be reached",
              "Finish checkpoints before MPI_Finalize.")
      .on_rank(rank_);
}

std::unique_ptr<MpiGroup::Requests> MpiGroup::begin_requests(std::span<const Send> sends,
                                                             std::span<const Receive> receives) {
  begin();
  check_exchange(sends, receives);
  std::size_t count = 0;
  const auto count_pieces = [&](std::size_t, int) { ++count; };
  for (const auto& receive : receives) for_each_piece(receive.bytes.size(), piece_, count_pieces);
  for (const auto& send : sends) for_each_piece(send.bytes.size(), piece_, count_pieces);
  auto requests = std::make_unique<Requests>(count);
  for (const auto& receive : receives) {
    for_each_piece(receive.bytes.size(), piece_, [&](std::size_t offset, int length) {
      check(MPI_Irecv(receive.bytes.data() + offset, length, MPI_BYTE, receive.from, exchange_tag,
                      communicator_->get(), requests->add(length)),
            "MPI_Irecv");
    });
  }
  for (const auto& send : sends) {
    for_each_piece(send.bytes.size(), piece_, [&](std::size_t offset, int length) {
      check(MPI_Isend(send.bytes.data() + offset, length, MPI_BYTE, send.to, exchange_tag,
                      communicator_->get(), requests->add()),
            "MPI_Isend");
    });
  }
  return requests;
}

void MpiGroup::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  const Waiting waiting(watched_, "in an exchange");
  begin_requests(sends, receives)->wait(*this);
}

class MpiGroup::UnderWay final : public Exchange {
 public:
  UnderWay(MpiGroup& group, std::unique_ptr<Requests> requests)
      : group_(group), requests_(std::move(requests)) {}
  void end() override {
    const Waiting waiting(group_.watched_, "in an exchange");
    requests_->wait(group_);
  }

 private:
  MpiGroup& group_;
  std::unique_ptr<Requests> requests_;
};

std::unique_ptr<Group::Exchange> MpiGroup::begin_exchange(std::span<const Send> sends,
                                                          std::span<const Receive> receives) {
  return std::make_unique<UnderWay>(*this, begin_requests(sends, receives));
}

// A message is a number of full pieces and a last one that is shorter, possibly empty: so the
// receiver need not be told the length.
void MpiGroup::send(int to, std::string_view bytes) {
  begin();
  check_rank(to);
  if (to == rank_) {
    to_itself_.emplace_back(bytes);
    return;
  }
  const Waiting waiting(watched_, "sending a message", to);
  for (std::size_t offset = 0;; offset += piece_) {
    const std::size_t length = std::min(piece_, bytes.size() - offset);
    check(MPI_Send(bytes.data() + offset, static_cast<int>(length), MPI_BYTE, to, message_tag,
                   communicator_->get()),
          "MPI_Send");
    if (length < piece_) return;
  }
}

std::string MpiGroup::receive(int from) {
  begin();
  check_rank(from);
  std::string bytes;
  if (from == rank_) {
    if (to_itself_.empty()) {
      throw Error(Code::communication,
                  cat("rank ", rank_, " waits for a message from itself that it has not sent"))
          .on_rank(rank_);
    }
    bytes = std::move(to_itself_.front());
    to_itself_.pop_front();
    return bytes;
  }
  const Waiting waiting(watched_, "at a message", from);
  for (;;) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int length = 0;
    check(MPI_Mprobe(from, message_tag, communicator_->get(), &message, &status), "MPI_Mprobe");
    check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    const std::size_t offset = bytes.size();
    bytes.resize(offset + static_cast<std::size_t>(length));
    check(MPI_Mrecv(bytes.data() + offset, length, MPI_BYTE, &message, &status), "MPI_Mrecv");
    if (static_cast<std::size_t>(length) < piece_) return bytes;
  }
}

void MpiGroup::barrier() {
  begin();
  const Waiting waiting(watched_, "in a barrier");
  communicator_->by_nodes->barrier();
}

void MpiGroup::broadcast(std::string& bytes, int root) {
  begin();
  check_rank(root);
  const Waiting waiting(watched_, "in a broadcast", root == rank_ ? -1 : root);
  std::uint64_t size = bytes.size();
  const auto& by_nodes = *communicator_->by_nodes;
  by_nodes.broadcast(&size, 1, MPI_UINT64_T, root);
  if (rank_ != root) bytes.resize(size);
  if (size == 0) return;
  for_each_piece(size, piece_, [&](std::size_t offset, int length) {
    by_nodes.broadcast(bytes.data() + offset, length, MPI_BYTE, root);
  });
}

void MpiGroup::all_reduce(std::span<std::int64_t> values, Op op) {
  begin();
  if (values.empty()) return;
  const Waiting waiting(watched_, "in a reduction");
  const MPI_Op operation = op == Op::min ? MPI_MIN : op == Op::max ? MPI_MAX : MPI_SUM;
  for_each_piece(values.size(), piece_, [&](std::size_t offset, int count) {
    // Not MPI_Allreduce: most waits of a save are for agreements, and a report should name the
    // missing ranks.
    NodeFirst::Reduction reduction(*communicator_->by_nodes, values.data() + offset, count,
                                   operation);
    auto& roll_call = communicator_->roll_call;
    const auto number = roll_call.begin(communicator_->get());
    roll_call.wait(communicator_->get(), number, [&] { return reduction.is_done(); });
  });
}

std::unique_ptr<Group::Reduction> MpiGroup::reduction(std::size_t count, Op op) {
  begin();
  return std::make_unique<MpiReduction>(communicator_, rank_, count, op);
}

void MpiGroup::abort(std::string_view message) {
  tell_fatal(cat("rank ", rank_, ": ", message));
  if (mpi_is_usable()) MPI_Abort(communicator_->get(), EXIT_FAILURE);
  std::abort();
}

std::shared_ptr<Group> mpi(MPI_Comm communicator) {
  return std::make_shared<MpiGroup>(communicator);
}

}  // namespace cairn
