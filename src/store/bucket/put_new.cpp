#include "store/bucket/put_new.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/contents/format.hpp"

namespace cairn {

Error in_the_way(const Location& place, std::int64_t step, Format format) {
  const auto prefix = place.prefix(step).string();
  const auto name = format_of(format).as_argument(prefix).string();
  return Error(Code::already_exists,
               cat("step ", step, " is in ", place.directory.string(), ", and does not count"),
               "somebody has put it there beside the list of checkpoints",
               cat("cairn convert ", name, ' ', name, " --overwrite makes it count; or remove it."))
      .at(prefix);
}

std::string PutNew::operator()(const Draft& draft, const io::Path& path, const Put& put) const {
  const auto key = BucketFiles::key_of(path);
  constexpr int most_tries = 3;
  for (int tries = 0; tries < most_tries; ++tries) {
    const auto replaces = [&] { return log.counts(draft.step()) && !at.is_data(key); };
    auto condition = bucket::Condition::absent();
    if (replaces() || tries > 0) {
      auto client = files.client();
      const auto there = client->look(key);
      log.require_own();  // else it may be another owner's, and count
      if (there && replaces()) {
        condition = bucket::Condition::same(there->tag);
      } else if (there && log.is_dead(there->mark)) {
        client->remove(key, there->tag);
      } else if (there) {
        throw in_the_way(place, draft.step(), draft.format());
      }
    }
    if (const auto tag = put(condition)) return *tag;
    store.check_owner();
  }
  throw Error(Code::busy, cat("another job writes step ", draft.step()), "its objects come and go",
              "Let that job end, or save elsewhere.")
      .at(path.string());
}

std::string PutNew::operator()(const Draft& draft, const io::Path& path,
                               std::string_view bytes) const {
  return (*this)(draft, path, [&](const bucket::Condition& condition) {
    return files.client()->put(BucketFiles::key_of(path), std::as_bytes(std::span(bytes)),
                               condition, draft.uuid());
  });
}

}  // namespace cairn
