#pragma once
/// The log of a bucket's checkpoints of one name: which numbers were given, and which steps count.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// An object that is put on the condition that it is the one which its owner has read or put last.
/// So each change is a fence: a former owner's changes fail from then on. Any thread may use it.
class BucketLog {
 public:
  struct Contents {
    std::int64_t given = 0;                    ///< numbers up to this one were given
    std::int64_t changes = 0;                  ///< so that no two logs are equal
    std::map<std::int64_t, std::string> uuid;  ///< of the steps that count
  };

  BucketLog(BucketFiles& files, io::Path path) : files_(files), path_(std::move(path)) {}
  static io::Path path_of(const Location&);
  /// Whose log the file of this name in .cairn is, if it is one.
  static std::optional<commit::Naming> naming_of(std::string_view file);

  /// Returns whether there is a log.
  bool read();
  /// Puts the log with this change. Throws busy, and changes nothing, if somebody else has put it.
  /// After any other error it may have been put; the next change finds out.
  Contents change(const std::function<void(Contents&)>&);
  /// Takes a block of numbers. The log is another one then, and no former owner can change it.
  /// `there`: what a new log begins with.
  void take_numbers(const Contents& there);
  /// Throws busy if somebody else has put the log: to be called before something is removed.
  void require_own();
  static constexpr std::int64_t numbers_at_once = std::int64_t{1} << 20;
  bool counts(std::int64_t step) const;
  std::vector<std::int64_t> steps() const;  ///< that count
  std::int64_t given() const;

 private:
  Error another_owner() const;

  BucketFiles& files_;
  const io::Path path_;
  mutable Mutex mutex_;
  Contents contents_ CAIRN_GUARDED_BY(mutex_);
  // What may have been put, if the answer was lost, and its text.
  std::optional<std::pair<Contents, std::string>> unsure_ CAIRN_GUARDED_BY(mutex_);
  void settle() CAIRN_REQUIRES(mutex_);
  std::string tag_ CAIRN_GUARDED_BY(mutex_);  // empty: there is no log
};

}  // namespace cairn
