// The extension module cairn._cairn. The package around it (python/cairn) is what people see.
#include "bindings.hpp"

PYBIND11_MODULE(_cairn, module) {
  using namespace cairn::python;
  add_errors(module);
  add_state(module);
  add_manager(module);
  add_contents(module);
  module.attr("version") = CAIRN_VERSION;
#ifdef CAIRN_PYTHON_MPI
  module.attr("has_mpi") = true;
#else
  module.attr("has_mpi") = false;
#endif
}
