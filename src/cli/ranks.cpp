#include "cli/ranks.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"
#ifdef CAIRN_MPI_MODULE
#include "base/rank_module.hpp"
#endif

namespace cairn::cli {
namespace {

// The number of processes that the launcher has started, as Open MPI, MPICH and its relatives, and
// Slurm with PMIx tell it.
int started_ranks() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : 0;
  };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const int ranks = number(name); ranks > 0) return ranks;
  }
  return std::getenv("PMIX_RANK") ? number("SLURM_STEP_NUM_TASKS") : 1;
}

#ifdef CAIRN_MPI_MODULE
Error missing(const std::filesystem::path& path, const std::string& reason) {
  return Error(Code::unsupported, "Cairn's module for MPI cannot be used", reason,
               "Install this program with the whole of Cairn, and the MPI that Cairn was built "
               "with; or start one process only.")
      .at(path.string());
}

// Loads Cairn's module for MPI from the same place beside the program as the one for HDF5. It is
// never closed.
const rank_module::Module& load() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto path = (program.parent_path() / CAIRN_MPI_MODULE).lexically_normal();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw missing(path, dlerror());
  const auto* found =
      static_cast<const rank_module::Module*>(dlsym(library, rank_module::module_symbol));
  if (!found) throw missing(path, dlerror());
  if (std::string_view(found->version) != CAIRN_VERSION) {
    throw missing(
        path, cat("it belongs to Cairn ", found->version, ", and this is Cairn ", CAIRN_VERSION));
  }
  return *found;
}
#endif

}  // namespace

Ranks::Ranks(bool alone) : group_(serial_group()) {
  const auto ranks = alone ? 1 : started_ranks();
  if (ranks <= 1) return;
#ifdef CAIRN_MPI_MODULE
  const auto& module = load();
  group_ = module.begin();
  end_ = module.end;
  if (group_->size() != ranks) {
    group_->abort(cat("the launcher started ", ranks, " processes, and MPI has ", group_->size(),
                      " ranks: they are of different kinds of MPI"));
  }
#else
  throw Error(Code::unsupported, cat("there are ", ranks, " processes, and Cairn has no MPI"),
              "it was built without", "Start one process only, or build it again where MPI is.");
#endif
}

Ranks::~Ranks() {
  group_.reset();
  if (!end_) return;
  try {
    end_();
  } catch (const Error&) {  // the work is done, so the error does not matter
  }
}

}  // namespace cairn::cli
