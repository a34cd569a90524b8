#pragma once
/// Data files of frozen tensors: shared with the previous checkpoint, or written.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_hash.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// Returns why frozen tensors of this job are written in full each time; "": they are shared.
std::string why_not_frozen(const Job&);
/// Whether saves of this job may share data files; the same on all ranks.
inline bool freezes(const Job& job) { return why_not_frozen(job).empty(); }
/// Whether the options ask for it.
inline bool wants_frozen(const Job& job) {
  return !job.options.frozen.keys.empty() || job.options.frozen.automatic;
}
/// Whether the tensor is a frozen one, by its key or its mark.
bool is_frozen(const Job&, const std::string& key, const LocalTensor&);

/// A data file of frozen tensors, as it is in a committed checkpoint.
struct FrozenFile {
  std::vector<StoredTensor> entries;
  KeyedHash::Digest digest;  ///< of all its bytes, in the order of the entries
  std::int64_t size = 0;     ///< of the file
  io::FileId id;
  int unread = 0;  ///< how many saves have shared it since its bytes were written or read
};

/// What a rank knows of the frozen files of the last save that it took part in. `files` are of one
/// commit.
struct FrozenFiles {
  std::int64_t sequence = -1;  ///< of its commit; -1: none is known
  std::vector<FrozenFile> files;
};

/// The files of this rank's frozen tensors in one save.
struct FrozenResult {
  std::vector<FrozenFile> files;  ///< complete, with the final file numbers
  std::int64_t shared_bytes = 0;  ///< bytes of those files that were shared, not written
};

/// Shares and writes files of frozen tensors. Each rank has one object for all its saves.
class Frozen {
 public:
  /// Local; called by the caller's thread, since `state` must not change meanwhile. All files are
  /// durable on return; the names of shared files become durable with the temp directory, as those
  /// of new files do. After three saves in a row that could not link a file, no further save tries.
  FrozenResult write(const Job&, const RefreshedState&, const LocalShards&, int first_file,
                     const Draft&);
  /// Tells that all ranks have committed the save.
  void committed(std::int64_t sequence, FrozenResult&&);
  std::int64_t sequence() const { return known_.sequence; }

 private:
  const FrozenFile* known(const Draft&, const std::vector<StoredTensor>&) const;

  // Random, of this process; made at the first save with frozen tensors.
  std::optional<KeyedHash::Key> key_;
  // Of the last committed save that this rank took part in.
  FrozenFiles known_;
  int without_links_ = 0;  // how many saves in a row could not make the links that they wanted
};

}  // namespace cairn
