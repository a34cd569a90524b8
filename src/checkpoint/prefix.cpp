#include "checkpoint/prefix.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"

namespace cairn {

io::Path checked_prefix(Group& group, const io::Path& prefix) {
  const auto whole = together(group, [&] {
    if (!prefix.has_filename()) {
      throw Error(Code::invalid_argument, cat("'", prefix.string(), "' is no prefix"),
                  "its last part is the name of the checkpoint's files");
    }
    return std::filesystem::absolute(prefix).lexically_normal();
  });
  require_same(group, "the prefix", whole.string());
  return whole;
}

}  // namespace cairn
