// The table of formats.
#include <algorithm>
#include <iterator>

#include "cairn/error.hpp"
#include "store/formats/bundle_format.hpp"
#include "store/formats/hdf5_format.hpp"

namespace cairn {
namespace {

const BundleFormat bundle_format;
const Hdf5Format hdf5_format;
const CheckpointFormat* const table[] = {&bundle_format, &hdf5_format};

}  // namespace

std::span<const CheckpointFormat* const> all_formats() { return table; }

const CheckpointFormat& format_of(Format format) {
  for (const auto* one : table) {
    if (one->id() == format) return *one;
  }
  throw Error(Code::internal, "a format that is in no table");
}

std::optional<bool> try_recognise(const CheckpointFormat& format, const Address& main_file) {
  try {
    return format.recognises(*main_file.files(), main_file.path());
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Format> other_format(const Address& prefix, Format format) {
  for (const auto* one : table) {
    if (one->id() == format) continue;
    if (try_recognise(*one, prefix.at(one->main_file(prefix.path()))).value_or(true))
      return one->id();
  }
  return std::nullopt;
}

// An HDF5 file of another program beside a bundle never gives way.
bool others_give_way(const Address& prefix, Format format) {
  return std::any_of(std::begin(table), std::end(table), [&](const auto* one) {
    return one->id() != format && one->gives_way(*prefix.files(), prefix.path()).value_or(false);
  });
}

// An unfinished bundle has no file that only bundles have. So the other formats are asked first,
// and the bundle, which is first in the table, last.
Format format_of_unfinished(io::FileSystem& files, const commit::Transaction& save) {
  for (auto one = std::rbegin(table); one != std::rend(table); ++one) {
    if ((*one)->began(files, save)) return (*one)->id();
  }
  return table[0]->id();
}

const CheckpointFormat& format_of(const commit::Transaction& save) { return format_of(save.main); }

const CheckpointFormat& format_of(commit::ParsedName::Kind main) {
  for (const auto* one : table) {
    if (one->main_kind() == main) return *one;
  }
  throw Error(Code::internal, "files of this kind are of no format");
}

}  // namespace cairn
