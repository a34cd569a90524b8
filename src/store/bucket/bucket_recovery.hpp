#pragma once
/// What an owner of a bucket's checkpoints does first: completes what is written, removes what does
/// not count.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/bucket/bucket_place.hpp"
#include "store/directory/candidates.hpp"
#include "store/directory/recovery.hpp"
#include "store/location.hpp"

namespace cairn {

/// Only rank 0 needs what is marked. What it is made of outlives it.
struct BucketRecovery {
  const Location& place;
  BucketFiles& files;
  BucketLog& log;         ///< rank 0
  const BucketPlace& at;  ///< rank 0
  bool read_only = false;
  std::function<void()> check_owner;               ///< rank 0
  std::function<void(const Candidate&)> complete;  ///< rank 0, of a bundle

  /// Collective. Takes the log: from then on no former owner commits. A reader only tells what an
  /// owner would do.
  Recovered run(const Readers&);

 private:
  bool take_log();
  void complete_written(const Readers&, const std::vector<Candidate>&,
                        std::set<std::int64_t>& undecided, Recovered&);
  std::optional<Soundness> complete_parts(const Candidate&, std::string& why) const;
  void complete_object(const Candidate&) const;
  void commit_object(const Candidate&) const;
  void remove_debris(BucketPlace::Debris, const std::set<std::int64_t>& undecided, bool has_records,
                     Recovered&) const;
};

}  // namespace cairn
