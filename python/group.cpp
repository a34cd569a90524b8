// The ranks of a job in Python.
#include <cstdint>
#include <cstdlib>

#include "bindings.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "code.hpp"
#ifdef CAIRN_PYTHON_MPI
#include "cairn/mpi.hpp"
#endif

namespace cairn::python {

#ifdef CAIRN_PYTHON_MPI
namespace {

// If a message fails, only this rank knows it, as in the library's own calls. The others would wait
// for this rank, and it for them, since the interpreter finalises MPI when it ends. So the job
// ends.
std::shared_ptr<Group> mpi_or_end(MPI_Comm communicator) {
  try {
    return mpi(communicator);
  } catch (const Error& error) {
    if (error.code() != Code::communication) throw;
    tell_fatal(error.what());
    MPI_Abort(communicator, EXIT_FAILURE);
    std::abort();
  }
}

}  // namespace
#endif

PythonGroup group_of(const py::object& communicator) {
  if (communicator.is_none()) return {serial_group(), communicator};
  if (py::isinstance<PythonGroup>(communicator)) return py::cast<PythonGroup&>(communicator);
#ifdef CAIRN_PYTHON_MPI
  const auto mpi4py = py::module_::import("mpi4py.MPI");
  if (!py::isinstance(communicator, mpi4py.attr("Comm"))) {
    throw Error(Code::invalid_argument, "comm is no communicator of mpi4py", "",
                "Give mpi4py.MPI.COMM_WORLD or the like, or None for one rank.");
  }
  // A handle of another MPI library would crash this one.
  int initialized = 0;
  if (MPI_Initialized(&initialized) == MPI_SUCCESS && initialized == 0 &&
      py::cast<bool>(mpi4py.attr("Is_initialized")())) {
    throw Error(
        Code::unsupported, "mpi4py calls another MPI library than Cairn",
        "mpi4py has initialized MPI, and Cairn's library has not seen it",
        "Build both with the same MPI: pip install --no-cache-dir --no-binary=mpi4py mpi4py.");
  }
  const auto address = py::cast<std::uintptr_t>(mpi4py.attr("_addressof")(communicator));
  return {mpi_or_end(*reinterpret_cast<MPI_Comm*>(address)), communicator};
#else
  throw Error(Code::unsupported, "this build of Cairn has no MPI",
              "none was found when it was built",
              "Install MPI (on Debian: apt-get install libopenmpi-dev), then the package again: "
              "pip install --force-reinstall --no-deps.");
#endif
}

py::object agree(const py::function& make, const std::function<void(std::exception_ptr)>& verdict) {
  py::object made;
  std::exception_ptr mine;
  const Call call;
  try {
    made = make();
  } catch (py::error_already_set& failure) {
    const auto error = error_of(failure);
    mine = std::make_exception_ptr(error);
    Call::keep(failure, error);
  }
  try {
    verdict(mine);
  } catch (const Error& error) {
    call.raise(error);
  }
  return made;
}

void add_group(py::module_& module) {
  py::class_<PythonGroup>(module, "Group", "Ranks that managers can be made on.")
      .def_property_readonly("rank", [](const PythonGroup& self) { return self.group->rank(); })
      .def_property_readonly("size", [](const PythonGroup& self) { return self.group->size(); })
      .def(
          "agree",
          [](const PythonGroup& self, const py::function& make) {
            return agree(make, [&](const std::exception_ptr& mine) {
              const py::gil_scoped_release free;
              detail::agree_on(self.group, mine);
            });
          },
          "Collective: what the function returns; what it raises on one rank, all raise.")
      .def(
          "sum",
          [](const PythonGroup& self, std::vector<std::int64_t> values) {
            const py::gil_scoped_release free;
            try {
              self.group->all_reduce(values, Group::Op::sum);
            } catch (const Error& error) {
              if (error.code() == Code::communication) self.group->abort(error.what());
              throw;
            }
            return values;
          },
          "Collective: the sums over ranks of as many numbers on each.");
  module.def("group_of", [](const py::object& communicator) { return group_of(communicator); });
  module.def("torch_group", [](const py::object& process_group, std::vector<int> nodes) {
    return PythonGroup{torch_group(process_group, std::move(nodes)), process_group};
  });
}

}  // namespace cairn::python
