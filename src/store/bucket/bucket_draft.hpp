#pragma once
/// A save's objects in a bucket.
#include <memory>
#include <string>

#include "store/draft.hpp"

namespace cairn {

/// They have their own names from the beginning: a save that no log names does not count.
std::unique_ptr<DraftFiles> make_bucket_draft(std::shared_ptr<io::FileSystem>, std::string prefix,
                                              const DraftId&);

}  // namespace cairn
