#pragma once
/// A format of checkpoints: what its files are called, how contents are read, what completes a
/// save, what a recovery does first. Each format is one source in contents/formats/ and one line in
/// the table there. What a save in a format lays out before its bytes is in save/ (plan_save.cpp).
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "commit/protocol.hpp"
#include "contents/contents_reader.hpp"

namespace cairn {

/// Has no state: all members are const, and any thread may call them.
class CheckpointFormat {
 public:
  virtual ~CheckpointFormat() = default;
  virtual Format id() const = 0;

  // -- names --------------------------------------------------------------------------------------
  /// Of the file whose name makes a checkpoint visible.
  virtual commit::ParsedName::Kind main_kind() const = 0;
  virtual io::Path main_file(const io::Path& prefix) const = 0;
  virtual io::Path data_file(const io::Path& prefix, int file, int num_files) const = 0;

  // -- contents -----------------------------------------------------------------------------------
  /// Whether this main file is a checkpoint: TensorFlow may have made a bundle; of HDF5 files only
  /// Cairn's count. False if there is none.
  virtual bool recognises(io::FileSystem&, const io::Path& main_file) const = 0;
  /// The bytes of the index, and where they lie. Throws not_found or data_loss.
  virtual IndexFile read_index(io::FileSystem&, const io::Path& prefix) const = 0;
  /// Throws data_loss for contents that no save in this format makes.
  virtual void check(const CheckpointContents&) const {}
  /// See misplaced() in contents_reader.hpp.
  virtual std::string misplaced(const CheckpointContents&) const { return ""; }

  // -- commit -------------------------------------------------------------------------------------
  /// A save of so many data files with elements.
  virtual void shape(commit::Transaction&, int data_files) const = 0;
  /// Rank 0, steps 4 to 6: seals the entries of all ranks and publishes. See commit::publish.
  virtual std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                            const CheckpointMeta&, int data_files,
                                            std::vector<StoredTensor>,
                                            const commit::IsCommitted&) const = 0;
  /// A recovery is about to publish the save of another job; `alone`: that job is known to be dead.
  virtual void take_over(io::FileSystem&, const commit::Transaction&, bool /*alone*/) const {}
};

const CheckpointFormat& format_of(Format);
/// Of a save in progress.
const CheckpointFormat& format_of(const commit::Transaction&);
/// All, in the order in which they are looked for.
std::span<const CheckpointFormat* const> all_formats();

/// Whether a file of this kind makes a checkpoint visible, in any format.
bool is_main_kind(commit::ParsedName::Kind);

}  // namespace cairn
