// The module itself: its functions call those of foreign.cpp and lay_out.cpp, which it is linked
// with.
#include "layout/hdf5/module.hpp"

namespace cairn::hdf5 {
namespace {

ForeignFile* open(std::unique_ptr<ByteFile> bytes, std::int64_t strings_limit_bytes) {
  return std::make_unique<ForeignFile>(std::move(bytes), strings_limit_bytes).release();
}

void close(ForeignFile* file) { delete file; }

std::optional<ForeignDataset> find(ForeignFile& file, const std::string& path) {
  return file.find(path);
}

void read(ForeignFile& file, const std::string& path, const ForeignDataset& expected,
          const Box& box, std::byte* out) {
  file.read(path, expected, box, out);
}

std::vector<std::string> read_strings(ForeignFile& file, const std::string& path,
                                      const ForeignDataset& expected) {
  return file.read_strings(path, expected);
}

}  // namespace
}  // namespace cairn::hdf5

extern "C" [[gnu::visibility("default")]] const cairn::hdf5::Module cairn_hdf5_module;
const cairn::hdf5::Module cairn_hdf5_module = {
    CAIRN_VERSION,     cairn::hdf5::lay_out, cairn::hdf5::open,        cairn::hdf5::close,
    cairn::hdf5::find, cairn::hdf5::read,    cairn::hdf5::read_strings};
