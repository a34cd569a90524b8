#pragma once
/// N → M restore: any stored slices into any wanted ones, every byte read once and checked.
#include <optional>
#include <set>
#include <string>

#include "cairn/restore_options.hpp"
#include "session/job/job.hpp"
#include "session/restore/shared_index.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Collective, after ranks agreed on the io ranks. What a checkpoint holds. Rank 0 reads the index,
/// since other nodes may not see the directory as it is now; each io rank looks whether its share
/// of the data files is there. Throws not_found or data_loss.
CheckpointContents tell_contents(const Job&, const io::Path& prefix);
/// The same for a restore: of a large index each rank reads and keeps a part. Of the format that is
/// read, or of this one.
SharedIndex share_index(const Job&, const io::Path& prefix, std::optional<Format> = std::nullopt);

/// What a restore has begun to write to on this rank, whether or not it succeeds.
struct Touched {
  std::set<std::string> keys;    // of the state
  std::set<std::string> savers;  // by name
};

struct RestoreExtras {
  bool savers = true;          // call the registered ones
  Touched* touched = nullptr;  // filled, if not null
  bool may_be_older = false;   // another step is taken where this one has lost keys by a rule
};

/// Collective. Calls the savers that took part in the checkpoint, and adds their names to
/// `touched`.
void restore_savers(const Job&, const CheckpointContents&, Touched* touched);

/// Collective. Fills the state from the checkpoint. Throws, on all ranks alike: what resolve()
/// throws, before anything is touched; invalid_argument for a value that its new dtype cannot hold
/// and data_loss if bytes are damaged or missing,
/// after which the arrays' contents are unspecified (unless options.verify_first).
RestoreReport restore_state(const Job&, const SharedIndex&, State&, const RestoreOptions&,
                            const RestoreExtras& = {});

}  // namespace cairn
