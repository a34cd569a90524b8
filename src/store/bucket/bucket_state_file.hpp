#pragma once
/// TensorFlow's state file in a bucket.
#include <optional>
#include <vector>

#include "store/bucket/bucket_files.hpp"
#include "store/commit/state_file.hpp"
#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of an owner; used by the thread that tells others what stays. What it is made of outlives it.
class BucketStateFile {
 public:
  BucketStateFile(const Location& place, BucketFiles& files) : place_(place), files_(files) {}

  /// The former owner may have died between its last commit and this file. A file that names a
  /// checkpoint of another name is left, unless a save was completed: which is newer, only a commit
  /// tells.
  void begin(const std::vector<CatalogEntry>&, bool is_completed);
  void write(const std::vector<CatalogEntry>&);

 private:
  const Location& place_;
  BucketFiles& files_;
  std::optional<commit::StateFile> last_;
};

}  // namespace cairn
