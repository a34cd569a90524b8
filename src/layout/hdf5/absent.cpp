// For builds without HDF5: they read checkpoints that are HDF5 files, but make none.
#include "cairn/error.hpp"
#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/lay_out.hpp"

namespace cairn::hdf5 {

bool available() { return false; }

void require_available() {
  throw Error(Code::unsupported, "this Cairn was built without HDF5",
              "only libhdf5 lays out a new HDF5 file and reads those of other programs",
              "Build it again where a parallel HDF5 is (on Debian: apt-get install "
              "libhdf5-openmpi-dev).");
}

struct ForeignFile::Impl {};
ForeignFile::ForeignFile(std::unique_ptr<ByteFile>, std::int64_t) { require_available(); }
ForeignFile::~ForeignFile() = default;
std::optional<ForeignDataset> ForeignFile::find(const std::string&) { return std::nullopt; }
void ForeignFile::read(const std::string&, const ForeignDataset&, const Box&, std::byte*) {
  require_available();
}
std::vector<std::string> ForeignFile::read_strings(const std::string&, const ForeignDataset&) {
  return {};
}

Skeleton lay_out(const NewFile&) {
  require_available();
  return {};
}

}  // namespace cairn::hdf5
