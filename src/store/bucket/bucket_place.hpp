#pragma once
/// Where the objects of the checkpoints of one name are in a bucket.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/commit/names.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of which checkpoints these files of the private directory are the lists.
std::vector<commit::Naming> names_of_lists(const std::vector<std::string>& files);

/// Any thread may use it. What it is made of outlives it. The index of a checkpoint that is one
/// object is that object.
class BucketPlace {
 public:
  BucketPlace(const Location& place, BucketFiles& files, const BucketLog& log)
      : place_(place), files_(files), log_(log) {}

  /// Whether this key is that of a data file.
  bool is_data(const std::string& key) const;
  /// The step of which this key is a data file or the index.
  std::optional<std::int64_t> step_of(const std::string& key) const;
  /// The count in the name of a data object.
  std::int64_t count_of(const std::string& key) const { return parse(key).value().count; }
  /// Adds those of these objects of a step.
  void add_counts(const std::vector<bucket::Object>&, std::set<std::int64_t>& counts) const;
  /// The indexes that are there, and their steps.
  std::vector<bucket::Object> indexes() const;
  std::vector<std::int64_t> steps_there() const;
  /// All objects of a step.
  std::vector<bucket::Object> objects_of(std::int64_t step) const;

  /// Of these objects of a step, those of the save with this uuid, the index first.
  std::vector<bucket::Object> of_save(std::vector<bucket::Object>, const std::string& uuid) const;
  /// Whether it belongs to a save that is dead. A data file ends with its save's id; the index and
  /// what rank 0 writes beside are marked with it. What does not tell is somebody's.
  bool is_dead(const bucket::Object& one) const { return log_.is_dead(save_of(one)); }
  /// Whether this listing is no older than the index that the step has now, and so shows all that
  /// was put before it.
  bool is_new(std::int64_t step, const std::vector<bucket::Object>&) const;
  /// The step has this index now, by BucketFiles::number_of its tag.
  void has_index(std::int64_t step, std::uint64_t tag) const;
  /// Whether an index of this step is among these, and somebody has brought it: no list names it,
  /// and no dead save has left it.
  bool is_beside(std::int64_t step, const std::vector<bucket::Object>&) const;
  /// Whether something of this step was there at the last look, and did not count.
  bool was_beside(std::int64_t step) const;
  /// Looks which steps are there. One request for up to a thousand.
  void look_beside() const;
  /// What belongs to no step that counts, and uploads that were not completed.
  struct Debris {
    std::vector<bucket::Upload> uploads;
    std::vector<bucket::Object> dead, kept;
  };
  Debris debris() const;
  void remove(const std::vector<bucket::Object>&) const;

 private:
  std::string save_of(const bucket::Object&) const;
  std::optional<commit::ParsedName> parse(const std::string& key) const;

  const Location& place_;
  BucketFiles& files_;
  const BucketLog& log_;
  mutable Mutex mutex_;
  mutable std::map<std::int64_t, std::uint64_t> indexes_ CAIRN_GUARDED_BY(mutex_);
  mutable std::set<std::int64_t> beside_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
