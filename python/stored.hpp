#pragma once
/// What a restore knows of its checkpoint when it has chosen it, for states that are made of that.
#include <memory>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "code.hpp"
#include "model/state_maker.hpp"
#include "session/restore/find_tensor.hpp"

namespace cairn::python {

/// Tensors and what is said of Python's values, as long as the contents are there.
class Stored {
 public:
  explicit Stored(const CheckpointContents& contents) : contents_(&contents), finder_(contents) {}
  void close() { contents_ = nullptr; }

  /// (name of the dtype, shape); None: it is not there.
  py::object find(const std::string& key) const;
  /// The attribute of this name of a tensor, or of a group of them, as JSON; None: there is none.
  py::object said(const std::string& key, const std::string& name) const;
  /// The same of the whole checkpoint.
  py::object said_of_all(const std::string& name) const;
  /// What comes next in the keys that begin with this path, which may be "": each word once.
  std::vector<std::string> names_below(const std::string& path) const;
  std::string prefix() const { return contents().prefix; }

 private:
  const CheckpointContents& contents() const;
  const CheckpointContents* contents_;
  TensorFinder finder_;
};

/// Has an object of Python's make its `native` state: make(Stored, migrated) adds to it, and
/// returns four lists: the paths that are to be whole, those apart in them, keys in memory of its
/// own, and keys that are kept. To be destroyed under the interpreter's lock.
class PythonMaker : public detail::StateMaker {
 public:
  PythonMaker(PythonState& state, py::object binding)
      : state_(state), binding_(std::move(binding)) {}
  void make(State&, const CheckpointContents&) override;
  /// Lets the application's function, of hooks.migrate, say how this checkpoint is restored:
  /// migrate(function, name, version, commit) returns the options by name. What it says of the
  /// state serves the next make() of a copy.
  void migrate(const Callable& function, const Application& from, RestoreOptions&);

 private:
  PythonState& state_;
  py::object binding_;
};

/// The state is made in the restores that are called as long as this lives.
class Making {
 public:
  explicit Making(const py::object& binding);
  State& state() { return state_.state; }
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  PythonState& state_;
};

void add_stored(py::module_&);

}  // namespace cairn::python
