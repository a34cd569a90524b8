#pragma once
/// Saves whose job died before their commit: which are whole.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/part_record.hpp"
#include "store/commit/protocol.hpp"
#include "store/location.hpp"

namespace cairn {

/// A save that died after its parts were written, as its records tell.
struct Candidate {
  commit::Transaction save;
  CheckpointMeta meta;
  std::vector<StoredTensor> entries;  ///< as the writers left them: what is checked
  std::vector<StoredTensor> tensors;  ///< of the index
  std::vector<std::string> paths;     ///< of the data files, where they are now
  int data_files = 0;
  std::vector<bundle::PartUpload> uploads = {};  ///< of data files that are not complete yet
  /// Whether one of these is the checkpoint as a whole.
  bool is_one_object() const {
    return std::ranges::any_of(uploads, [](const auto& one) { return one.ends.has_value(); });
  }
};

/// Saves that are not completed.
struct Undecided {
  /// Of those that are removed: what they are and why, by the entry of the directory that has them.
  std::map<std::string, std::string> unfinished;

  // What follows is of saves that cannot be read now: neither completed nor removed.
  std::set<std::string> temps;
  std::set<std::int64_t> steps;
  /// Steps of those that their own job, should it live, may still complete.
  std::set<std::int64_t> within_reach;
  bool any_step = false;  ///< of one not even the step is known: data without an index may be its

  void add_unfinished(const std::string& entry, std::optional<std::int64_t> step,
                      const std::string& why);
};

/// What these records of one save make, without paths. `save` has what names it. Throws data_loss
/// with the reason if they do not make a whole save.
Candidate join_records(commit::Transaction save, const std::vector<bundle::PartRecord>&);

/// Rank 0. What may be completed, in the order in which it was to be committed: nothing has been
/// committed after it. An owner takes unfinished saves out of the hands of their jobs first (keep);
/// null: who only looks.
std::vector<Candidate> find_candidates(const Location&, const commit::Ownership*, Undecided&);

/// Local: what is wrong with those of the slices that this io rank is to read (each has a share),
/// or nothing. `paths`: of the data files, by number.
std::optional<Error> check_share(const Location&, const Readers&,
                                 const std::vector<std::string>& paths,
                                 const std::vector<StoredTensor>&);

enum class Soundness { whole, damaged, unreadable };

/// Collective. Whether every byte of the candidate, which rank 0 knows, is what was written. Throws
/// unavailable.
Soundness examine(const Location&, const Readers&, const Candidate&, std::string& why);

/// Rank 0. What a committed checkpoint says of itself, without its tensors; or nothing where that
/// cannot be told: then its files are left alone.
std::optional<CheckpointContents> try_summary(const Location&, std::int64_t step);
/// Logs why, unless it is damaged or gone.
void tell_unreadable(std::int64_t step, const Error& why);

}  // namespace cairn
