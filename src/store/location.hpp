#pragma once
/// The place of the checkpoints of one name, the ranks that read them together, and the rules by
/// which they are kept.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/retention.hpp"
#include "cairn/write_options.hpp"
#include "cairn/xdmf.hpp"
#include "store/address.hpp"
#include "store/commit/names.hpp"

namespace cairn {

struct Location {
  std::shared_ptr<io::FileSystem> files;
  io::Path directory;
  commit::Naming naming;
  bool atomic_rename = true;  ///< of the directory, as far as is known; the same on all ranks

  /// Throws not_found for a negative step.
  io::Path prefix(std::int64_t step) const;
};

/// The place of the checkpoints with this name, in a directory.
inline Location location_of(const Address& directory, commit::Naming naming, bool renames = true) {
  return {directory.files(), directory.path(), std::move(naming), renames};
}

/// The same place in a new view of its files (io::Viewed).
Location view_of(Location);

/// A FileSystem whose store keeps a list of the steps that count also derives from this class.
class StepList {
 public:
  virtual ~StepList() = default;
  /// Nothing if the place has no such list: then what is there counts.
  virtual std::optional<std::vector<std::int64_t>> steps_that_count(const Location&) = 0;
  /// The steps that are there and do not count, although no save of Cairn's has left them.
  virtual std::vector<std::int64_t> steps_beside(const Location&) = 0;
  /// The list of the place if it is damaged: then what is there counts, too. Empty: it is not.
  virtual io::Path damaged_list(const Location&) = 0;
  /// Who owns the place, or owned it when it died: "process 12 on host n0"; empty: nobody.
  virtual std::string owner_of(const Location&) = 0;
  /// The names of which the directory has lists.
  virtual std::vector<commit::Naming> names_in(const io::Path& directory) = 0;
};

/// That of these files, or else of those that they wrap; null: there is none.
StepList* step_list_of(io::FileSystem&);

/// The ranks that share the reading in a recovery. Functions with a `Readers` argument are
/// collective: all ranks of the group call them.
struct Readers {
  Group& group;
  std::vector<int> ranks;  ///< ascending; the same on all ranks

  bool root() const { return group.rank() == 0; }
  /// This rank's index in `ranks`; nothing if it reads nothing.
  std::optional<std::size_t> place() const {
    const auto at = std::find(ranks.begin(), ranks.end(), group.rank());
    if (at == ranks.end()) return std::nullopt;
    return static_cast<std::size_t>(at - ranks.begin());
  }
};

/// The rules of a directory's owner, or of a reader, which owns nothing.
struct Policy {
  Format format = Format::bundle;  ///< of what is saved
  Retention keep = {};
  bool read_only = false;
  bool recycle = false;          ///< data files of what goes are for later saves to overwrite
  bool keeps_state_file = true;  ///< what is newest in the directory is for this owner to say
  bool has_savers = false;       ///< a checkpoint has files of registered savers, too
  bool atomic_rename = true;     ///< false: rely on no rename, and make the directory say so
  DirectIo direct_io = DirectIo::automatic;                 ///< how data files are written
  SkipUnchanged skip_unchanged = SkipUnchanged::automatic;  ///< blocks that a file holds already
  int read_every = 20;             ///< of these blocks: as FrozenOptions::read_every
  int most_names = 100;            ///< and most_names, of files that share space
  double owner_wait_seconds = 10;  ///< how long a dying previous owner is waited for
  bool sole_writer = false;        ///< conditional puts are not needed
  /// Over how many devices a data file is striped (WriteOptions::stripes); 0: chosen by the number
  /// of writers; -1: as the directory says.
  int stripes = 0;
  int writers = 1;                                 ///< ranks that write data files
  io::Path metrics = {};                           ///< a file for monitors; empty: none
  bool part_records = false;                       ///< blocking saves leave them, too
  std::optional<XdmfOptions> xdmf = std::nullopt;  ///< none: no XDMF file is kept up to date
  std::string options_name = "ManagerOptions";     ///< what the caller calls them, for errors

  /// Over how many devices each of `data_files` files is striped; 0: as the directory says.
  int stripes_of(int data_files) const;
};

}  // namespace cairn
