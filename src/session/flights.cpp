#include "session/flights.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {

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

void become_idle(const Flight& flight) {
  const auto handle = flight.handle;
  handle->end_of_writing();
  handle->idle = true;
  handle->idle.notify_all();
}

Flights::Flights(const Job& job)
    : job_(job), pool_(job.options.async.memory ? job.options.async.memory : page_memory()) {}

Flights::~Flights() { drain(); }

bool Flights::has(std::int64_t step) const {
  return std::any_of(flights_.begin(), flights_.end(),
                     [&](const auto& flight) { return flight->asked.step == step; });
}

bool Flights::is_alone(const Draft* draft) const {
  if (!draft) return flights_.size() <= 1;
  return std::all_of(flights_.begin(), flights_.end(), [&](const auto& flight) {
    return flight->prepared && flight->prepared->draft.uuid() == draft->uuid();
  });
}

bool Flights::any_takes_waiting(std::int64_t but_step) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const auto& flight) {
    if (flight->asked.step == but_step || flight->result.merged) return false;
    if (flight->id) return flight->id->files.recycled_bytes >= 0 && flight->id->files.left_step < 0;
    return flight->prepared->draft.takes_waiting();
  });
}

std::vector<std::int64_t> Flights::steps_but(std::int64_t step) const {
  std::vector<std::int64_t> steps;
  for (const auto& flight : flights_) {
    if (flight->asked.step != step) steps.push_back(flight->asked.step);
  }
  return steps;
}

std::optional<Error> Flights::take_earlier_failure() {
  if (auto failed = std::exchange(earlier_failure_, std::nullopt)) return std::move(failed->second);
  return std::nullopt;
}

void Flights::throw_earlier_failure() {
  const auto error = take_earlier_failure();
  throws_earlier_ = error.has_value();
  if (error) throw Error(*error);
}

// Checkpoints under names of their own have no steps that the application knows.
void Flights::throw_earlier_failure_instead_of(std::int64_t step) {
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

void Flights::wait_until_idle() const {
  for (const auto& flight : flights_) flight->handle->idle.wait(false);
}

std::unique_ptr<Flight> Flights::make(std::int64_t step, bool background, const SaveCall& call) {
  std::unique_ptr<Flight> flight;
  if (landed_.empty()) {
    flight = std::make_unique<Flight>();
    flights_.reserve(2);
    landed_.reserve(3);
  } else {
    flight = std::move(landed_.back());
    landed_.pop_back();
    flight->id.reset();
    flight->copy.memory = {};
    flight->copy.held = {};
    flight->result.merged = flight->cancelled = false;
    flight->result.index.reset();
    flight->failure = nullptr;
  }
  if (!flight->handle || flight->handle.use_count() > 1) {
    flight->handle = std::make_shared<SaveHandle::Shared>(step);
  } else {
    auto& shared = *flight->handle;
    const MutexLock guard(shared.mutex);
    shared.step = step;
    shared.stage = SaveStage::captured;
    shared.rank_is_done = false;
    shared.error.reset();
    shared.prefix.clear();
  }
  flight->slot = !empty() && first().slot == 0;
  flight->asked.step = step;
  flight->asked.background = background;
  flight->asked.is_flush = flight->asked.pins = false;
  flight->asked.metric.reset();
  flight->asked.descriptions.reset();
  flight->asked.at = call.at;
  flight->result.notes = {};
  flight->figures = {};
  flight->figures.step = step;
  flight->figures.asynchronous = background;
  flight->figures.blocking_because = call.why_blocking;
  flight->figures.seconds.wait = std::chrono::duration<double>(call.way - call.at).count();
  return flight;
}

void Flights::add(std::unique_ptr<Flight> flight) { flights_.push_back(std::move(flight)); }

void Flights::retire(std::unique_ptr<Flight> flight) {
  flight->copy.held = {};
  flight->plan.reset();
  flight->prepared.reset();
  flight->result.replaced.reset();
  flight->result.data_files.clear();
  flight->copy.runs.clear();
  flight->copy.sent.clear();
  flight->result.entries.clear();
  flight->result.joined = {};
  flight->result.frozen = {};
  landed_.push_back(std::move(flight));
}

void Flights::retire_first() {
  retire(std::move(flights_.front()));
  flights_.erase(flights_.begin());
}

void Flights::retire_last() {
  retire(std::move(flights_.back()));
  flights_.pop_back();
}

// The memory that slices ask for. A state without such slices takes what there is.
void Flights::choose_memory(const SeenState& state) {
  for (const auto& [key, tensor] : state.tensors()) {
    for (const auto& slice : tensor.slices) {
      if (auto memory = slice.memory->staging()) return pool_.take_from(std::move(memory));
    }
  }
  if (!pool_.intact()) pool_.take_from(page_memory());
}

std::string Flights::reserve(Flight& flight, const SeenState& state) {
  Group& group = *job_.group;
  auto& plan = *flight.plan;
  std::int64_t lacking = 0;
  together(group, [&] {
    const auto out = outgoing(state, plan.local, plan.layout.first_file, plan.layout.one_file);
    plan.capture = CaptureForm(state, out, plan.dense.bytes > 0 ? capture_bytes(plan.dense) : 0);
  });
  plan.capture.meet(job_);
  together(group, [&] {
    const auto bytes = plan.capture.layout().bytes;
    if (!job_.options.async.memory) choose_memory(state);
    auto most = job_.options.async.pool_bytes;
    if (bytes > pool_.bytes() && most == 0) {
      const auto ranks = std::count(job_.places.node_of.begin(), job_.places.node_of.end(),
                                    job_.places.node_of[static_cast<std::size_t>(job_.rank())]);
      // A rank that others serve needs next to nothing, and its share is theirs.
      most = (io::available_memory() + pool_.bytes()) / 2 / ranks * plan.capture.ranks();
    }
    if (most > 0 && bytes > most) {
      lacking = bytes;
    } else {
      flight.copy.memory = pool_.reserve(bytes);
      flight.copy.held = pool_.hold();
      if (bytes > 0 && flight.copy.memory.empty()) lacking = bytes;
    }
  });
  lacking = all_reduce(group, lacking, Group::Op::max);
  if (lacking > 0) {
    return cat("a rank's copy of ", bytes_text(static_cast<double>(lacking)),
               " does not fit its memory");
  }
  return "";
}

void Flights::reserve_again(Flight& flight) {
  flight.copy.memory = pool_.reserve(flight.plan->capture.layout().bytes);
  flight.copy.held = pool_.hold();
}

}  // namespace cairn
