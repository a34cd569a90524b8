#include "mpi/mpi_reduction.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "mpi/mpi_check.hpp"
#include "mpi/mpi_group.hpp"

namespace cairn {
namespace {

class LeftOver {
 public:
  void add(std::unique_ptr<MpiReduction::Work> work) {
    const MutexLock guard(mutex_);
    list_.push_back(std::move(work));
    if (!std::exchange(told_finalize_, true)) tell_finalize();
  }
  void let_go() {
    const MutexLock guard(mutex_);
    std::erase_if(list_, [&](const auto& work) CAIRN_REQUIRES(mutex_) {
      if (!is_complete(*work)) return false;
      keep(work->communicator);
      return true;
    });
  }
  int count() const {
    const MutexLock guard(mutex_);
    return static_cast<int>(list_.size());
  }

 private:
  // Communicators are kept and not freed: freeing one is collective, and ranks find out at
  // different moments. MPI_Finalize frees them.
  void keep(const std::shared_ptr<OwnCommunicator>& communicator) CAIRN_REQUIRES(mutex_) {
    if (std::find(kept_.begin(), kept_.end(), communicator) == kept_.end()) {
      kept_.push_back(communicator);
    }
  }

  static bool is_complete(MpiReduction::Work& work) {
    int done = 0;
    // After an error nothing is known of the request: it stays.
    return MPI_Test(&work.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
  }

  // MPI_Finalize first deletes the attributes of MPI_COMM_SELF, which calls before_finalize().
  static void tell_finalize();
  void before_finalize() {
    const MutexLock guard(mutex_);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    do {
      for (auto& work : list_) {
        if (!is_complete(*work)) continue;
        keep(work->communicator);
        work.reset();
      }
      std::erase(list_, nullptr);
    } while (!list_.empty() && std::chrono::steady_clock::now() < until);
  }

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<MpiReduction::Work>> list_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<OwnCommunicator>> kept_ CAIRN_GUARDED_BY(mutex_);
  bool told_finalize_ CAIRN_GUARDED_BY(mutex_) = false;
};

// Never destroyed: MPI may be used, and write to this memory, after the statics of this file are
// gone.
LeftOver& left_over() {
  static auto* const all = new LeftOver;
  return *all;
}

void LeftOver::tell_finalize() {
  const auto at_end = [](MPI_Comm, int, void*, void*) -> int {
    left_over().before_finalize();
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, nullptr) != MPI_SUCCESS) return;
  // If one of these calls fails, and the handler of MPI_COMM_SELF lets the job go on, MPI_Finalize
  // does not wait for reductions that are left over.
  static_cast<void>(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
  static_cast<void>(MPI_Comm_free_keyval(&key));
}

}  // namespace

int reductions_left_over() { return left_over().count(); }

MpiReduction::MpiReduction(std::shared_ptr<OwnCommunicator> communicator, int rank,
                           std::size_t count, Group::Op op)
    : work_(std::make_unique<Work>()),
      rank_(rank),
      op_(op == Group::Op::min   ? MPI_MIN
          : op == Group::Op::max ? MPI_MAX
                                 : MPI_SUM) {
  work_->communicator = std::move(communicator);
  work_->given.resize(count);
  work_->result.resize(count);
}

MpiReduction::~MpiReduction() {
  if (!under_way()) return;
  try {
    if (mpi_is_usable()) {
      left_over().add(std::move(work_));
      left_over().let_go();
      return;
    }
  } catch (...) {  // the memory is not freed: MPI may still write to it
  }
  static_cast<void>(work_.release());
}

void MpiReduction::require_usable() const {
  if (mpi_is_usable()) return;
  // Not Code::communication, which would end the job: MPI_Finalize is collective, so all ranks get
  // this error.
  throw Error(Code::invalid_argument, "MPI is finalised already", "ranks can no longer be reached",
              "Finish checkpoints before MPI_Finalize.")
      .on_rank(rank_);
}

void MpiReduction::begin(std::span<const std::int64_t> values) {
  require_usable();
  auto& work = *work_;
  check_reduction(values.size(), work.given.size(), under_way(), false, rank_);
  if (reductions_left_over() > 0) left_over().let_go();
  std::copy(values.begin(), values.end(), work.given.begin());
  check_mpi(
      MPI_Iallreduce(work.given.data(), work.result.data(), static_cast<int>(work.given.size()),
                     MPI_INT64_T, op_, work.communicator->by_nodes->in_order(), &work.request),
      "MPI_Iallreduce", rank_);
  work.number = work.communicator->roll_call.begin(work.communicator->get());
}

void MpiReduction::end(std::span<std::int64_t> values) {
  require_usable();
  auto& work = *work_;
  check_reduction(values.size(), work.given.size(), under_way(), true, rank_);
  auto& communicator = *work.communicator;
  communicator.roll_call.wait(communicator.get(), work.number, [&] {
    int done = 0;
    check_mpi(MPI_Test(&work.request, &done, MPI_STATUS_IGNORE), "MPI_Test", rank_);
    return done != 0;
  });
  std::copy(work.result.begin(), work.result.end(), values.begin());
}

}  // namespace cairn
