#pragma once
/// What the owner of a directory does first: complete what counts, remove what does not.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/error.hpp"
#include "io/file_system.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"
#include "store/location.hpp"

namespace cairn {

/// What becomes of an entry of the directory.
struct RecoveryStep {
  std::string entry;
  bool completes;  ///< it becomes a whole checkpoint, or part of one; else it is removed
  std::string why;
  std::optional<io::FileId> id = std::nullopt;  ///< of a file that is removed
  bool unfinished = false;                      ///< a save goes with it that did not finish
};

/// On rank 0.
struct Recovered {
  bool any = false;  ///< a checkpoint came to be or came back
  /// Entries of the directory that may be whole saves and cannot be read now: neither completed nor
  /// removed.
  std::vector<std::string> undecided;
  /// Steps of those that their own job, should it live, may still complete: nobody else saves
  /// them.
  std::set<std::int64_t> within_reach;
  std::vector<RecoveryStep> removed;
  /// Checkpoints that came to be, by their names, or would by an owner's hand; of a store that is
  /// no directory.
  std::vector<RecoveryStep> completed;
  /// "step: why" of saves that were written, and are not completed now, for lack of room.
  std::vector<std::string> not_completed;
};

/// Collective. A temp directory whose parts are all there, agree, cover every tensor and have bytes
/// with the right checksums is rolled forward to a committed checkpoint; the reading is shared by
/// the ranks. Everything else of ours that no checkpoint refers to is removed; files that are not
/// ours are never touched. A direct save is rolled forward without renames; one that was replacing
/// an index and cannot be rolled forward gives the old index back. A save that needs renames is
/// removed where there are none: its step is as it was before, and nobody would ever come for its
/// files. What there is no room to complete stays. What earlier owners had set aside to remove it
/// has its name again, first of all. Of a step in two formats the older one goes only as
/// two_formats.hpp says.
///
/// `owner` is rank 0's, null on others.
Recovered recover(const Location&, const Readers&, const commit::Ownership* owner);

/// Rank 0. Tells the log what was removed and why, a line for each reason: at the level warning
/// where somebody may wait for a save that is gone with it.
void tell_removed(const Location&, const Recovered&);
/// What is told of a save that lacks room to be completed: "step: why".
std::string not_completed(std::int64_t step, const Error&);

/// Whether the checkpoint that stands where this save's would is this save's. Throws if that cannot
/// be read.
bool holds(io::FileSystem&, const commit::Transaction&);

/// Rank 0, before a direct save of this step begins, which removes what earlier ones left: recovery
/// may have been unable to decide about one. If it had begun to replace the index, what stood there
/// comes back. Throws io if that still cannot be told. True if nothing is left of the step: only
/// that save's index had ever stood there.
bool put_back_undecided(const Location&, std::int64_t step);

/// What recover would do with the directory as it is now. One process. Changes nothing and needs no
/// ownership; reads all bytes of unfinished saves.
std::vector<RecoveryStep> plan_recovery(const Location&, const Readers&);

}  // namespace cairn
