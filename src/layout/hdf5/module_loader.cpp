// Defines the functions of foreign.hpp and lay_out.hpp for a program that loads them as a module.
#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/module.hpp"

namespace cairn::hdf5 {
namespace {

Error missing(const std::filesystem::path& path, const std::string& reason) {
  return Error(Code::unsupported, cat("Cairn's module for HDF5 cannot be used"), reason,
               "Install this program with the whole of Cairn, and the libhdf5 that Cairn was built "
               "with.")
      .at(path.string());
}

const Module& load() {
  // The module lies at the same place beside the program in the build tree and where it is
  // installed. It is never closed: errors that it threw may live as long as the process.
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto path = (program.parent_path() / CAIRN_HDF5_MODULE).lexically_normal();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw missing(path, dlerror());
  const auto* found = static_cast<const Module*>(dlsym(library, module_symbol));
  if (!found) throw missing(path, dlerror());
  if (std::string_view(found->version) != CAIRN_VERSION) {
    throw missing(
        path, cat("it belongs to Cairn ", found->version, ", and this is Cairn ", CAIRN_VERSION));
  }
  return *found;
}

// If loading fails, the next call tries again, so each call says why it failed.
const Module& module() {
  static const Module& loaded = load();
  return loaded;
}

}  // namespace

void require_available() { module(); }

bool available() {
  try {
    require_available();
    return true;
  } catch (const Error&) {
    return false;
  }
}

Skeleton lay_out(const NewFile& file) { return module().lay_out(file); }

struct ForeignFile::Impl {
  std::unique_ptr<ForeignFile, void (*)(ForeignFile*)>
      file;  // an object of the module, with an Impl of its own
};

ForeignFile::ForeignFile(std::unique_ptr<ByteFile> bytes, std::int64_t strings_limit_bytes)
    : impl_(new Impl{{module().open(std::move(bytes), strings_limit_bytes), module().close}}) {}
ForeignFile::~ForeignFile() = default;

std::optional<ForeignDataset> ForeignFile::find(const std::string& path) {
  return module().find(*impl_->file, path);
}

void ForeignFile::read(const std::string& path, const ForeignDataset& expected, const Box& box,
                       std::byte* out) {
  module().read(*impl_->file, path, expected, box, out);
}

std::vector<std::string> ForeignFile::read_strings(const std::string& path,
                                                   const ForeignDataset& expected) {
  return module().read_strings(*impl_->file, path, expected);
}

}  // namespace cairn::hdf5
