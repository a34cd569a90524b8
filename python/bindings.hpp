#pragma once
/// The functions and types that the parts of the Python extension module share.
#include "text_caster.hpp"
// These come after text_caster.hpp.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/contents.hpp"
#include "cairn/dtype.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/state.hpp"

namespace cairn::python {

namespace py = pybind11;

/// cairn.Error, with the fields of cairn::Error.
void add_errors(py::module_&);
/// The reverse. Other exceptions of Python become Code::application with their text.
Error error_of(const py::error_already_set&);
void add_group(py::module_&);
void add_state(py::module_&);
void add_cursor(py::module_&);
void add_manager(py::module_&);
void add_contents(py::module_&);
void add_bundle(py::module_&);
void add_process(py::module_&);

/// The NumPy dtype of a stored dtype; that of ml_dtypes for types that NumPy lacks. Throws
/// unsupported if ml_dtypes is not installed, or has no such type.
py::dtype numpy_dtype(DType dtype);
/// The reverse. Throws invalid_argument for byte-swapped, object and structured dtypes, texts and
/// dates, with the way out.
DType stored_dtype(const py::dtype& dtype, const std::string& key);

/// Host memory of a Python object. `owner` keeps the object alive.
struct Memory {
  DType dtype{};
  void* data = nullptr;
  bool writable = true;
  Dims extent, strides;  ///< strides in elements
  py::object owner;
};
/// The memory of a numpy.ndarray, or of an object with DLPack. Throws invalid_argument with the
/// key.
Memory memory_of(const py::object& value, const std::string& key);

/// Makes an array of these elements. The bytes become its memory, without a copy.
py::array array_of(DType dtype, const Dims& extent, std::string bytes);

Dims dims_of(const py::handle& sequence);
py::tuple tuple_of(const Dims& dims);

/// The tensors of one rank, and the Python objects that own their memory.
struct PythonState {
  State state;
  std::vector<py::object> owners;
  /// Strings to which the state refers.
  std::vector<std::unique_ptr<std::vector<std::string>>> strings;
};

/// A group of ranks. The communicator of mpi4py, or the process group of torch, stays alive with
/// it.
struct PythonGroup {
  std::shared_ptr<Group> group;
  py::object communicator;
};
/// Makes a group from a communicator of mpi4py, a PythonGroup, or None for one rank.
PythonGroup group_of(const py::object& communicator);
/// Makes a group from a process group of torch.distributed on the CPU, which no other code may use;
/// `nodes` has the node of each rank. The thread that calls the library sends the messages.
std::shared_ptr<Group> torch_group(const py::object& process_group, std::vector<int> nodes);
/// Returns the result of the function. Its exception goes to `verdict`, which all ranks call, and
/// which throws on all ranks if any rank has an exception.
py::object agree(const py::function& make, const std::function<void(std::exception_ptr)>& verdict);

}  // namespace cairn::python
