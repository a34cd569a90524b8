// Pending saves: their handles, their objects, which are used again, and the memory of their
// copies.
#include "session/pending_saves.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// The kind of memory that the first of the slices asks for that asks; null: none does.
std::shared_ptr<StagingMemory> staging_of(const RefreshedState& state) {
  for (const auto& [key, tensor] : state.tensors()) {
    for (const auto& slice : tensor.slices) {
      if (auto memory = slice.memory->staging()) return memory;
    }
  }
  return nullptr;
}

}  // namespace

std::int64_t SaveHandle::step() const { return shared_->step; }
SaveStage SaveHandle::stage() const { return shared_->stage; }
void SaveHandle::wait_written() const {
  if (!shared_->rank_is_done && ::getpid() != shared_->process) {
    throw Error(Code::invalid_argument, cat("a forked process waits for the save of step ", step()),
                "what writes it belongs to the process that was forked", "Wait there only.");
  }
  shared_->rank_is_done.wait(false);
  if (const auto failed = error()) throw Error(*failed);
}
void SaveHandle::release() const {
  // A forked child has memory of its own.
  if (::getpid() == shared_->process) shared_->window.release();
}
std::optional<Error> SaveHandle::error() const {
  const MutexLock guard(shared_->mutex);
  return shared_->error;
}
std::string SaveHandle::prefix() const {
  const MutexLock guard(shared_->mutex);
  return shared_->prefix;
}
std::string SaveHandle::blocked_because() const {
  const MutexLock guard(shared_->mutex);
  return shared_->blocked_because;
}

SaveHandle done_handle(std::int64_t step, std::string prefix, SaveStage stage,
                       std::string because) {
  auto shared = std::make_shared<SaveHandle::Shared>(step);
  const MutexLock guard(shared->mutex);
  shared->prefix = std::move(prefix);
  shared->blocked_because = std::move(because);
  shared->stage = stage;
  shared->end_of_writing();
  return SaveHandle(std::move(shared));
}

void become_idle(const PendingSave& pending) {
  // A copy: once `idle` is true, the caller's thread may end the pending save.
  const auto handle = pending.handle;
  handle->end_of_writing();
  handle->idle = true;
  handle->idle.notify_all();
}

PendingSaves::PendingSaves(const Job& job)
    : job_(job),
      pool_(job.options.async.memory ? job.options.async.memory : page_memory()),
      rest_(job.options.async.memory ? job.options.async.memory : page_memory()),
      buffer_(page_memory()) {}

PendingSaves::~PendingSaves() { drain(); }

bool PendingSaves::has(std::int64_t step) const {
  return std::any_of(pending_saves_.begin(), pending_saves_.end(),
                     [&](const auto& pending) { return pending->asked.step == step; });
}

bool PendingSaves::is_alone(const Draft* draft) const {
  if (!draft) return pending_saves_.size() <= 1;
  return std::all_of(pending_saves_.begin(), pending_saves_.end(), [&](const auto& pending) {
    return pending->prepared && pending->prepared->draft.uuid() == draft->uuid();
  });
}

bool PendingSaves::any_takes_waiting(std::int64_t but_step) const {
  return std::any_of(pending_saves_.begin(), pending_saves_.end(), [&](const auto& pending) {
    if (pending->asked.step == but_step || pending->result.merged) return false;
    // While the writing thread works, it may be making the draft, so only the id can be looked at.
    if (pending->id)
      return pending->id->files.recycled_bytes >= 0 && pending->id->files.left_step < 0;
    return pending->prepared->draft.takes_waiting();
  });
}

std::vector<std::int64_t> PendingSaves::steps_but(std::int64_t step) const {
  std::vector<std::int64_t> steps;
  for (const auto& pending : pending_saves_) {
    if (pending->asked.step != step) steps.push_back(pending->asked.step);
  }
  return steps;
}

std::optional<Error> PendingSaves::take_earlier_failure() {
  if (auto failed = std::exchange(earlier_failure_, std::nullopt)) return std::move(failed->second);
  return std::nullopt;
}

void PendingSaves::throw_earlier_failure() {
  const auto error = take_earlier_failure();
  throws_earlier_ = error.has_value();
  if (error) throw Error(*error);
}

