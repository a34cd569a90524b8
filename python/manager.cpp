// cairn._cairn.Manager: the CheckpointManager, callable from any thread, one at a time.
#include "cairn/checkpoint_manager.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <set>

#include "base/text.hpp"
#include "bindings.hpp"
#include "cairn/application.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/hdf5.hpp"
#include "code.hpp"
#include "model/refreshed_state.hpp"
#include "session/option_text.hpp"
#include "stored.hpp"

namespace cairn::python {

py::object error_object(const Error&);

namespace {

using Named = std::vector<std::pair<std::string, std::string>>;  // options

template <class Options>
Options options_of(const Named& named) {
  Options options;
  for (const auto& [name, value] : named) set_option(options, name, value);
  return options;
}

class Manager {
 public:
  Manager(const py::object& communicator, const std::string& directory, const Named& named,
          const Functions& code, const std::optional<Named>& stop)
      : group_(group_of(communicator)), process_(getpid()) {
    const py::gil_scoped_release free;
    auto options = run_and_agree(group_.group, [&] {
      if (stop) stop_ = std::make_shared<StopRequest>(options_of<StopOptions>(*stop));
      auto all = options_of<ManagerOptions>(named);
      const py::gil_scoped_acquire lock;
      set_code(all, code);
      return all;
    });
    options.when.stop = stop_;
    manager_.emplace(group_.group, directory, std::move(options));
  }
  ~Manager() {
    // In a forked child the directory, the threads and the ranks belong to the parent.
    if (getpid() != process_) {
      (void)new std::optional<CheckpointManager>(std::move(manager_));
      manager_.reset();
      return;
    }
    const py::gil_scoped_release free;
    manager_.reset();
  }

  /// Calls a function with the manager, without the interpreter's lock.
  template <class F>
  auto with(F&& function) {
    if (getpid() != process_) {
      throw Error(Code::invalid_argument, "this manager belongs to the process that made it",
                  "this is a forked child of it", "Use the manager in the parent only.");
    }
    if (in_use_.exchange(true)) {
      if (ends_) throw closed();
      throw Error(Code::busy, "another thread is in a call of this manager", "",
                  "Let one thread at a time call it.");
    }
    const Release release{in_use_};
    if (!manager_ || ends_) throw closed();
    return interruptible([&] {
      const py::gil_scoped_release free;
      return function(*manager_);
    });
  }

  py::object agree(const py::function& make) {
    return python::agree(make, [&](const std::exception_ptr& mine) {
      with([&](CheckpointManager&) { detail::agree_on(group_.group, mine); });
    });
  }

  /// `failed`: an exception of Python ends the manager; the run's history then records a failure.
  void close(bool failed) {
    if (!manager_ || getpid() != process_) return;
    with([&](CheckpointManager&) { reset(failed); });
  }
  /// The same at the interpreter's end. A thread that is in a call returns from it first, since the
  /// interpreter must not end during the call; later calls are refused.
  void end(bool failed) {
    if (getpid() != process_) return;
    const py::gil_scoped_release free;
    ends_ = true;
    while (in_use_.exchange(true)) in_use_.wait(true);
    const Release release{in_use_};
    reset(failed);
  }
  StopRequest& stop() {
    if (stop_) return *stop_;
    throw Error(Code::invalid_argument, "the manager was given no stop", "",
                "Give CheckpointManager(..., stop=True), or stop={\"margin_seconds\": 60}.");
  }

