#pragma once
/// A view of a bucket's files: what listings and answers tell is not asked again.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/old_objects.hpp"
#include "store/location.hpp"

namespace cairn {

/// What a view knows. Keys are those of objects; `begin` is what all keys in a directory begin
/// with, or all of a checkpoint. Any thread may use it.
///
/// A listing may be old. So it never tells that a file is missing. And it tells of a data file only
/// if it has the index that the checkpoint was found to have: then it is no older than that index,
/// before which the data files were put.
class KnownObjects {
 public:
  struct Known {
    std::optional<bucket::Object> object;  ///< nothing: it was looked for, and is not there
    bool is_found;                         ///< by a look, or with its bytes; else it was listed
  };
  std::optional<Known> find(const std::string& key) const;
  void found(const std::string& key, std::optional<bucket::Object>);
  /// All that begins so, one level deep.
  void listed(const std::string& begin, const bucket::Requests::Listing&);
  /// Whether it was, or a listing of what is above shows that there is nothing.
  bool is_listed(const std::string& begin) const;
  std::vector<std::string> names_in(const std::string& begin) const;
  /// Whether this is a directory, as far as listings tell.
  std::optional<bool> is_directory(const std::string& key) const;

  /// What is known of the end of this object; of the last one that was asked for.
  std::shared_ptr<ObjectEnd> end_of(const bucket::Object&);

  void forget();

 private:
  const std::set<std::string>* below(const std::string& begin) const CAIRN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, bucket::Object> listed_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::string, std::optional<bucket::Object>> found_ CAIRN_GUARDED_BY(mutex_);
  std::shared_ptr<ObjectEnd> end_ CAIRN_GUARDED_BY(mutex_);
  std::pair<std::string, std::string> end_of_ CAIRN_GUARDED_BY(mutex_);  // its key and tag
  // Of all that was listed, the beginnings of keys that go on.
  std::map<std::string, std::set<std::string>> below_ CAIRN_GUARDED_BY(mutex_);
};

/// See io::Viewed. `files` is or wraps nothing but a BucketFiles.
class BucketView : public io::FileSystemWrapper, public io::Viewed, public StepList {
 public:
  BucketView(const std::shared_ptr<io::FileSystem>& self, BucketFiles& files)
      : FileSystemWrapper(self), self_(self), files_(files) {}

  std::shared_ptr<io::FileSystem> view(std::shared_ptr<io::FileSystem>) override {
    return files_.view(self_);
  }
  std::unique_ptr<io::File> open_read(const io::Path&) override;
  std::unique_ptr<io::Reader> read_ahead(std::vector<io::Path>, std::vector<io::Extent>,
                                         DirectIo) override;
  std::vector<std::string> list(const io::Path&) override;
  std::optional<io::Status> status(const io::Path&) override;

  // What counts is not remembered.
  std::optional<std::vector<std::int64_t>> steps_that_count(const Location& place) override {
    return files_.steps_that_count(place);
  }
  io::Path damaged_list(const Location& place) override { return files_.damaged_list(place); }
  std::string owner_of(const Location& place) override { return files_.owner_of(place); }
  std::vector<std::int64_t> steps_beside(const Location&) override;
  std::vector<commit::Naming> names_in(const io::Path& directory) override;

 private:
  std::optional<bucket::Object> find(bucket::Requests&, const io::Path&);
  bucket::Object require(bucket::Requests&, const io::Path&);  ///< throws not_found

  const std::shared_ptr<io::FileSystem> self_;
  BucketFiles& files_;
  const std::shared_ptr<KnownObjects> known_ = std::make_shared<KnownObjects>();
};

}  // namespace cairn