// Names the steps, unless checkpoints have names of their own: then the application knows no steps.
void PendingSaves::throw_earlier_failure_instead_of(std::int64_t step) {
  if (!earlier_failure_) return throw_earlier_failure();
  const auto before = earlier_failure_->first;
  const auto& error = earlier_failure_->second;
  const auto unsaved =
      !job_.naming.numbered || step < 0 ? std::string("nothing was saved: an earlier save")
      : before == step ? cat("step ", step, " was not saved: an earlier save of it")
                       : cat("step ", step, " was not saved: the save of step ", before);
  earlier_failure_->second =
      Error(error.code(), cat(unsaved, " failed: ", error.problem()), error.reason(),
            error.way_out().empty() ? "Save this one again."
                                    : cat(error.way_out(), " Then save this one again."))
          .at(error.path())
          .of_tensor(error.tensor())
          .on_rank(error.rank());
  throw_earlier_failure();
}

void PendingSaves::wait_until_idle() const {
  for (const auto& pending : pending_saves_) pending->handle->idle.wait(false);
}

// The object may be one that was used before, so this sets back what the next save does not set by
// itself. What holds much memory was freed by retire().
std::unique_ptr<PendingSave> PendingSaves::make(std::int64_t step, bool background,
                                                const SaveCall& call) {
  std::unique_ptr<PendingSave> pending;
  if (completed_.empty()) {
    pending = std::make_unique<PendingSave>();
    // As many as there can be, so that later saves allocate nothing: two that are pending, and one
    // that begins.
    pending_saves_.reserve(2);
    completed_.reserve(3);
  } else {
    pending = std::move(completed_.back());
    completed_.pop_back();
    pending->asked = {};
    pending->id.reset();
    pending->copy.memory = {};
    pending->copy.places.at.clear();
    pending->copy.places.left_out = 0;
    pending->copy.held = {};
    pending->result.merged = pending->cancelled = false;
    pending->result.index.reset();
    pending->failure = nullptr;
  }
  // If the application still has a handle of the ended save, that handle must not change.
  if (!pending->handle || pending->handle.use_count() > 1) {
    pending->handle = std::make_shared<SaveHandle::Shared>(step);
  } else {
    auto& shared = *pending->handle;
    const MutexLock guard(shared.mutex);
    shared.step = step;
    shared.stage = SaveStage::captured;
    shared.rank_is_done = false;
    shared.error.reset();
    shared.prefix.clear();
    shared.blocked_because.clear();
  }
  // The slot that the other pending save does not use.
  pending->slot = !empty() && first().slot == 0;
  pending->asked.step = step;
  pending->asked.background = background;
  pending->asked.is_flush = pending->asked.pins = false;
  pending->asked.metric.reset();
  pending->asked.descriptions.reset();
  pending->asked.at = call.at;
  pending->result.notes = {};
  pending->figures = {};
  pending->figures.step = step;
  pending->figures.asynchronous = background;
  pending->figures.blocking_because = call.why_blocking;
  pending->figures.seconds.wait = std::chrono::duration<double>(call.way - call.at).count();
  return pending;
}

void PendingSaves::add(std::unique_ptr<PendingSave> pending) {
  pending_saves_.push_back(std::move(pending));
}

void PendingSaves::retire(std::unique_ptr<PendingSave> pending) {
  pending->let_go();
  pending->plan.reset();
  pending->prepared.reset();
  pending->result.replaced.reset();
  pending->result.data_files.clear();
  pending->copy.runs.clear();
  pending->copy.sent.clear();
  pending->result.entries = {};
  pending->result.joined = {};
  pending->result.frozen = {};
  completed_.push_back(std::move(pending));
}

void PendingSaves::retire_first() {
  retire(std::move(pending_saves_.front()));
  pending_saves_.erase(pending_saves_.begin());
}

void PendingSaves::retire_last() {
  retire(std::move(pending_saves_.back()));
  pending_saves_.pop_back();
}

// Uses the kind of memory that slices ask for. If none asks, keeps the memory that there is.
void PendingSaves::choose_memory(const RefreshedState& state) {
  const auto asked = staging_of(state);
  const auto choose = [&](io::StagingPool& pool) {
    if (asked) return pool.take_from(asked);
    if (!pool.intact()) pool.take_from(page_memory());
  };
  choose(buffer_);
  if (job_.options.async.memory) return;
  choose(pool_);
  choose(rest_);
}

