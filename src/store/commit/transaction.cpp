#include "store/commit/transaction.hpp"

namespace cairn::commit {

void Transaction::sync_directory(io::FileSystem& fs) const {
  opened ? opened->sync() : fs.sync_directory(directory);
}
void Transaction::sync_temp(io::FileSystem& fs) const {
  opened_staging ? opened_staging->sync() : fs.sync_directory(temp());
}

// Where the files of a save are: in the owner's staging directory, in a temp directory of the save,
// in the one that a later owner has renamed (keeper), or, if the save is direct, under their final
// names.
io::Path Transaction::prefix() const { return directory / prefix_name(name, step); }
io::Path Transaction::temp() const {
  if (!staging.empty()) {
    return directory /
           (keeper.empty() ? staging_directory_name(name, staging)
                           : kept_directory_name(prefix_name(name, staging_step), staging, keeper));
  }
  const auto checkpoint = prefix_name(name, step);
  if (!keeper.empty()) return directory / kept_directory_name(checkpoint, uuid, keeper);
  return directory /
         (direct ? part_directory_name(checkpoint, uuid) : temp_directory_name(checkpoint, uuid));
}
io::Path Transaction::part(int file) const {
  if (is_whole(main)) return temp() / hdf5_part_name;
  if (direct) return data(file);
  return temp() / (staging.empty() ? part_name(file, num_files)
                                   : staged_part_name(uuid, file, num_files, records));
}
io::Path Transaction::record(int writer, int writers) const {
  return temp() / (staging.empty() ? record_name(writer, writers)
                                   : staged_record_name(slot, writer, writers));
}
io::Path Transaction::staged_index() const {
  if (retired) return retired->path;
  return temp() / (staging.empty() ? prepared_index_name : staged_name(uuid, prepared_index_name));
}
io::Path Transaction::staged_state_file() const {
  return temp() / staged_name(uuid, staged_state_name);
}
io::Path Transaction::old_index() const { return temp() / old_index_name; }
io::Path Transaction::saver_prefix(int saver) const { return temp() / saver_name(saver); }
io::Path Transaction::data(int file) const {
  const auto checkpoint = prefix_name(name, step);
  return directory /
         (is_whole(main) ? hdf5_name(checkpoint) : data_name(checkpoint, file, num_files));
}
io::Path Transaction::index() const { return directory / index_name(prefix_name(name, step)); }

}  // namespace cairn::commit
