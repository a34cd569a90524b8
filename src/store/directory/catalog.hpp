#pragma once
/// What checkpoints a directory holds, in the order in which they were committed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/restart.hpp"
#include "store/commit/state_file.hpp"
#include "store/directory/file_sizes.hpp"
#include "store/location.hpp"

namespace cairn {

/// What a checkpoint tells of the save that made it.
struct SaveInfo {
  std::int64_t sequence = 0;     ///< 0: another program's, or not to be found out
  std::int64_t parent = -1;      ///< sequence of the checkpoint it went on from; -1: unknown
  std::string identity;          ///< of this very save: its UUID, or the checksum of its index
  double wall_time_seconds = 0;  ///< of the save; of the index file where that is unknown
  int ranks = 0;
  std::optional<double> metric = std::nullopt;  ///< as given at the save
  Application application = {};                 ///< that saved it, where it says
};

enum class Pin {
  none,  ///< or it means another save of this step
  holds,
  damaged,  ///< and holds, since it may mean this save
};

struct CatalogEntry {
  std::int64_t step = 0;
  Format format = Format::bundle;
  std::optional<Format> other = std::nullopt;  ///< in which the step is there, too, and not read
  bool other_is_same = false;  ///< that is a conversion of it, or the other way round
  SaveInfo save;
  int num_files = 0;
  std::int64_t data_bytes = 0;  ///< of the data files, if this process has written them
  std::optional<io::FileId> file =
      std::nullopt;             ///< the index, or the HDF5 file, as it was looked at
  std::string damage;           ///< why it cannot be trusted; empty: not known to be damaged
  bool unreadable = false;      ///< the damage is only that it could not be read now
  bool lacks_metadata = false;  ///< only that these cannot be read: restored if nothing else can be
  bool ours = false;            ///< Cairn wrote it; others' checkpoints are never removed
  bool volatile_commit = false;                 ///< visible, but its last fsync failed
  bool superseded = false;                      ///< an earlier step was committed after it
  Pin pin = Pin::none;                          ///< unless none, it is not removed
  std::optional<StepMark> mark = std::nullopt;  ///< what somebody has said of it
  int in_vain = 0;  ///< restored so often without a newer commit, once that is too often
  std::vector<Thinned> thinned = {};  ///< what it has not
  /// What its save has noted; nothing that has turned, where restarts take no notice of it.
  std::optional<NotFinite> not_finite = std::nullopt;

  /// What tells why it has no tensor of this key, or below it; null: nothing does.
  const Thinned* find_thinned(std::string_view key) const;
};

/// Rank 0 only. Reads every index, of bundles and of HDF5 files that Cairn wrote; ascending by
/// commit order. Checkpoints of other programs order by the state file, then by time, before ours.
/// A damaged index keeps its place by the state file. Looks at the data files of which `sizes` does
/// not tell. Where there is a StepList, only at its steps.
std::vector<CatalogEntry> scan_catalog(const Location&, const SizesOfSteps& sizes = {});
/// The same of the steps that a list names. Nothing: there is no list.
std::optional<std::vector<CatalogEntry>> look_at_listed(const Location&, StepList&);
/// The same of these steps, of which something else than a listing says that they are there.
std::vector<CatalogEntry> look_at_steps(const Location&, const std::vector<std::int64_t>& steps);

/// The same of one step, which is there, alone.
CatalogEntry look_at_step(const Location&, std::int64_t step);

/// Marks what a return to an earlier checkpoint has left behind: whatever was committed between a
/// checkpoint and the one that its run went on from. Where that is unknown: whatever has the same
/// or a higher step than a later commit. Where it is known and not there, it may be the last one
/// before that cannot be read and has a lower step.
void mark_superseded(std::vector<CatalogEntry>&);
/// A checkpoint takes the place of what there was of its step, in the order of numbers.
void enter(std::vector<CatalogEntry>&, CatalogEntry);

/// The entries that a restore tries, newest first: live and not known to be damaged.
std::vector<const CatalogEntry*> restorable(const std::vector<CatalogEntry>&);

/// A mark that outlives the process: this save was found damaged. Durable on return.
void mark_damaged(const Location&, const CatalogEntry&, const std::string& reason);

/// What the `checkpoint` state file says of a catalog. Nothing if no entry can be restored.
std::optional<commit::StateFile> state_file_of(const commit::Naming&,
                                               const std::vector<CatalogEntry>&);

/// Rewrites the `checkpoint` state file if it says anything else than the catalog.
/// `owner`: see commit::write_state_file. `last`: what this owner has written last, which spares
/// reading it; it is brought up to date. `staged`: see commit::rename_state_file. True if it was
/// written.
bool update_state_file(const Location&, const std::vector<CatalogEntry>&,
                       const commit::Ownership* owner = nullptr,
                       std::optional<commit::StateFile>* last = nullptr,
                       const io::Path* staged = nullptr);

/// The owner, notes (store/contents/notes.hpp): what an earlier version saved, or a power failure
/// took the notes of.
void refresh_notes(const Location&, const std::vector<CatalogEntry>&);

}  // namespace cairn