// For one chunk. Memory that a device is slow to write serves if there is no other.
Window::Room PendingSaves::take_buffer(std::int64_t bytes) {
  if (bytes == 0) return {};
  auto memory = buffer_.reserve(bytes);
  if (memory.empty()) {
    buffer_.take_from(page_memory());
    memory = buffer_.reserve(bytes);
  }
  if (memory.empty()) throw std::bad_alloc();
  return {memory, buffer_.hold()};
}

// The most that a pool may have. By default the ranks of a node share half of the memory that is
// free now or in the pool.
std::int64_t PendingSaves::most_bytes(const io::StagingPool& pool, const CaptureForm& form) const {
  if (const auto most = job_.options.async.pool_bytes; most > 0) return most;
  const auto ranks = std::count(job_.places.node_of.begin(), job_.places.node_of.end(),
                                job_.places.node_of[static_cast<std::size_t>(job_.rank())]);
  // A served rank needs almost no memory, so its share goes to its io rank.
  return (io::available_memory() + pool.bytes()) / 2 / ranks * form.ranks();
}

std::int64_t PendingSaves::measure(PendingSave& pending, const RefreshedState& state) {
  const auto& plan = *pending.plan;
  pending.copy.places.left_out = plan.capture.left_out(state, pending.asked.until);
  return plan.copy_bytes(state, pending.asked.until);
}

// Makes the plan's form of a copy anew, and takes memory for it. Too little memory is no error: the
// caller then saves blocking.
std::string PendingSaves::reserve(PendingSave& pending, const RefreshedState& state) {
  Group& group = *job_.group;
  auto& plan = *pending.plan;
  std::int64_t lacking = 0;
  run_and_agree(group, [&] {
    plan.capture = CaptureForm(state, plan.local, plan.layout.first_file, plan.layout.one_file,
                               plan.dense.bytes > 0 ? capture_bytes(plan.dense) : 0);
  });
  plan.capture.tell_io_ranks(job_);
  run_and_agree(group, [&] {
    const auto bytes = measure(pending, state);
    choose_memory(state);
    const bool is_limited = job_.options.async.pool_bytes > 0;
    if ((is_limited || bytes > pool_.bytes()) && bytes > most_bytes(pool_, plan.capture)) {
      lacking = bytes;
    } else {
      pending.copy.memory = pool_.reserve(bytes);
      pending.copy.held = pool_.hold();
      if (bytes > 0 && pending.copy.memory.empty()) lacking = bytes;
    }
  });
  // If one rank lacks memory, all of them save blocking.
  lacking = all_reduce(group, lacking, Group::Op::max);
  if (lacking > 0) {
    return cat("a rank's copy of ", bytes_text(static_cast<double>(lacking)),
               " does not fit its memory");
  }
  return "";
}

void PendingSaves::reserve_again(PendingSave& pending, const RefreshedState& state) {
  pending.copy.memory = pool_.reserve(measure(pending, state));
  pending.copy.held = pool_.hold();
}

// release() may be called while a later call works on the catalog, but not after the bytes of this
// save are written. So only one save at a time uses the memory of the rest.
void PendingSaves::leave(PendingSave& pending, const RefreshedState& state) {
  if (pending.asked.until == Until::captured) return;
  auto& window = pending.handle->window;
  const auto& form = pending.plan->capture;
  CopiedWhole told;
  form.leave(state, pending.copy.places.at, window, told);
  StayingRuns(state, pending.plan->dense, pending.asked.until, &told).leave(window);
  auto why = form.is_served() ? std::string("all is copied at the call: an io rank writes it")
                              : told.text();
  if (!why.empty()) pending.handle->tell_why(std::move(why));
  window.open(
      static_cast<std::uint64_t>(pending.asked.step), take_buffer(window.buffer_bytes()),
      [this, &form](std::int64_t bytes) -> Window::Room {
        if (bytes > rest_.bytes() && bytes > most_bytes(rest_, form)) return {};
        const auto memory = rest_.reserve(bytes);
        rest_bytes_ = rest_.bytes();
        return {memory, memory.empty() ? io::StagingPool::Hold() : rest_.hold()};
      },
      job_.options.async.check_promise || std::getenv("CAIRN_CHECK_PROMISE"));
  pending.copy.window = Window::Open(window);
}

}  // namespace cairn
