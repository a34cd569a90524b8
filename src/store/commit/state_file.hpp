#pragma once
/// TensorFlow's `checkpoint` state file: a CheckpointState message in protobuf's text format, by
/// which tf.train.latest_checkpoint and tf.train.CheckpointManager find checkpoints.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {

struct StateFile {
  std::string model_checkpoint_path;   ///< of the newest; relative ones start at the directory
  std::vector<std::string> all_paths;  ///< oldest first; the newest is the last
  std::vector<double> timestamps;      ///< seconds since 1970: none, or one a path
  std::optional<double> last_preserved;
  bool operator==(const StateFile&) const = default;
};

/// Reads what TensorFlow reads. Nothing where it finds no checkpoint: bad text, an unknown field,
/// no newest path.
std::optional<StateFile> parse_state_file(std::string_view text);

/// As TensorFlow prints it, one field a line. The newest path is appended to all_paths if it is not
/// their last. Throws internal if there are timestamps, but not one a path.
std::string print_state_file(const StateFile& state);

/// Nothing if the file is missing or says nothing.
std::optional<StateFile> read_state_file(io::FileSystem& files, const io::Path& directory);
inline std::optional<StateFile> read_state_file(const Address& directory) {
  return read_state_file(*directory.files(), directory.path());
}

/// Replaces the file durably (see replace_file) by what these checkpoints say of themselves.
///
/// An owner asks whether the directory is still its own when the new file is there under a name of
/// its own, before the rename: a later owner either is seen, or has removed that file at its
/// opening, and then the rename fails. Throws busy, or not_found.
void write_state_file(io::FileSystem& files, const io::Path& directory, const Naming&,
                      const StateFile& state, const Ownership* owner = nullptr);

/// The same by an owner that writes it under this name first, in its staging directory (see
/// staging_directory.hpp), which takes no question. The directory is still to be synced.
void rename_state_file(io::FileSystem& files, const io::Path& directory, const StateFile& state,
                       const io::Path& staged);

/// Replaces a pin or a mark of damage, from under a name that nobody can guess: io::replace_file,
/// or io::rewrite_file where the directory says that there is no atomic rename. `takes_room`: it is
/// worth what is kept for a full disk (room.hpp).
void replace_file(io::FileSystem& files, const io::Path& directory, const io::Path& path,
                  std::string_view bytes, bool takes_room = false);

}  // namespace cairn::commit
