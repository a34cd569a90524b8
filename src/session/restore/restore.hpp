#pragma once
/// N → M restore: fills any wanted slices from any stored ones; every byte is read once and
/// checked.
#include <optional>
#include <set>
#include <string>

#include "cairn/restore_options.hpp"
#include "session/job/job.hpp"
#include "session/restore/shared_index.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Collective; the ranks must have agreed on the io ranks before. Returns what a checkpoint holds.
/// Rank 0 reads the index, since other nodes may see an older state of the directory; each io rank
/// checks that its share of the data files is there. Throws not_found or data_loss.
CheckpointContents tell_contents(const Job&, const io::Path& prefix);
/// The same for a restore, collective too: of a large index each rank reads and keeps a part.
/// Without `format` it takes the format that tell_contents() would. `known`, on rank 0: the only
/// format in which it was when somebody has looked, which saves looking for others.
SharedIndex share_index(const Job&, const io::Path& prefix,
                        std::optional<Format> format = std::nullopt,
                        std::optional<Format> known = std::nullopt);

/// What a restore has begun to change on this rank, whether or not it succeeds.
struct Touched {
  std::set<std::string> keys;    // keys of the state
  std::set<std::string> savers;  // names of savers
};

struct RestoreExtras {
  bool savers = true;          // call the registered savers
  Touched* touched = nullptr;  // filled, if not null
  bool may_be_older = false;   // if rules removed keys of this step, another step is tried
};

/// Collective. Calls the savers that took part in the checkpoint, and adds their names to
/// `touched`.
void restore_savers(const Job&, const CheckpointContents&, Touched* touched);

/// Collective. Fills the state from the checkpoint. Throws the same error on all ranks: the errors
/// of resolve(), before any memory is changed; invalid_argument for a value that its new dtype
/// cannot hold, and data_loss if bytes are damaged or missing. After these two the contents of the
/// arrays are unspecified (unless options.verify_first is set).
RestoreReport restore_state(const Job&, const SharedIndex&, State&, const RestoreOptions&,
                            const RestoreExtras& = {});

}  // namespace cairn
