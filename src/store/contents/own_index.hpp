#pragma once
/// Which index is a bundle's own: for repairs.
///
/// An index does not say of which step it is, nor do data; checksums only prove that they belong
/// together. So an index that was copied over another's looks whole, and finds every data file
/// damaged. A repair that trusted it would replace the data of all tensors by those of another
/// step. Metadata do say the step and name, and they and the copy of the index behind them prove
/// each other.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/address.hpp"
#include "store/contents/data_file.hpp"

namespace cairn {

/// The index by which the rest of a bundle is judged.
struct OwnIndex {
  std::string bytes;
  CheckpointContents contents;
  bool stands = false;    ///< it is there already
  bool fits = false;      ///< the metadata are there and sound, and prove it
  bool replaces = false;  ///< another index that can be read stands there

  /// What lies behind the slices of a data file.
  std::string_view tail(const std::vector<FileExtent>& pieces) const {
    return has_metadata(pieces) ? bytes : std::string_view();
  }
};

/// Where the index that stands there and a spare copy differ, the metadata that prove the one or
/// the other decide, by the step and name that they tell. Where they tell nothing, all files must
/// be sound by the copy. In words why there is none: nothing tells, or what is there may be of
/// several saves. Throws not_found if there is nothing, and what reading throws.
std::variant<OwnIndex, std::string> find_own_index(const Address& prefix);

}  // namespace cairn
