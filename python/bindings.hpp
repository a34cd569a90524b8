#pragma once
/// The Python face: what the parts of the extension module offer each other.
#include "text_caster.hpp"
// After it.
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
/// The reverse; of other exceptions of Python their text, as Code::application.
Error error_of(const py::error_already_set&);
void add_group(py::module_&);
void add_state(py::module_&);
void add_cursor(py::module_&);
void add_manager(py::module_&);
void add_contents(py::module_&);
void add_bundle(py::module_&);
void add_process(py::module_&);

/// The NumPy dtype of a stored one; of types that NumPy has not, those of ml_dtypes. Throws
/// unsupported where that is not installed, or has no such type.
py::dtype numpy_dtype(DType dtype);
/// The reverse. Throws invalid_argument for byte-swapped, object and structured dtypes, texts and
/// dates, with the way out.
DType stored_dtype(const py::dtype& dtype, const std::string& key);

/// Host memory of some Python object, which whoever has this keeps alive.
struct Memory {
  DType dtype{};
  void* data = nullptr;
  bool writable = true;
  Dims extent, strides;  ///< strides in elements
  py::object owner;
};
/// Of a numpy.ndarray, or of an object that speaks DLPack. Throws invalid_argument with the key.
Memory memory_of(const py::object& value, const std::string& key);

/// An array of these elements; the bytes become its memory, without a copy.
py::array array_of(DType dtype, const Dims& extent, std::string bytes);

Dims dims_of(const py::handle& sequence);
py::tuple tuple_of(const Dims& dims);

/// The tensors of one rank, and the Python objects that they lie in.
struct PythonState {
  State state;
  std::vector<py::object> owners;
  /// Strings that are given to a state by reference.
  std::vector<std::unique_ptr<std::vector<std::string>>> strings;
};

/// A group of ranks. The communicator of mpi4py, or the process group of torch, stays alive with
/// it.
struct PythonGroup {
  std::shared_ptr<Group> group;
  py::object communicator;
};
/// Of a communicator of mpi4py, a PythonGroup, or None for one rank.
PythonGroup group_of(const py::object& communicator);
/// Of a process group of torch.distributed on the CPU, which nobody else uses; `nodes` are those of
/// its ranks. Messages are sent by the thread that calls the library.
std::shared_ptr<Group> torch_group(const py::object& process_group, std::vector<int> nodes);
/// What the function returns. What it raises goes to the verdict, which all ranks call, and which
/// throws on all ranks what any of them has.
py::object agree(const py::function& make, const std::function<void(std::exception_ptr)>& verdict);

}  // namespace cairn::python
