#pragma once
/// Objects of a save that several ranks write in parts.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "io/paced.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/draft.hpp"

namespace cairn {

/// What one rank knows of them. Rank 0 begins and completes the uploads; every rank sends parts.
/// Any thread may use it. `files` outlives it.
class SharedObjects {
 public:
  explicit SharedObjects(BucketFiles& files) : files_(files) {}

  /// Rank 0. If it throws, nothing stays begun.
  void begin(const std::map<int, io::Path>& objects);
  // See DraftFiles.
  std::string tell() const;
  void hear(std::string_view);
  /// `end` follows the last part of the object. Tags are known when the file is synced.
  std::unique_ptr<io::File> open(int number, const io::Path&, std::vector<FilePart>,
                                 std::string end, io::Pace*);
  /// Rank 0. Throws already_exists if there is such an object.
  void complete();
  /// Those that are not complete.
  void abort();

  void sent(int number, const bucket::PartTags&, int last);

 private:
  struct One {
    io::Path path = {};  // rank 0
    bucket::Upload upload = {};
    bucket::PartTags tags = {};
    int last = 0;  // the number of the last part, if it is sent
  };

  BucketFiles& files_;
  mutable Mutex mutex_;
  std::map<int, One> all_ CAIRN_GUARDED_BY(mutex_);  // by the number of the data file
};

}  // namespace cairn
