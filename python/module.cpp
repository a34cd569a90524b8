// The extension module cairn._cairn. Programs use the package around it (python/cairn).
#include "bindings.hpp"
#include "cairn/version.hpp"
#include "code.hpp"
#include "stored.hpp"
#include "tree.hpp"

PYBIND11_MODULE(_cairn, module) {
  using namespace cairn::python;
  add_errors(module);
  add_group(module);
  add_cursor(module);
  add_state(module);
  add_stored(module);
  add_code(module);
  add_torch_tensors(module);
  add_tree(module);
  add_manager(module);
  add_contents(module);
  add_bundle(module);
  add_process(module);
  module.attr("version") = cairn::version();
  module.def("build_options", [] {
    py::dict all;
    for (const auto& [name, value] : cairn::build_options()) all[py::str(name)] = value;
    return all;
  });
#ifdef CAIRN_PYTHON_MPI
  module.attr("has_mpi") = true;
#else
  module.attr("has_mpi") = false;
#endif
}
