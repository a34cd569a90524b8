#include "session/job/prefix.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "io/local_path.hpp"

namespace cairn {

io::Path checked_directory(const io::Path& directory) {
  if (directory.empty()) {
    throw Error(Code::invalid_argument, "the directory of checkpoints is empty", "",
                "Write . for the current one.");
  }
  // Made absolute now, since programs may change their current directory later.
  const auto whole = io::absolute_path(io::local_path(directory));
  // A separator at the end leaves an empty file name; the root has none in any case.
  return whole.has_filename() || !whole.has_relative_path() ? whole : whole.parent_path();
}

io::Path checked_prefix(Group& group, const io::Path& prefix) {
  auto whole = run_and_agree(group, [&] {
    if (!prefix.has_filename()) {
      throw Error(Code::invalid_argument, cat("'", prefix.string(), "' is no prefix"),
                  "its last part is the name of the checkpoint's files");
    }
    return io::absolute_path(io::local_path(prefix));
  });
  require_same(group, "the prefix", whole.string());
  return whole;
}

}  // namespace cairn
