#pragma once
/// A save's objects in a bucket.
#include <memory>
#include <string>

#include "store/bucket/bucket_files.hpp"
#include "store/draft.hpp"

namespace cairn {

class SharedObjects;

/// They have their own names from the beginning: a save that no log names does not count.
/// `bucket`: what `files` is, or lets through to; it outlives the draft. `records`: the directory
/// of part records.
std::unique_ptr<DraftFiles> make_bucket_draft(std::shared_ptr<io::FileSystem> files,
                                              BucketFiles& bucket, std::string prefix,
                                              io::Path records, const DraftId&, Format);
/// Of such a draft, on rank 0: what ranks have sent in parts, to be completed or aborted.
SharedObjects& shared_objects(const DraftFiles&);
/// Whether the next owner completes the save of such a draft, if all ranks have written it.
bool may_be_completed(const DraftFiles&);

}  // namespace cairn
