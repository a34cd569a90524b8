#pragma once
/// How an owner puts an object of its save.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bucket/requests.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/bucket/bucket_place.hpp"
#include "store/draft.hpp"
#include "store/location.hpp"

namespace cairn {

/// Somebody has put a checkpoint of this step, which does not count.
Error in_the_way(const Location&, std::int64_t step, Format);

/// Rank 0's thread that commits. What it is made of outlives it.
struct PutNew {
  const Location& place;
  BucketFiles& files;
  BucketLog& log;
  const BucketPlace& at;
  const Store& store;

  /// Puts it, as `put` does with a condition. A former owner that was stopped may put its objects
  /// of the same step at any time. So an object is put only where the index is that this save
  /// replaces, or none. What a dead save has left is in the way, and goes; what somebody has
  /// brought since begin_save() looked stays. Returns the tag. Throws already_exists; busy.
  using Put = std::function<std::optional<std::string>(const bucket::Condition&)>;
  std::string operator()(const Draft&, const io::Path&, const Put& put) const;
  std::string operator()(const Draft&, const io::Path&, std::string_view bytes) const;
};

}  // namespace cairn
