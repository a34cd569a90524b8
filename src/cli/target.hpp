#pragma once
/// What the words of the command line name: directories, and checkpoints in them.
#include <cstdint>
#include <string>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/named_checkpoint.hpp"

namespace cairn::cli {

/// The tensor of this key, path or variable's name, or Cairn's own of this key. Throws not_found.
const StoredTensor& require_tensor(const CheckpointContents&, const std::string& key);

/// What `use` makes of the checkpoint that `given` names. Of a directory whose job has gone on, and
/// let that one go, meanwhile: of the newest that is there then.
template <class Use>
auto with_checkpoint(const Address& given, Use use) {
  constexpr int most_looks = 8;
  for (int looks = 1;; ++looks) {
    const auto prefix = resolve_checkpoint(given);
    try {
      return use(prefix);
    } catch (const Error& error) {
      const bool may_be_gone = error.code() == Code::not_found || error.code() == Code::data_loss;
      if (!may_be_gone || looks == most_looks || !names_another(given, prefix)) throw;
    }
  }
}

/// Opened so.
OpenCheckpoint open_named(const Address& given);

/// For `use` above: throws not_found if what could not be read of this checkpoint is gone by now.
void require_still(const Address& given, const Address& prefix);

/// The prefix of a checkpoint that is to be made. Throws not_found where its directory is missing:
/// a mistyped one would be made without a word.
Address require_parent(const Address&);

/// Throws not_found, or invalid_argument for a file.
Address require_directory(const Address&);

/// The one name under which the step is there. Throws not_found for none, or several.
std::string find_name(const Address& directory, std::int64_t step);
/// ... as it is there. Throws not_found.
CatalogEntry find_entry(const Location&, std::int64_t step);

}  // namespace cairn::cli
