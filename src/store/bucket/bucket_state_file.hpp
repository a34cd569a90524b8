#pragma once
/// TensorFlow's state file in a bucket.
#include <optional>
#include <string>
#include <vector>

#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/commit/state_file.hpp"
#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of an owner; used by the thread that tells others what stays. What it is made of outlives it.
/// One who does not own the place any more replaces nothing, and gets the error of the log.
class BucketStateFile {
 public:
  BucketStateFile(const Location& place, BucketFiles& files, BucketLog& log)
      : place_(place), files_(files), log_(log) {}

  /// The former owner may have died between its last commit and this file. A file that names a
  /// checkpoint of another name is left, unless a save was completed: which is newer, only a commit
  /// tells.
  void begin(const std::vector<CatalogEntry>&, bool is_completed);
  void write(const std::vector<CatalogEntry>&);

 private:
  const Location& place_;
  BucketFiles& files_;
  BucketLog& log_;
  std::optional<commit::StateFile> last_;
  std::optional<std::string> tag_;  // of what was read or put last; nothing: there was no file
};

}  // namespace cairn
