#pragma once
/// The log of a bucket's checkpoints of one name: which numbers were given, which steps count, and
/// whose saves can be told from what others have brought.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/error.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/commit/names.hpp"

namespace cairn {

/// An object that is put on the condition that it is the one which its owner has read or put last.
/// So each change is a fence: a former owner's changes fail from then on. Any thread may use it.
///
/// Each owner has an id, with which the uuids of its saves begin; they end with the save's number
/// among them. So what lies in the bucket tells whether its save is dead: it never counted and
/// never will, or it was removed. Anything else is somebody's, and stays: what was copied there, or
/// copied back.
class BucketLog {
 public:
  struct Contents {
    std::int64_t given = 0;                    ///< numbers up to this one were given
    std::int64_t changes = 0;                  ///< so that no two logs are equal
    std::map<std::int64_t, std::string> uuid;  ///< of the steps that count
    /// The last owners, and the number of each one's last save that counted.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> owners;
    std::vector<std::string> dead;  ///< uuids of others that were removed, or have failed
  };

  BucketLog(BucketFiles& files, io::Path path) : files_(files), path_(std::move(path)) {}
  /// Puts what are_gone() has said, unless a change has.
  ~BucketLog();
  static io::Path path_of(const Location&);
  /// Whose log the file of this name in .cairn is, if it is one.
  static std::optional<commit::Naming> naming_of(std::string_view file);

  /// Returns whether there is a log. One that is damaged is as good as none.
  bool read();
  /// Whether there was a damaged one then.
  bool is_damaged() const;
  void tell_if_damaged() const;
  /// Puts the log with this change. Throws busy, and changes nothing, if somebody else has put it.
  /// After any other error it may have been put; the next change finds out.
  Contents change(const std::function<void(Contents&)>&);
  /// Takes a block of numbers. The log is another one then, and no former owner can change it.
  /// `there`: what a new log begins with.
  void take_numbers(const Contents& there);
  /// The uuid of this owner's next save.
  commit::Uuid next_uuid();
  /// Commits a save, of this owner or a former one; one that it replaces is dead. Throws as
  /// change() does.
  void commit(std::int64_t step, const std::string& uuid);
  /// These steps do not count any more. Returns the uuids of their saves, which are dead.
  std::map<std::int64_t, std::string> retire(const std::vector<std::int64_t>& steps);
  /// Nothing is left of these dead saves: what comes with such a uuid was copied back.
  void are_gone(const std::vector<std::string>& uuids);
  /// A save that nobody completes; it is dead unless it counts. withdraw(): makes sure that no
  /// later owner does; throws as change() does.
  void failed(const std::string& uuid);
  void withdraw(const std::string& uuid);
  /// Whether a save of this step, all of which a former owner has written, may be completed: that
  /// owner has committed nothing after it and has not withdrawn it, and the step does not count.
  bool may_be_completed(std::string_view uuid, std::int64_t step) const;
  /// Whether only that keeps it from being completed, that another save of the step counts.
  bool is_over_another(std::string_view uuid, std::int64_t step) const;
  bool is_dead(std::string_view uuid) const;
  /// Whether it is one of the last owners' saves.
  bool knows(std::string_view uuid) const;

  /// Throws busy if somebody else has put the log: to be called before something is removed.
  void require_own();
  static constexpr std::int64_t numbers_at_once = std::int64_t{1} << 20;
  bool counts(std::int64_t step) const;
  std::vector<std::int64_t> steps() const;  ///< that count
  std::int64_t given() const;

 private:
  Error another_owner() const;
  bool is_last(std::string_view uuid) const CAIRN_REQUIRES(mutex_);

  BucketFiles& files_;
  const io::Path path_;
  mutable Mutex mutex_;
  Contents contents_ CAIRN_GUARDED_BY(mutex_);
  bool has_news_ CAIRN_GUARDED_BY(mutex_) = false;
  // What may have been put, if the answer was lost, and its text.
  std::optional<std::pair<Contents, std::string>> unsure_ CAIRN_GUARDED_BY(mutex_);
  void settle() CAIRN_REQUIRES(mutex_);
  const std::uint64_t me_ = commit::random_uuid().high;
  // Saves of former owners, which may still put objects of them.
  std::set<std::string, std::less<>> completed_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t given_saves_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::string tag_ CAIRN_GUARDED_BY(mutex_);  // empty: there is no log
  bool is_damaged_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn
