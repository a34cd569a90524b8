#pragma once
/// Whether what lies under a name is the checkpoint of that name. Only metadata tell: an index,
/// like data, has nothing in it that says which step it is.
#include <string>

#include "cairn/contents.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn {

/// Of which checkpoint metadata speak, by the name of the files that they lie in.
enum class Whose {
  its_own,
  anothers,
  unknown  ///< the name has no number, or is not the one under which it was saved
};
/// Of a name without a number the note tells (notes.hpp).
Whose whose(const Address& prefix, const CheckpointMeta&);

/// Why this is not the checkpoint that its name says: a whole one of another step, which was
/// renamed, copied, or has changed places with another. Empty: nothing is known against it.
std::string misplaced(const CheckpointContents&);

/// The same of an index that is not the one which the metadata beside it prove
/// (IndexFile::foreign), too. Throws data_loss, with the way out.
void require_in_place(const IndexFile&, const CheckpointContents&);
/// Reads one of which that is proved.
OpenCheckpoint read_in_place(const Address& prefix);

/// Whether Cairn saved it, and its metadata cannot be read: then only the name says which step it
/// is, and nothing which savers took part and what describes its tensors.
bool lacks_metadata(const CheckpointContents&);

}  // namespace cairn
