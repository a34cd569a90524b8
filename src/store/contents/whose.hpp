#pragma once
/// Whether the files under a name are the checkpoint of that name. Only metadata tell: neither an
/// index nor data say which step they are.
#include <string>

#include "cairn/contents.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// Whose metadata these are, compared with the name of their files.
enum class Whose {
  its_own,
  anothers,
  unknown  ///< the name has no number, or is not the one under which it was saved
};
/// For a name without a number, the note tells (notes.hpp).
Whose whose(const Address& prefix, const CheckpointMeta&);

/// Why this is not the checkpoint that its name says: it is a whole one of another step, which was
/// renamed, copied, or swapped with another. Empty: nothing is known against it.
std::string misplaced(const CheckpointContents&);

/// Throws data_loss, with what the user can do, for a misplaced checkpoint, and for an index that
/// is not the one which the metadata beside it prove (IndexFile::foreign).
void require_in_place(const IndexFile&, const CheckpointContents&);
/// Reads a checkpoint after that check.
OpenCheckpoint read_in_place(const Address& prefix);

/// Whether Cairn saved it and its metadata cannot be read. Then only the name says which step it
/// is, and it is unknown which savers took part and how its tensors are described.
bool lacks_metadata(const CheckpointContents&);

}  // namespace cairn
