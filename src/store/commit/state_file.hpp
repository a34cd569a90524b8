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

/// Reads what TensorFlow reads. Returns nothing if TensorFlow finds no checkpoint in it: bad text,
/// an unknown field, no newest path.
std::optional<StateFile> parse_state_file(std::string_view text);

/// The text as TensorFlow prints it, one field a line. The newest path is appended to all_paths if
/// it is not their last. Throws internal if there are timestamps, but not one for each path.
std::string print_state_file(const StateFile& state);

/// Nothing if the file is missing or names no checkpoint.
std::optional<StateFile> read_state_file(io::FileSystem& files, const io::Path& directory);
inline std::optional<StateFile> read_state_file(const Address& directory) {
  return read_state_file(*directory.files(), directory.path());
}

/// Replaces the state file durably (see replace_file) by one that lists these checkpoints.
///
/// The owner writes the new file under a name of its own, then checks its ownership, then renames
/// the file. So either it sees a later owner, or that owner has removed the file when it opened the
/// directory, and the rename fails. Throws busy, or not_found.
void write_state_file(io::FileSystem& files, const io::Path& directory, const Naming&,
                      const StateFile& state, const Ownership* owner = nullptr);

/// The same for an owner that has written the file in its staging directory
/// (staging_directory.hpp), which makes the check unnecessary. The caller still has to sync the
/// directory.
void rename_state_file(io::FileSystem& files, const io::Path& directory, const StateFile& state,
                       const io::Path& staged);

/// Replaces a pin or a mark of damage. It is written first under a name that nobody can guess:
/// io::replace_file, or io::rewrite_file if the directory says that there is no atomic rename.
/// `takes_room`: the room that is kept for a full disk (room.hpp) may be used.
void replace_file(io::FileSystem& files, const io::Path& directory, const io::Path& path,
                  std::string_view bytes, bool takes_room = false);

}  // namespace cairn::commit