 private:
  // A manager that ends during stack unwinding has failed; so this throws a C++ exception.
  void reset(bool failed) {
    struct Failure {};
    if (failed) try {
        const std::shared_ptr<void> ends(nullptr, [this](void*) { manager_.reset(); });
        throw Failure();
      } catch (const Failure&) {
      }
    manager_.reset();
  }
  static Error closed() {
    return Error(Code::invalid_argument, "the manager is closed", "", "Make another one.");
  }
  struct Release {
    std::atomic<bool>& in_use;
    ~Release() {
      in_use = false;
      in_use.notify_all();
    }
  };
  PythonGroup group_;
  pid_t process_;
  std::shared_ptr<StopRequest> stop_;
  std::optional<CheckpointManager> manager_;
  std::atomic<bool> in_use_ = false, ends_ = false;
};

py::dict dict_of(const RestoreReport& report) {
  py::dict told;
  told["step"] = report.step;
  told["prefix"] = report.prefix;
  told["unused_keys"] = report.unused_keys;
  told["kept_keys"] = report.kept_keys;
  told["skipped"] = report.skipped;
  told["bytes_read"] = report.bytes_read;
  told["gap_elements"] = report.gap_elements;
  told["unchecked"] = report.unchecked;
  return told;
}

py::dict dict_of(const StepInfo& info) {
  py::dict told;
  told["step"] = info.step;
  told["sequence"] = info.sequence;
  told["newest"] = info.newest;
  told["superseded"] = info.superseded;
  told["damage"] = info.damage;
  told["pinned"] = info.pinned;
  told["passed_over"] = info.passed_over;
  told["on_nodes"] = info.on_nodes;
  told["at_home"] = info.at_home;
  told["margin"] = info.margin;
  told["metric"] = info.metric;
  return told;
}

// Of statistics all members, by their names. A test compares them with the header.
py::dict dict_of(const StageSeconds& stages) {
  py::dict seconds;
  seconds["wait"] = stages.wait;
  seconds["plan"] = stages.plan;
  seconds["capture"] = stages.capture;
  seconds["write"] = stages.write;
  seconds["protect"] = stages.protect;
  seconds["merge"] = stages.merge;
  seconds["commit"] = stages.commit;
  seconds["tidy"] = stages.tidy;
  return seconds;
}

py::dict dict_of(const SaveStatistics::Slowest& slowest) {
  py::dict told;
  told["rank"] = slowest.rank;
  told["waiting_seconds"] = slowest.waiting_seconds;
  return told;
}

py::dict dict_of(const RankShare& share) {
  py::dict told;
  told["bytes"] = share.bytes;
  told["write_seconds"] = share.write_seconds;
  return told;
}

py::dict dict_of(const SaveStatistics&);

template <class Item>
py::list dicts_of(const std::vector<Item>& items) {
  py::list list;
  for (const auto& one : items) list.append(dict_of(one));
  return list;
}

py::dict dict_of(const SaveStatistics& save) {
  py::dict told;
  told["step"] = save.step;
  told["asynchronous"] = save.asynchronous;
  told["on_nodes"] = save.on_nodes;
  told["blocking_because"] = save.blocking_because;
  told["plan_reused"] = save.plan_reused;
  told["bytes"] = save.bytes;
  told["replica_bytes"] = save.replica_bytes;
  told["gap_bytes"] = save.gap_bytes;
  told["files"] = save.files;
  told["recycled_files"] = save.recycled_files;
  told["unchanged_bytes"] = save.unchanged_bytes;
  told["peak_resident_bytes"] = save.peak_resident_bytes;
  told["blocked_seconds"] = save.blocked_seconds;
  told["total_seconds"] = save.total_seconds;
  told["gigabytes_per_second"] = save.gigabytes_per_second();
  told["seconds"] = dict_of(save.seconds);
  told["slowest"] = dict_of(save.slowest);
  told["shares"] = dicts_of(save.shares);
  return told;
}

py::dict dict_of(const Statistics& all) {
  py::dict told;
  told["committed"] = all.committed;
  told["failed"] = all.failed;
  told["skipped"] = all.skipped;
  told["replaced"] = all.replaced;
  told["asynchronous"] = all.asynchronous;
  told["plans_reused"] = all.plans_reused;
  told["on_nodes"] = all.on_nodes;
  told["bytes"] = all.bytes;
  told["blocked_seconds"] = all.blocked_seconds;
  told["pool_bytes"] = all.pool_bytes;
  told["pool_most_bytes"] = all.pool_most_bytes;
  told["since_save_seconds"] = all.since_save_seconds;
  told["since_home_seconds"] = all.since_home_seconds;
  told["last"] = dicts_of(all.last);
  return told;
}

const char* stage_name(SaveStage stage) {
  switch (stage) {
    case SaveStage::captured:
      return "captured";
    case SaveStage::written:
      return "written";
    case SaveStage::committed:
      return "committed";
    case SaveStage::skipped:
      return "skipped";
    case SaveStage::replaced:
      return "replaced";
    case SaveStage::failed:
      break;
  }
  return "failed";
}

// Of a save with Until::released: all but the tensors at these addresses is copied at the call.
void leave_only(State& state, const std::vector<std::uintptr_t>& addresses) {
  std::set<const std::byte*> begins;
  for (const auto one : addresses) begins.insert(reinterpret_cast<const std::byte*>(one));
  RefreshedState::capture_all_but(state, begins);
}

void add_handle(py::module_& module) {
  py::class_<SaveHandle>(module, "SaveHandle", py::dynamic_attr(), "A save that save_async began.")
      .def_property_readonly("step", &SaveHandle::step)
      .def_property_readonly(
          "stage", [](const SaveHandle& self) { return stage_name(self.stage()); },
          "captured, written, committed, skipped, replaced or failed")
      .def_property_readonly("committed", &SaveHandle::committed)
      .def_property_readonly("prefix", &SaveHandle::prefix)
      .def_property_readonly("blocked_because", &SaveHandle::blocked_because)
      .def_property_readonly(
          "error",
          [](const SaveHandle& self) -> py::object {
            const auto error = self.error();
            return error ? error_object(*error) : py::none();
          },
          "Why it failed; None: it has not")
      .def("_release", &SaveHandle::release, py::call_guard<py::gil_scoped_release>())
      .def("wait_written", &SaveHandle::wait_written, py::call_guard<py::gil_scoped_release>(),
           "Returns when this rank's part is written or was given up; raises the error if the save "
           "has failed.");
}

// Collective. Fills the state from a checkpoint of any origin, without owning its directory.
void read_checkpoint(const py::object& communicator, const std::string& prefix, PythonState& state,
                     const Named& options) {
  const auto group = group_of(communicator);
  interruptible([&] {
    const py::gil_scoped_release free;
    auto read = run_and_agree(group.group, [&] { return options_of<RestoreOptions>(options); });
    Checkpoint checkpoint(group.group, state.state);
    checkpoint.read(prefix, read).assert_existing_objects_matched().expect_partial();
  });
}

}  // namespace

void add_manager(py::module_& module) {
  add_handle(module);
  py::class_<Manager>(module, "Manager")
      .def(py::init<py::object, std::string, Named, Functions, std::optional<Named>>())
      .def("agree", &Manager::agree)
      .def("save",
           [](Manager& self, std::int64_t step, const PythonState& state, const Named& options,
              const Functions& code) {
             auto save = options_of<SaveOptions>(options);
             set_code(save, code);
             return self.with([&](auto& manager) { return manager.save(step, state.state, save); });
           })
      .def(
          "save_async",
          [](Manager& self, std::int64_t step, PythonState& state, const Named& options,
             const Functions& code, const std::optional<std::vector<std::uintptr_t>>& stays) {
            auto save = options_of<SaveOptions>(options);
            set_code(save, code);
            if (stays) leave_only(state.state, *stays);
            return self.with(
                [&](auto& manager) { return manager.save_async(step, state.state, save); });
          },
          py::arg("step"), py::arg("state"), py::arg("options"), py::arg("code"),
          py::arg("stays") = py::none())
      .def("restore",
           [](Manager& self, std::int64_t step, const py::object& binding, const Named& options) {
             const auto restore = options_of<RestoreOptions>(options);
             Making making(binding);
             return dict_of(self.with(
                 [&](auto& manager) { return manager.restore(step, making.state(), restore); }));
           })
      .def("restore_latest",
           [](Manager& self, const py::object& binding, const Named& options) -> py::object {
             const auto restore = options_of<RestoreOptions>(options);
             Making making(binding);
             const auto report = self.with(
                 [&](auto& manager) { return manager.restore_latest(making.state(), restore); });
             return report ? py::object(dict_of(*report)) : py::none();
           })
      .def("poll", [](Manager& self) { return self.with([](auto& m) { return m.poll(); }); })
      .def(
          "wait",
          [](Manager& self, bool home) {
            self.with([&](auto& m) { m.wait(home ? Reach::home : Reach::any); });
          },
          py::arg("home") = false)
      .def("should_save",
           [](Manager& self, std::int64_t step) {
             return self.with([&](auto& m) { return m.should_save(step); });
           })
      .def("should_stop",
           [](Manager& self) -> py::object {
             const auto reason = self.with([](auto& m) { return m.should_stop(); });
             if (!reason) return py::none();
             return py::make_tuple(reason->text(), reason->exit_code());
           })
      .def("request_stop", [](Manager& self) { self.stop().request(); })
      .def("steps",
           [](Manager& self) { return dicts_of(self.with([](auto& m) { return m.steps(); })); })
      .def("open_step",
           [](Manager& self, std::int64_t step) {
             return self.with([&](auto& m) { return m.open(step).prefix; });
           })
      .def("pin", [](Manager& self, std::int64_t s) { self.with([&](auto& m) { m.pin(s); }); })
      .def("unpin", [](Manager& self, std::int64_t s) { self.with([&](auto& m) { m.unpin(s); }); })
      .def("mark",
           [](Manager& self, std::int64_t step, bool good) {
             self.with([&](auto& m) { m.mark(step, good ? StepMark::good : StepMark::bad); });
           })
      .def("statistics",
           [](Manager& self) { return dict_of(self.with([](auto& m) { return m.statistics(); })); })
      .def("close", &Manager::close, py::arg("failed") = false)
      .def("end", &Manager::end, py::arg("failed") = false);
  module.def("read_checkpoint", &read_checkpoint);
  module.def("check_save_options", [](const Named& named, const Functions& code) {
    auto options = options_of<SaveOptions>(named);
    set_code(options, code);
  });
  module.def("check_restore_options",
             [](const Named& named) { options_of<RestoreOptions>(named); });
  module.def("restore_hdf5", [](const py::object& communicator, const py::function& make) {
    const auto group = group_of(communicator);
    const auto verdict = [&](const std::exception_ptr& mine) {
      const py::gil_scoped_release free;
      detail::agree_on(group.group, mine);
    };
    const auto made = python::agree(make, verdict);
    const auto file = py::cast<std::string>(made.attr("file"));
    const py::object native = made.attr("native");
    auto& state = py::cast<PythonState&>(native);
    const auto options = options_of<RestoreOptions>(py::cast<Named>(made.attr("named")));
    auto report = interruptible([&] {
      const py::gil_scoped_release free;
      return restore_hdf5(group.group, file, state.state, options);
    });
    python::agree(made.attr("put_back"), verdict);
    return dict_of(report);
  });
  module.def("is_newer_version", &is_newer_version, py::arg("a"), py::arg("b"),
             "Whether version a comes behind b: 1.10 comes behind 1.9.");
  module.def("option_names", [] { return option_names(ManagerOptions{}); });
  module.def("stop_option_names", [] { return option_names(StopOptions{}); });
  module.def("restore_option_names", [] { return option_names(RestoreOptions{}); });
}

}  // namespace cairn::python
