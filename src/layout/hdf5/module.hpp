#pragma once
/// The code that needs libhdf5, as a module for a program that is not linked to libhdf5: a parallel
/// libhdf5 loads MPI and all of its fabric libraries, even for `cairn --version`.
/// module_loader.cpp, linked into such a program, defines the functions of foreign.hpp and
/// lay_out.hpp, and loads the module when one of them is called. A static library would not keep
/// libhdf5 out: the linker takes a member of a library also for a template instance that happens to
/// lie in it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/lay_out.hpp"

namespace cairn::hdf5 {

/// The one symbol that a module exports. Program and module are compiled together, so its functions
/// can take C++ types.
struct Module {
  const char* version;  ///< of the Cairn that the module belongs to
  Skeleton (*lay_out)(const NewFile&);
  ForeignFile* (*open)(std::unique_ptr<ByteFile>, std::int64_t strings_limit_bytes);
  void (*close)(ForeignFile*);
  std::optional<ForeignDataset> (*find)(ForeignFile&, const std::string& path);
  void (*read)(ForeignFile&, const std::string& path, const ForeignDataset&, const Box&,
               std::byte* out);
  std::vector<std::string> (*read_strings)(ForeignFile&, const std::string& path,
                                           const ForeignDataset&);
};

inline constexpr const char* module_symbol = "cairn_hdf5_module";

}  // namespace cairn::hdf5
