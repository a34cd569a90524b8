#pragma once
/// Objects that are there, as files for reading.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

io::Status status_of(const bucket::Object&);
/// What Requests::get() takes.
inline constexpr std::int64_t most_whole_bytes = std::int64_t{64} << 20;

/// Of one whose bytes were got.
std::unique_ptr<io::File> small_object(io::Path, const bucket::Object&, std::string bytes);
/// The last bytes of an object, where indexes and metadata are. They are read together, once.
struct ObjectEnd {
  Mutex mutex;
  std::vector<std::byte> bytes CAIRN_GUARDED_BY(mutex);
};
/// Its reads are all of this content; `lost` is called if it is gone or replaced. Files of the same
/// object may share `end`.
std::unique_ptr<io::File> old_object(
    BucketFiles&, io::Path, bucket::Object, std::function<void()> lost = {},
    std::shared_ptr<ObjectEnd> end = std::make_shared<ObjectEnd>());

}  // namespace cairn
