#pragma once
/// Finds the directories and checkpoints that the command line names.
#include <cstdint>
#include <string>
#include <type_traits>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/named_checkpoint.hpp"

namespace cairn::cli {

/// The tensor with this key, path or variable name, or Cairn's own tensor with this key. Throws
/// not_found.
const StoredTensor& require_tensor(const CheckpointContents&, const std::string& key);

/// Calls `use` with the checkpoint that `given` names and returns its result. If a job has removed
/// or replaced that checkpoint meanwhile, calls it again with the one that `given` names then.
/// `use` may also take the Still that was made before.
template <class Use>
auto with_checkpoint(const Address& given, Use use) {
  constexpr int most_looks = 8;
  for (int looks = 1;; ++looks) {
    const auto prefix = resolve_checkpoint(given.view());
    const Still still(given, prefix);
    try {
      if constexpr (std::is_invocable_v<Use, const Address&, const Still&>) {
        return use(prefix, still);
      } else {
        return use(prefix);
      }
    } catch (const Error& error) {
      const auto code = error.code();
      const bool may_be_gone =
          code == Code::not_found || code == Code::data_loss || code == Code::io;
      if (!may_be_gone || looks == most_looks || still.is_the_one()) throw;
    }
  }
}

/// Opens the checkpoint in this way.
OpenCheckpoint open_named(const Address& given);

/// The prefix of a checkpoint that will be made. Throws not_found if its directory is missing,
/// since a mistyped one would be made silently.
Address require_parent(const Address&);

/// Throws not_found, or invalid_argument if it is a file.
Address require_directory(const Address&);

/// The one name that has this step. Throws not_found if there is none or more than one.
std::string find_name(const Address& directory, std::int64_t step);
/// The entry of this step. Throws not_found.
CatalogEntry find_entry(const Location&, std::int64_t step);

/// The bytes of a file that may have holes, without these; its length if that is unknown.
std::int64_t bytes_without_holes(const io::Status&);

}  // namespace cairn::cli
