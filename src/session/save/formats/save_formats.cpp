// The table of formats.
#include "cairn/error.hpp"
#include "session/save/formats/save_bundle.hpp"
#include "session/save/formats/save_hdf5.hpp"

namespace cairn {
namespace {

const BundleSave bundle_save;
const Hdf5Save hdf5_save;
const SaveFormat* const table[] = {&bundle_save, &hdf5_save};

}  // namespace

const SaveFormat& save_format_of(const Job& job) {
  for (const auto* one : table) {
    if (one->id() == job.options.store.format) return *one;
  }
  throw Error(Code::internal, "a format that is in no table");
}

}  // namespace cairn
