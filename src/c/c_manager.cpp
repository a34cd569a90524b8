#include "cairn/c/manager.h"

#include <optional>
#include <utility>

#include "c/c_contents.hpp"
#include "c/handles.hpp"
#include "c/manager_reports.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/hdf5.hpp"

using namespace cairn;
using c::call;
using c::given;

struct cairn_manager {
  CheckpointManager manager;
  std::string prefix = {};
  std::unique_ptr<c::OwnedReport> report = {};
  std::unique_ptr<c::OwnedSteps> steps = {};
  std::unique_ptr<c::OwnedReason> reason = {};
};
struct cairn_save {
  SaveHandle handle;
};

namespace {

// If one rank gives NULL for a state, a check before the collective call would return on that rank
// only, and leave the others waiting. So the call begins with this state, whose refresh fails, and
// then fails on all ranks.
struct NoState final : TensorSource {
  void refresh(LocalTensor&) const override {
    throw Error(Code::invalid_argument, "the state of this call is NULL");
  }
};
State& state_or_refused(cairn_state* state, State& none) {
  if (state) return state->state;
  auto tensor = nothing(DType::float32, {0});
  tensor.source = std::make_shared<NoState>();
  return none.add("?", std::move(tensor));
}
State& state_or_refused(const cairn_state* state, State& none) {
  return state_or_refused(const_cast<cairn_state*>(state), none);
}

template <class Handle>
auto options_or_default(const Handle* handle) {
  return handle ? handle->options : decltype(handle->options){};
}

const cairn_report* keep(cairn_manager& manager, RestoreReport report) {
  manager.report = std::make_unique<c::OwnedReport>(std::move(report));
  return &manager.report->shown;
}

CheckpointManager& of(cairn_manager* manager) { return given(manager, "the manager").manager; }

}  // namespace

int cairn_manager_create(cairn_group* group, const char* directory, const cairn_options* options,
                         cairn_manager** manager) {
  return call([&] {
    const auto& ranks = given(group, "the group").group;
    run_and_agree(ranks, [&] {
      given(directory, "the directory");
      given(manager, "the address for the manager");
    });
    *manager = new cairn_manager{CheckpointManager(ranks, directory, options_or_default(options))};
  });
}
void cairn_manager_free(cairn_manager* manager) { delete manager; }

int cairn_manager_save(cairn_manager* manager, int64_t step, const cairn_state* state,
                       const cairn_save_options* options, const char** prefix) {
  return call([&] {
    State none;
    auto& saving = of(manager);
    manager->prefix = saving.save(step, state_or_refused(state, none), options_or_default(options));
    if (prefix) *prefix = manager->prefix.c_str();
  });
}

int cairn_manager_save_async(cairn_manager* manager, int64_t step, const cairn_state* state,
                             const cairn_save_options* options, cairn_save** save) {
  return call([&] {
    State none;
    auto handle =
        of(manager).save_async(step, state_or_refused(state, none), options_or_default(options));
    if (save) *save = new cairn_save{std::move(handle)};
  });
}

int cairn_manager_poll(cairn_manager* manager, int* idle) {
  return call([&] {
    const bool none = of(manager).poll();
    if (idle) *idle = none;
  });
}
int cairn_manager_wait(cairn_manager* manager) {
  return call([&] { of(manager).wait(); });
}
int cairn_manager_wait_home(cairn_manager* manager) {
  return call([&] { of(manager).wait(cairn::Reach::home); });
}

int cairn_save_stage(const cairn_save* save) {
  return save ? static_cast<int>(save->handle.stage()) : CAIRN_FAILED;
}
int64_t cairn_save_step(const cairn_save* save) { return save ? save->handle.step() : -1; }
int cairn_save_wait_written(const cairn_save* save) {
  return call([&] { given(save, "the save").handle.wait_written(); });
}
int cairn_save_release(const cairn_save* save) {
  return call([&] { given(save, "the save").handle.release(); });
}
int cairn_save_error(const cairn_save* save) {
  return call([&] {
    if (const auto error = given(save, "the save").handle.error()) throw Error(*error);
  });
}
void cairn_save_free(cairn_save* save) { delete save; }

int cairn_manager_should_save(cairn_manager* manager, int64_t step, int* yes) {
  return call([&] {
    const bool now = of(manager).should_save(step);
    given(yes, "the address for the answer") = now;
  });
}

int cairn_manager_should_stop(cairn_manager* manager, const cairn_stop_reason** reason) {
  return call([&] {
    const auto found = of(manager).should_stop();
    if (found && !manager->reason) manager->reason = std::make_unique<c::OwnedReason>(*found);
    given(reason, "the address for the reason") = found ? &manager->reason->shown : nullptr;
  });
}

int cairn_manager_restore_latest(cairn_manager* manager, cairn_state* state,
                                 const cairn_restore_options* options, int64_t* step,
                                 const cairn_report** report) {
  return call([&] {
    State none;
    auto found =
        of(manager).restore_latest(state_or_refused(state, none), options_or_default(options));
    if (step) *step = found ? found->step : -1;
    const auto* kept = found ? keep(*manager, *std::move(found)) : nullptr;
    if (report) *report = kept;
  });
}

int cairn_manager_restore(cairn_manager* manager, int64_t step, cairn_state* state,
                          const cairn_restore_options* options, const cairn_report** report) {
  return call([&] {
    State none;
    auto found =
        of(manager).restore(step, state_or_refused(state, none), options_or_default(options));
    const auto* kept = keep(*manager, std::move(found));
    if (report) *report = kept;
  });
}

int cairn_manager_steps(cairn_manager* manager, size_t* count,
                        const cairn_step_info* const** infos) {
  return call([&] {
    auto steps = std::make_unique<c::OwnedSteps>(of(manager).steps());
    given(count, "the address for the count") = steps->shown.size();
    given(infos, "the address for the steps") = steps->shown.data();
    manager->steps = std::move(steps);
  });
}
int cairn_manager_pin(cairn_manager* manager, int64_t step) {
  return call([&] { of(manager).pin(step); });
}
int cairn_manager_unpin(cairn_manager* manager, int64_t step) {
  return call([&] { of(manager).unpin(step); });
}
int cairn_manager_mark(cairn_manager* manager, int64_t step, int good) {
  return call([&] { of(manager).mark(step, good != 0 ? StepMark::good : StepMark::bad); });
}
int cairn_manager_open(cairn_manager* manager, int64_t step, cairn_contents** contents) {
  return call([&] {
    auto found = of(manager).open(step);
    c::make(contents, std::move(found));
  });
}

int cairn_restore_hdf5(cairn_group* group, const char* file, cairn_state* state,
                       const cairn_restore_options* options) {
  return call([&] {
    const auto& ranks = given(group, "the group").group;
    run_and_agree(ranks, [&] { given(file, "the file"); });
    State none;
    restore_hdf5(ranks, file, state_or_refused(state, none), options_or_default(options));
  });
}
