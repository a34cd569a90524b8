#pragma once
/// A format of checkpoints: what its files are called, how contents are read, what completes a
/// save, what a recovery does first. Each format is one source in contents/formats/ and one line in
/// the table there. What a save in a format lays out before its bytes is in save/ (plan_save.cpp).
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "store/address.hpp"
#include "store/commit/protocol.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/seal.hpp"

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
  /// Cairn's count. False if there is none. Throws where that cannot be told.
  virtual bool recognises(io::FileSystem&, const io::Path& main_file) const = 0;
  /// The bytes of the index, and where they lie. Throws not_found or data_loss.
  virtual IndexFile read_index(io::FileSystem&, const io::Path& prefix) const = 0;
  /// Throws data_loss for contents that no save in this format makes.
  virtual void check(const CheckpointContents&) const {}
  /// Whether no other program's checkpoints are recognised, so that a damaged one is Cairn's too.
  virtual bool is_cairns() const { return false; }
  /// Whether tensors are datasets of an HDF5 file, of which keys are the paths.
  virtual bool has_datasets() const { return false; }
  /// Whether nothing beside a checkpoint tells that it was there: then notes do (notes.hpp).
  virtual bool needs_notes() const { return false; }
  /// How many data files of their own names belong to a checkpoint that is whole.
  virtual int named_data_files(int num_files) const { return num_files; }
  bool has_data_files() const { return named_data_files(1) > 0; }
  /// How many bytes at the end of the main file seal it; 0: it has no seal.
  virtual std::int64_t seal_bytes() const { return 0; }

  // -- what stands where a checkpoint of it would -------------------------------------------------
  /// A file of the main file's name that is not Cairn's, and that no save replaces.
  virtual std::optional<io::Path> foreign(io::FileSystem&, const io::Path& /*prefix*/) const {
    return std::nullopt;
  }
  /// Whether a checkpoint of Cairn's in another format is there, or may be, which goes when one of
  /// this format is committed or removed.
  virtual bool has_others(io::FileSystem&, const io::Path& prefix) const = 0;

  // -- commit -------------------------------------------------------------------------------------
  /// A save of so many data files with elements.
  virtual void shape(commit::Transaction&, int data_files) const = 0;
  /// Whether the commit takes entries that are encoded for an index.
  virtual bool takes_encoded() const { return false; }
  /// Rank 0, steps 4 to 6: seals the entries of all ranks, which takes time where they are many,
  /// calls `sealed`, which may throw (whether the directory is still ours is asked as late as can
  /// be), and publishes. See commit::publish.
  virtual std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                            const CheckpointMeta&, int data_files, JoinedEntries,
                                            const std::function<void()>& sealed,
                                            const commit::IsCommitted&) const = 0;
  /// Whether the commit is a rename of the checkpoint's one file.
  virtual bool relies_on_renames() const { return false; }
  /// Whether rank 0 lays each save out anew, so that a repeated one is not made without a message.
  virtual bool is_laid_out_each_time() const { return false; }

  // -- recovery -----------------------------------------------------------------------------------
  /// Whether this unfinished save is one in this format.
  virtual bool began(io::FileSystem&, const commit::Transaction&) const = 0;
  /// Why a save of so many files has no such data file numbers; "": it may have.
  virtual std::string refuses(int data_files, int num_files) const = 0;
  /// A recovery is about to publish the save of another job; `alone`: that job is known to be dead.
  virtual void take_over(io::FileSystem&, const commit::Transaction&, bool /*alone*/) const {}
};

const CheckpointFormat& format_of(Format);
/// Of an unfinished save, whose format is to be found out.
Format format_of_unfinished(io::FileSystem&, const commit::Transaction&);
/// Of a save in progress.
const CheckpointFormat& format_of(const commit::Transaction&);
/// All, in the order in which they are looked for.
std::span<const CheckpointFormat* const> all_formats();

/// recognises(), or nothing where that cannot be told: the file may be a checkpoint, and may be
/// another program's.
std::optional<bool> try_recognise(const CheckpointFormat&, const Address& main_file);

/// Another format in which there is, or may be, a checkpoint of this prefix.
std::optional<Format> other_format(const Address& prefix, Format);

/// Whose main files are of this kind (commit::is_main).
const CheckpointFormat& format_of(commit::ParsedName::Kind main);

}  // namespace cairn
