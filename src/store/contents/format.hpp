#pragma once
/// A format of checkpoints: what its files are called, how contents are read, what completes a
/// save, what a recovery asks. Each format is one source in store/formats/ and one line in
/// the table there. What a save in a format lays out before its bytes is in session/save/.
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
  /// Whether Cairn saved what has these contents; null: what may be one, and cannot be read.
  virtual bool is_ours(const CheckpointContents*) const = 0;
  /// The dataset in which programs that know nothing of Cairn find this tensor; "": it lies in the
  /// data files as plain bytes.
  virtual std::string dataset_of(const std::string& key) const = 0;
  /// Whether data files of their own names lie beside the main file. Where they do not, nothing
  /// tells of a checkpoint that was there but notes (notes.hpp), and its commit is one rename.
  bool has_data_files() const { return !commit::is_whole(main_kind()); }

  // -- what stands where a checkpoint of it would -------------------------------------------------
  /// Whether a file that is listed under the main file's name may be a checkpoint.
  virtual bool may_be_one(io::FileSystem&, const io::Path& main_file) const = 0;
  /// What it says of its step; nothing: it is no checkpoint.
  struct Claim {
    bool ours = false;    ///< Cairn has saved here
    int data_files = -1;  ///< of their own names; -1: it does not say
  };
  virtual std::optional<Claim> claim(io::FileSystem&, const io::Path& prefix) const = 0;
  /// Whether what has the main file's name is replaced and removed as a checkpoint of this format
  /// is. Nothing, where it matters who wrote it: there is no such file.
  virtual std::optional<bool> gives_way(io::FileSystem&, const io::Path& prefix) const = 0;

  // -- commit -------------------------------------------------------------------------------------
  /// A save of so many data files with elements.
  virtual void shape(commit::Transaction&, int data_files) const = 0;
  /// Rank 0, steps 4 to 6: seals the entries of all ranks, which takes time where they are many,
  /// calls `sealed`, which may throw (whether the directory is still ours is asked as late as can
  /// be), and publishes. See commit::publish.
  virtual std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                            const CheckpointMeta&, int data_files, JoinedEntries,
                                            const std::function<void()>& sealed,
                                            const commit::IsCommitted&) const = 0;

  // -- recovery -----------------------------------------------------------------------------------
  /// Whether this unfinished save is one in this format.
  virtual bool began(io::FileSystem&, const commit::Transaction&) const = 0;
  /// Why a save of so many files has no such data file numbers; "": it may have.
  virtual std::string refuses(int data_files, int num_files) const = 0;
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
/// Whether what is there in another format, or may be, goes when a checkpoint of this one is
/// committed or removed.
bool others_give_way(const Address& prefix, Format);

/// Whose main files are of this kind (commit::is_main).
const CheckpointFormat& format_of(commit::ParsedName::Kind main);

}  // namespace cairn
