#pragma once
/// For repairs: finds the index that belongs to a bundle.
///
/// Neither an index nor data files say of which step they are; checksums only prove that they
/// belong together. So an index that was copied over another's looks whole, and every data file
/// looks damaged by it. A repair that trusted it would replace the data of all tensors by those of
/// another step. Metadata do say the step and name, and they and the copy of the index behind them
/// prove each other.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/address.hpp"
#include "store/contents/data_file.hpp"

namespace cairn {

/// The index by which the rest of a bundle is checked.
struct OwnIndex {
  std::string bytes;
  CheckpointContents contents;
  bool stands = false;    ///< it is there already
  bool fits = false;      ///< the metadata are there and sound, and prove it
  bool replaces = false;  ///< another index that can be read stands there

  std::string save_id = {};  ///< if only the ends of the data files tell it

  /// The bytes that follow the slices of a data file.
  std::string_view tail(const std::vector<FileExtent>& pieces) const {
    return has_metadata(pieces) ? bytes : save_id;
  }
};

/// If the present index and a spare copy differ, the step and name in the metadata that prove the
/// one or the other decide. If the metadata do not tell, all files must be sound by the copy.
/// Returns in words why there is no own index: nothing tells which it is, or the files may be of
/// several saves. Throws not_found if there is no bundle, and what reading throws.
std::variant<OwnIndex, std::string> find_own_index(const Address& prefix);

}  // namespace cairn
