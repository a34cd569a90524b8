#pragma once
/// What a restore knows about the checkpoint that it has chosen, for states that are made from it.
#include <memory>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "code.hpp"
#include "model/state_maker.hpp"
#include "session/restore/find_tensor.hpp"

namespace cairn::python {

/// The tensors and their attributes about Python's values, as long as the contents exist.
class Stored {
 public:
  explicit Stored(const CheckpointContents& contents) : contents_(&contents), finder_(contents) {}
  void close() { contents_ = nullptr; }

  /// (name of the dtype, shape); None if there is no such tensor.
  py::object find(const std::string& key) const;
  /// The attribute of this name of a tensor, or of a group of tensors, as JSON; None if there is
  /// none.
  py::object said(const std::string& key, const std::string& name) const;
  /// The same of the whole checkpoint.
  py::object said_of_all(const std::string& name) const;
  /// The next words in the keys that begin with this path, which may be "". Each word comes once.
  std::vector<std::string> names_below(const std::string& path) const;
  std::string prefix() const { return contents().prefix; }

 private:
  const CheckpointContents& contents() const;
  const CheckpointContents* contents_;
  TensorFinder finder_;
};

/// Lets a Python object make its `native` state. make(Stored, migrated) adds tensors to it, and
/// returns four lists: paths that must be restored whole, exceptions within these, keys in memory
/// of its own, and keys that are kept. Destroy it while holding the interpreter's lock.
class PythonMaker : public detail::StateMaker {
 public:
  PythonMaker(PythonState& state, py::object binding)
      : state_(state), binding_(std::move(binding)) {}
  void make(State&, const CheckpointContents&) override;
  /// Lets the application's function in hooks.migrate say how this checkpoint is restored:
  /// migrate(function, name, version, commit) returns the options by name. The next make() of a
  /// copy uses what it says about the state.
  void migrate(const Callable& function, const Application& from, RestoreOptions&);

 private:
  PythonState& state_;
  py::object binding_;
};

/// While this object lives, restores make the state.
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
