#include "lab/bench/scale_job.hpp"

#include <map>
#include <new>
#include <optional>
#include <utility>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "lab/bench/scale_states.hpp"
#include "store/commit/ownership.hpp"
#include "testing/machine_files.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::bench {
namespace {

/// The default memory uses huge pages, which are more than a simulated rank's share of this
/// machine.
class SmallMemory : public StagingMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}, std::nothrow));
  }
  void give_back(std::byte* memory, std::size_t) override {
    ::operator delete (memory, std::align_val_t{4096});
  }
};

/// Silences the log, and switches off all that depends on the system's clock.
class Quiet {
 public:
  Quiet() : limits_(wait_limits()), ownership_(commit::default_ownership()) {
    set_log_sink([](LogLevel, std::string_view) {});
    set_wait_limits({.log_seconds = 0, .end_seconds = 0});
    commit::default_ownership().heartbeat_seconds = 1e6;
  }
  ~Quiet() {
    commit::default_ownership() = ownership_;
    set_wait_limits(limits_);
    set_log_sink({});
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  const WaitLimits limits_;
  const commit::OwnershipOptions ownership_;
};

/// A job on a machine, with a disk that may outlive the job.
class Run {
 public:
  Run(const ScaleJob& job, std::shared_ptr<io::MemoryFileSystem> disk, int ranks,
      const std::function<void(const ScaleCall&)>& take)
      : job_(job),
        disk_(std::move(disk)),
        machine_(ranks, job.machine),
        record_(machine_, job.take_most_memory),
        take_(take) {}

  void saves() {
    run([this](Rank& rank) { saves(rank); });
  }
  void restores_on_half() {
    run([this](Rank& rank) {
      rank.state = make_scale_state(job_.state, rank.group->rank(), rank.group->size(), 2);
      rank.open();
      measure(rank, "restore on half", [&] { rank.restore(); });
    });
  }

 private:
  struct Rank {
    Rank(Machine& machine, const std::shared_ptr<io::FileSystem>& disk,
         std::shared_ptr<Group> ranks, const ScaleJob& job)
        : group(std::move(ranks)),
          watch(machine, group->rank()),
          queue(std::make_shared<MachineQueue>(machine, group->rank())) {
      options.write.file_system = std::make_shared<io::CountingFiles>(disk, &watch);
      options.write.owner_wait_seconds = 0;
      options.write.io_ranks = job.io_ranks;
      options.keep.last = 2;
      options.async.queue = queue;
      options.async.pool_bytes = std::int64_t{1} << 30;
      options.async.memory = std::make_shared<SmallMemory>();
    }
    void open() {
      manager.reset();
      group->barrier();
      manager.emplace(group, "/run", options);
    }
    void save() { manager->save(++step, state->state); }
    void restore() {
      if (!manager->restore_latest(state->state)) {
        throw Error(Code::internal, "there is no checkpoint to restore");
      }
    }

    std::shared_ptr<Group> group;
    MachineFiles watch;
    std::shared_ptr<MachineQueue> queue;
    ManagerOptions options;
    std::unique_ptr<ScaleState> state;
    std::optional<CheckpointManager> manager;
    std::int64_t step = 0;
  };

  template <class Body>
  void run(Body&& body) {
    ThreadOptions options;
    options.machine = &machine_;
    run_threads(
        machine_.ranks(),
        [&](std::shared_ptr<Group> group) {
          Rank rank(machine_, disk_, std::move(group), job_);
          body(rank);
        },
        options);
  }

  // Measures a call; of several with the same name the shortest counts.
  template <class Call>
  void measure(Rank& rank, const std::string& what, Call&& call) {
    const int number = rank.group->rank();
    rank.group->barrier();
    record_.begin(number);
    call();
    record_.end(number);
    rank.group->barrier();
    if (number == 0) keep(what);
    rank.group->barrier();
  }

  void keep(const std::string& what) {
    const int owner = std::exchange(Machine::owner, -1);
    disk_->mark();
    const ScaleCall made{what, job_.ranks, record_.rows()};
    const auto seconds = made.row("all").seconds;
    const auto [shortest, is_first] = seconds_.emplace(what, seconds);
    if (is_first || seconds < shortest->second) {
      shortest->second = seconds;
      take_(made);
    }
    Machine::owner = owner;
  }

  void saves(Rank& rank) {
    rank.state = make_scale_state(job_.state, rank.group->rank(), rank.group->size());
    rank.state->state.store(job_.storage);
    measure(rank, "open an empty directory", [&] { rank.open(); });
    measure(rank, "first save", [&] { rank.save(); });
    for (int i = 0; i < 3; ++i) rank.save();
    for (int i = 0; i < job_.repetitions; ++i) measure(rank, "steady save", [&] { rank.save(); });
    if (job_.async) {
      for (int i = 0; i < 3; ++i) save_async(rank, i < 2);
    }
    if (!job_.restores) return;
    measure(rank, "open", [&] { rank.open(); });
    measure(rank, "restore", [&] { rank.restore(); });
  }

  void save_async(Rank& rank, bool warms_up) {
    const auto save = [&] {
      rank.queue->behind_the_back = true;
      rank.manager->save_async(++rank.step, rank.state->state);
      rank.queue->behind_the_back = false;
    };
    const auto wait = [&] { rank.manager->wait(); };
    if (warms_up) {
      save();
      rank.queue->wait();
      return wait();
    }
    measure(rank, "save_async", save);
    rank.queue->wait();
    measure(rank, "wait", wait);
  }

  const ScaleJob& job_;
  std::shared_ptr<io::MemoryFileSystem> disk_;
  Machine machine_;
  ScaleRecord record_;
  const std::function<void(const ScaleCall&)>& take_;
  std::map<std::string, double> seconds_;  // the shortest so far, by call
};

}  // namespace

const ScaleRow& ScaleCall::row(const std::string& stage) const {
  for (const auto& row : rows) {
    if (row.stage == stage) return row;
  }
  throw Error(Code::not_found, what + " has no stage '" + stage + "'");
}

void simulate(const ScaleJob& job, const std::function<void(const ScaleCall&)>& take) {
  const Quiet quiet;
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  Run(job, disk, job.ranks, take).saves();
  if (job.restores) Run(job, disk, job.ranks / 2, take).restores_on_half();
}

}  // namespace cairn::bench
