#pragma once
/// Data files of frozen tensors: shared with the checkpoint before, or written.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_hash.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// Why frozen tensors of this job are written in full each time; "": they are not.
std::string why_not_frozen(const Job&);
/// Whether saves of this job share data files; the same on all ranks.
inline bool freezes(const Job& job) {
  return !job.options.frozen.keys.empty() && why_not_frozen(job).empty();
}
/// Whether the tensor is one of those, by its key and what it holds.
bool is_frozen(const Job&, const std::string& key, const LocalTensor&);

/// A data file of frozen tensors, as it is in a committed checkpoint.
struct FrozenFile {
  std::vector<StoredTensor> entries;
  KeyedHash::Digest digest;  ///< of their bytes, one after the other
  std::int64_t size = 0;     ///< of the file
  io::FileId id;
  int unread = 0;  ///< so many saves have shared it since its bytes were written or read
};

/// What a rank knows of the frozen files of the last save that it took part in.
struct FrozenFiles {
  std::int64_t sequence = -1;  ///< of its commit; -1: none is known
  std::vector<FrozenFile> files;
};

/// What this rank has made of its frozen tensors in one save.
struct FrozenResult {
  std::vector<FrozenFile> files;  ///< complete, with the final file numbers
  std::int64_t shared_bytes = 0;  ///< of these files, that were not written
};

/// Shares and writes files of frozen tensors. One a rank, for all its saves.
class Frozen {
 public:
  /// Local, and of the caller's thread: `state` is not to change meanwhile. All files are durable
  /// on return; names of shared ones become so with the temp directory, as those of new ones do.
  /// After three saves that could link nothing none tries it any more.
  FrozenResult write(const Job&, const RefreshedState&, const LocalShards&, int first_file,
                     const Draft&);
  /// A save has been committed on all ranks.
  void committed(std::int64_t sequence, FrozenResult&&);
  std::int64_t sequence() const { return known_.sequence; }

 private:
  const FrozenFile* known(const Draft&, const std::vector<StoredTensor>&) const;

  std::optional<KeyedHash::Key> key_;
  FrozenFiles known_;
  int without_links_ = 0;  // so many saves in a row could not link what they would
};

}  // namespace cairn
