#pragma once
/// A format of checkpoints: the names of its files, how contents are read, how a save is completed,
/// and what a recovery asks. Each format is one source in store/formats/ and one line in the table
/// there. The part of a format that lays out a save is in session/save/.
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
  /// The kind of the file whose name makes a checkpoint visible.
  virtual commit::ParsedName::Kind main_kind() const = 0;
  virtual io::Path main_file(const io::Path& prefix) const = 0;
  /// What names a checkpoint with this prefix, and this format, for the tool.
  io::Path as_argument(const io::Path& prefix) const {
    return has_data_files() ? prefix : main_file(prefix);
  }
  virtual io::Path data_file(const io::Path& prefix, int file, int num_files) const = 0;

  // -- contents -----------------------------------------------------------------------------------
  /// Whether this main file is a checkpoint: a bundle may be TensorFlow's; an HDF5 file must be
  /// Cairn's. False if there is no file. Throws if that cannot be told.
  virtual bool recognises(io::FileSystem&, const io::Path& main_file) const = 0;
  /// The bytes of the index, and their place. Throws not_found or data_loss.
  virtual IndexFile read_index(io::FileSystem&, const io::Path& prefix) const = 0;
  /// Whether Cairn saved a checkpoint with these contents. Null: there may be one, and it cannot be
  /// read.
  virtual bool is_ours(const CheckpointContents*) const = 0;
  /// The dataset in which programs that know nothing of Cairn find this tensor; "" if it is stored
  /// as plain bytes in the data files.
  virtual std::string dataset_of(const std::string& key) const = 0;
  /// Whether the format has data files beside the main file. If not, only notes (notes.hpp) tell
  /// that a lost checkpoint was there, and its commit is one rename.
  bool has_data_files() const { return !commit::is_whole(main_kind()); }

  // -- another file under the main file's name
  // -----------------------------------------------------
  /// Whether a listed file with the main file's name may be a checkpoint.
  virtual bool may_be_one(io::FileSystem&, const io::Path& main_file) const = 0;
  /// What that file says of its step. Nothing: it is no checkpoint.
  struct Claim {
    bool ours = false;    ///< Cairn has saved here
    int data_files = -1;  ///< of their own names; -1: it does not say
  };
  virtual std::optional<Claim> claim(io::FileSystem&, const io::Path& prefix) const = 0;
  /// Whether a file with the main file's name may be replaced and removed as a checkpoint of this
  /// format. Nothing if there is no such file, or if it does not matter who wrote it.
  virtual std::optional<bool> gives_way(io::FileSystem&, const io::Path& prefix) const = 0;

  // -- commit -------------------------------------------------------------------------------------
  /// Sets what the format determines in a save with this many data files that hold elements.
  virtual void shape(commit::Transaction&, int data_files) const = 0;
  /// Rank 0, steps 4 to 6: seals the entries of all ranks, which takes long if they are many, then
  /// calls `sealed`, then publishes (see commit::publish). `sealed` may throw: it checks, as late
  /// as possible, that the directory is still ours.
  virtual std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                            const CheckpointMeta&, int data_files, JoinedEntries,
                                            const std::function<void()>& sealed,
                                            const commit::IsCommitted&) const = 0;

  // -- recovery -----------------------------------------------------------------------------------
  /// Whether this unfinished save is in this format.
  virtual bool began(io::FileSystem&, const commit::Transaction&) const = 0;
  /// Why a save with `num_files` files cannot have `data_files` of them with elements; "" if it
  /// can.
  virtual std::string refuses(int data_files, int num_files) const = 0;
};

const CheckpointFormat& format_of(Format);
/// Finds out the format of an unfinished save.
Format format_of_unfinished(io::FileSystem&, const commit::Transaction&);
/// The format of a save in progress.
const CheckpointFormat& format_of(const commit::Transaction&);
/// All formats, in the order in which they are looked for.
std::span<const CheckpointFormat* const> all_formats();

/// recognises(), or nothing if that cannot be told: the file may be a checkpoint or another
/// program's.
std::optional<bool> try_recognise(const CheckpointFormat&, const Address& main_file);

/// Another format in which there is, or may be, a checkpoint of this prefix.
std::optional<Format> other_format(const Address& prefix, Format);
/// Whether a checkpoint of this prefix in another format, if there may be one, is removed when a
/// checkpoint of this format is committed or removed.
bool others_give_way(const Address& prefix, Format);

/// The format whose main files are of this kind (commit::is_main).
const CheckpointFormat& format_of(commit::ParsedName::Kind main);

}  // namespace cairn
