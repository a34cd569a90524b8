// The commit protocol. Each step is durable before the next begins.
//
// A save of a bundle that replaces nothing has no temp directory of its own: its owner has one for
// all such saves, the staging directory (staging_directory.hpp), and "the temp directory" below
// means that one. Rank 0 makes it in 1 if this is the first save, durably if the save leaves
// records; 8 does not remove it. At most two saves that leave records are pending. Each has a slot
// and overwrites the slot's records in place: the save that left them is durably committed, or was
// withdrawn. A torn record does not count, and a record that was not overwritten yet belongs to
// another save. So no record is taken for the other save's, and a slot is whole when all its
// records are of one save.
//
//  1. rank 0 makes PREFIX_temp_UUID exclusively, fsyncs its parent, tells everyone.     begin
//     An asynchronous save has agreed on the UUID before. With a staging directory it makes
//     nothing: only rank 0 ever makes that, so that it keeps a stopped owner out. Otherwise each
//     writer makes the directory if it is missing, and fsyncs its parent.               join
//  2. writers write data files, fsync; replicas are compared; then their part records, fsync; then
//     fsync the temp directory. A save whose parts are all there and whole counts from here on:
//     recovery rolls it forward.                                                        seal
//     If a blocking save leaves no records, a restart treats its files as debris until 6.
//  3. all ranks agree on success or on one error. On failure: first one part record is removed,
//     or all in the save's slot, and the temp directory is fsynced, so that nobody ever rolls the
//     save forward; then the rest of the save. The older checkpoint is untouched.       abandon
//  4. rank 0 writes the merged index, and the data files of its own, in the temp directory; fsync
//     each, fsync the directory.                                                        publish
//  5. data files are renamed to PREFIX.data-?????-of-NNNNN; directory fsync.            publish
//     Before 4, after the agreement, each writer has renamed those that it alone wrote. name_data
//  6. the index is renamed to PREFIX.index: THE COMMIT POINT; directory fsync.          publish
//  7. the `checkpoint` state file: temp, fsync, rename, directory fsync.                state_file
//     If 8 renames an index into the staging directory, the index stays there until 7 is
//     durable: the directory is synced before the next commit, in 5.                    staging
//  8. all ranks agree; then the temp directory and what this commit superseded are removed: of a
//     removed checkpoint, first the index, then a directory fsync, then the data.       clean_up
//     If the data stays for the next save, the index is renamed into the staging directory, whose
//     fsync makes that durable; the next save overwrites it with its own index.         staging
//
// Two owners: an owner was stopped, is taken for dead, and goes on. Until it has made its temp
// directory, it has changed nothing. Its successor renames that directory to a name of its own
// before it completes the save or removes it; from then on the operations in 4 to 6 fail, since
// they do not find their files. Of an HDF5 save, whose only file may be open, a copy is published.
// The owner checks its ownership after 1, before any rank learns the name, in case the directory
// was made after the successor had looked; and once more before 4. For each removal in 3 and 8 it
// checks again; removals follow the rule of removal.hpp. In 7 it checks between writing the new
// state file and renaming it. That file has a name of this owner's, and a later owner removes it
// when it opens the directory, so that the rename fails. Renames out of the staging directory or
// into it need no check but the one before 4: a successor renames that directory before anything
// else.
//
// Data that 8 would remove may be kept for a later save: the writer of a data file renames it to
// its part in 2, and overwrites it (recycled.cpp). No byte of it changes before the index that
// referred to it is durably gone. After a save through the staging directory, and after any
// blocking one, the data stays under its own names until the next save begins; that save's temp
// directory protects these renames as it protects those of 5. Otherwise it waits in
// .cairn/recycled.
//
// A save that overwrites a step uses another NNNNN than the old files have, so that 6 alone
// switches.
//
// A save that makes an HDF5 file is shorter. The file is in the temp directory (part.h5), complete
// except for its checksum table, before the first record is written. In 4 and 5 the table and the
// seal at the end of the file are written, and it is fsynced. 6 renames it to PREFIX.h5, over an
// older one: that is THE COMMIT POINT, and it replaces the step's old file. If the step was there
// in the other format, both exist until 8 has removed the old one; readers take the one with the
// higher sequence.
//
// A direct save relies on no rename (direct.cpp). What differs:
//
//  1. the directory is called PREFIX.part_UUID: the name tells everyone that the save is direct.
//  2. data files are written under their final names, which nothing refers to. Records as above;
//     after them both directories are fsynced.                                          seal
//  3. agreement. On failure: the old PREFIX.index comes back if it was replaced already; then one
//     record is removed, and the rest. Between the two, recovery would still complete the save.
//  4. rank 0 writes its own data files, under their final names, and old-index in the .part
//     directory: the present PREFIX.index; fsync of all, and of both directories.
//  5. the old PREFIX.index is removed; directory fsync. A crash from here to the end of 6 leaves
//     the step without an index or with a torn one. Recovery completes the save: its records are
//     all there, and nothing is committed until a save that could not be withdrawn is resolved.
//     Only when its bytes prove damaged (or in a merge, which has no records) does old-index come
//     back. In between, readers that list the directory without owning it see the step as missing
//     or damaged, and fall back; a reader that asks for this step reads it through old-index.
//  6. the index is written under its final name, whole, and fsynced: THE COMMIT POINT; directory
//     fsync.
//  7. the state file: removed, written, fsync, directory fsync. A torn one is rebuilt.
//  8. as above. Data is removed durably before the .part directory, which is the evidence that
//     data without an index is ours.
#include "store/commit/protocol.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/direct.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/recycled.hpp"
#include "store/commit/room.hpp"
#include "store/commit/staging_directory.hpp"

namespace cairn::commit {
namespace {

// What becomes of removed data files to which no index will ever refer again: with `recycled`, all
// but the last are recycled.
Dispose dispose_of_data(io::FileSystem& fs, const io::Path& directory, const Naming& name,
                        Waiting* recycled) {
  if (!recycled) return {};
  return [&fs, directory, name, recycled](const SeenFile& file, const io::Path& path) {
    const auto parsed = parse_name(file.entry, name);
    // The last one has the metadata and is small: it is not worth recycling.
    if (parsed.number + 1 == parsed.count) {
      io::try_remove(fs, path);
    } else {
      recycle(fs, directory, name, parsed.number, path, *recycled);
    }
  };
}

// The files of a step in a listing, in any format.
std::vector<SeenFile> files_of_step(const std::vector<std::string>& listing, const Naming& name,
                                    std::int64_t step) {
  using Kind = ParsedName::Kind;
  std::vector<SeenFile> files;
  for (const auto& entry : entries_of(listing, name, step)) {
    const auto parsed = parse_name(entry, name);
    const bool of_checkpoint = is_main(parsed.kind) || parsed.kind == Kind::data;
    if (of_checkpoint && parsed.step == step) files.push_back({entry});
  }
  return files;
}

std::vector<SeenFile> of_kind(const std::vector<SeenFile>& seen, const Naming& name,
                              const std::function<bool(const ParsedName&)>& wanted) {
  std::vector<SeenFile> some;
  for (const auto& file : seen) {
    if (wanted(parse_name(file.entry, name))) some.push_back(file);
  }
  return some;
}

// A rename that commits has reported an error. A server may carry a rename out and yet report an
// error; or another owner has taken the source away.
void require_committed(const Transaction& save, const IsCommitted& is_committed,
                       const Error& error) {
  bool committed = false;
  try {
    committed = is_committed(save);
  } catch (const Error& second) {
    throw Error(
        Code::durability_unknown, "it cannot be told whether the checkpoint was committed",
        cat(error.what(), "; then ", second.what()),
        "Nothing of it was removed. Look again when the storage answers (cairn ls), or save "
        "again.")
        .at(save.prefix().string());
  }
  if (!committed) throw error;
}

std::optional<io::FileId> id_of(io::FileSystem& fs, const io::Path& path) {
  const auto status = fs.status(path);
  return status ? std::optional(status->id) : std::nullopt;
}

bool is_record(const std::string& file) {
  return parse_temp_name(file).kind == ParsedName::Kind::record;
}

// Puts a copy in the place of a part.
void copy_part(io::FileSystem& fs, const io::Path& part, const io::Path& copy) {
  io::remove_if_there(fs, copy);  // left by an attempt that died here
  io::copy(fs, part, copy);
  fs.rename(copy, part);
}

// By the process that wrote the file, or one that knows that all files are there. What was taken
// without a look may have had the name (recycled.hpp).
void name_part(io::FileSystem& fs, const Transaction& save, int file) {
  if (save.files.takes) try {
      return fs.rename_new(save.part(file), save.data(file));
    } catch (const Error& error) {
      if (error.code() != Code::already_exists) throw;
      auto other = save;
      ++other.num_files;  // another name in the same place
      copy_part(fs, save.part(file), other.part(file));
    }
  fs.rename(save.part(file), save.data(file));
}

// When recovery completes a save that crashed while it named its files, some have their final names
// already. The writer's node knew that the name was new to the file, and this one may not
// (recycled.hpp): a copy has had no other name.
void name_taken_over(io::FileSystem& fs, const Transaction& save, int file) {
  const auto part = fs.status(save.part(file));
  if (!part) return;
  const auto known = fs.status(save.data(file));
  if (known && known->id.inode == part->id.inode) {
    copy_part(fs, save.part(file), save.temp() / hdf5_copy_name);
  }
  fs.rename(save.part(file), save.data(file));
}

}  // namespace

std::vector<std::string> avoid_counts_in_use(io::FileSystem& fs, Transaction& save) {
  using Kind = ParsedName::Kind;
  std::set<std::int64_t> taken;
  std::vector<SeenFile> there;
  // Listed at each save. The previous save has changed the directory itself, so its times do not
  // tell whether somebody else has put a file of this step there; that file must not be
  // overwritten.
  save.opened = fs.open_directory(save.directory);
  auto listing = save.opened->list();
  for (const auto& entry : entries_of(listing, save.name, save.step)) {
    const auto aside = parse_aside_name(entry, save.name);  // its former name may come back
    const auto parsed = parse_name(aside.value_or(entry), save.name);
    const bool data = parsed.kind == Kind::data;
    if (parsed.step != save.step || (!data && !is_main(parsed.kind))) {
      continue;
    }
    if (data) taken.insert(parsed.count);
    if (aside) continue;
    if (auto file = look_at(fs, save.directory, entry)) there.push_back(std::move(*file));
  }
  while (!is_whole(save.main) && taken.count(save.num_files)) ++save.num_files;
  save.replaces = std::move(there);  // set last, when it is complete
  return listing;
}

void spread(io::FileSystem& fs, const io::Path& directory, const DataFiles& data) {
  if (data.stripes == 0) return;
  try {
    fs.spread(directory, data.stripes, data.stripes_yield);
  } catch (const Error& error) {
    log(LogLevel::info, cat("new files lie as the directory says: ", error.what()));
  }
}

void begin(io::FileSystem& fs, const Transaction& save) {
  if (!save.staging.empty()) return;  // Staging::make
  if (save.direct) remove_stale(fs, save);
  try {
    fs.create_directory(save.temp());
    if (!save.direct) spread(fs, save.temp(), save.files);
    // Without records, it need not be durable before the data files are renamed out of it.
    if (save.records) fs.sync_directory(save.directory);
  } catch (const Error&) {
    // The directory may have been made, and only its sync have failed.
    if (io::exists(fs, save.temp())) fs.remove_directory(save.temp());
    throw;
  }
}

void join(io::FileSystem& fs, const Transaction& save) {
  try {
    fs.create_directory(save.temp());
    spread(fs, save.temp(), save.files);
  } catch (const Error& error) {
    if (error.code() != Code::already_exists) throw;
  }
  // Each writer syncs: the one that made the directory may not have done so yet.
  fs.sync_directory(save.directory);
}

void keep(io::FileSystem& fs, Transaction& save, const Ownership& owner) {
  auto after = save;
  after.keeper = owner.record().token;
  // This owner has taken it over before.
  if (after.temp() == save.temp()) return;
  rename_with_room(fs, save.directory, save.temp(), after.temp());
  save = std::move(after);
}

void take_over_part(io::FileSystem& fs, const Transaction& save) {
  if (!is_whole(save.main)) return;
  copy_part(fs, save.part(0), save.temp() / hdf5_copy_name);
  fs.sync_directory(save.temp());
}

void seal(io::FileSystem& fs, const Transaction& save) {
  if (save.direct) fs.sync_directory(save.directory);
  fs.sync_directory(save.temp());
}

void name_data(io::FileSystem& fs, const Transaction& save, const std::set<int>& files) {
  for (const int file : files) name_part(fs, save, file);
}

std::optional<io::FileId> publish(io::FileSystem& fs, const Transaction& save,
                                  const io::Content& index, const std::vector<OwnFile>& own_files,
                                  const IsCommitted& is_committed) {
  if (save.direct) {
    publish_direct(fs, save, index, own_files);
    return id_of(fs, save.index());
  }
  const bool taken_over = !save.keeper.empty();
  const auto write = [&](const io::Path& path, const io::Content& bytes) {
    if (taken_over) io::remove_if_there(fs, path);  // left by an attempt that died here
    return io::write_content(fs, path, bytes);
  };
  for (const auto& own : own_files) {
    if (!write_over(fs, save, own.file, own.bytes)) write(save.part(own.file), own.bytes);
  }
  auto id = save.retired ? overwrite(*save.retired, index) : write(save.staged_index(), index);
  // Some files do not tell their identity while they are open.
  if (!id) id = id_of(fs, save.staged_index());
  save.sync_temp(fs);

  // The files before `named` have got their final names from their writers.
  for (int file = save.named; file < save.num_files; ++file) {
    // The process that began the save knows that all are still to be renamed: a missing one was
    // taken away.
    taken_over ? name_taken_over(fs, save, file) : name_part(fs, save, file);
  }
  // The names of the data are durable before the index refers to them.
  save.sync_directory(fs);

  try {
    fs.rename(save.staged_index(), save.index());
  } catch (const Error& error) {
    require_committed(save, is_committed, error);
  }
  sync_commit(fs, save);
  return id;
}

std::optional<io::FileId> publish_hdf5(io::FileSystem& fs, const Transaction& save,
                                       const std::vector<Patch>& patches,
                                       const IsCommitted& is_committed) {
  const auto file = fs.open_write(save.part(0));
  for (const auto& [offset, bytes] : patches) {
    file->write_at(offset, std::as_bytes(std::span(bytes)));
  }
  file->sync();
  auto id = file->id();
  file->close();
  if (!id) id = id_of(fs, save.part(0));
  if (!save.records) fs.sync_directory(save.temp());  // no writer has synced it yet
  try {
    fs.rename(save.part(0), save.data(0));
  } catch (const Error& error) {
    require_committed(save, is_committed, error);
  }
  sync_commit(fs, save);
  return id;
}

void sync_commit(io::FileSystem& fs, const Transaction& save) {
  try {
    save.sync_directory(fs);
  } catch (const Error& error) {
    throw Error(Code::durability_unknown,
                "the checkpoint is committed and visible, but may not survive a power failure",
                error.what(), "Save again, or run sync on the machine that holds the directory.")
        .at(save.prefix().string());
  }
}

void clean_up(io::FileSystem& fs, const Transaction& save, const Ownership& owner,
              bool other_format, Waiting* recycled) {
  using Kind = ParsedName::Kind;
  const Removal removal(fs, save.directory, owner);
  const auto replaces = save.replaces.value_or(std::vector<SeenFile>{});
  if (other_format) {
    removal.remove(of_kind(replaces, save.name, [&](const auto& name) {
      return is_main(name.kind) && name.kind != save.main;
    }));
    fs.sync_directory(save.directory);
  }
  // The overwritten bundle's data has another count than this save's (avoid_counts_in_use). An HDF5
  // save has replaced an older file of its own format by its rename, so only a bundle's data is
  // left.
  removal.remove(of_kind(replaces, save.name,
                         [&](const auto& name) {
                           const bool old =
                               is_whole(save.main) ? other_format : name.count != save.num_files;
                           return name.kind == Kind::data && old;
                         }),
                 dispose_of_data(fs, save.directory, save.name, recycled));
  if (!save.staging.empty()) return;
  try {
    if (save.records || !discard_empty(fs, save.temp())) remove_temp(fs, save.temp());
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
  }
  if (save.direct) fs.sync_directory(save.directory);
}

bool remove_checkpoint(io::FileSystem& fs, const io::Path& directory, const Naming& name,
                       const Retired& retired, const Ownership& owner) {
  using Kind = ParsedName::Kind;
  const Removal removal(fs, directory, owner);
  std::vector<std::string> mine;
  if (!retired.listing) {
    owner.check();
    mine = fs.list(directory);
  }
  const auto& listing = retired.listing ? *retired.listing : mine;
  // If a clean-up has left such files, a crash could bring an older index back.
  const bool stale = std::any_of(listing.begin(), listing.end(), [&](const auto& entry) {
    const auto parsed = parse_name(entry, name);
    return parsed.kind == Kind::temp_directory && parsed.direct && parsed.step == retired.step;
  });
  if (stale) {
    owner.check();
    remove_stale(fs, {directory, name, retired.step, "", 0, true});
  }
  const auto files = files_of_step(listing, name, retired.step);
  const auto of = [&](const std::function<bool(Kind)>& wanted) {
    return of_kind(files, name, [&](const auto& parsed) { return wanted(parsed.kind); });
  };
  auto index = of([&](Kind kind) { return kind == retired.main; });
  for (auto& file : index) {
    file.id = retired.index ? retired.index : id_of(fs, directory / file.entry);
    // If this is another checkpoint by now, nothing may be removed, not even the other format's
    // file, which goes first.
    if (!retired.other_format) continue;
    const auto now = look_at(fs, directory, file.entry);
    if (now && now->id != file.id) return false;
  }
  // If a step is there in both formats, the older one goes first: it must not come back.
  if (retired.other_format) {
    removal.remove(of([&](Kind kind) { return is_main(kind) && kind != retired.main; }));
    fs.sync_directory(directory);
  }
  if (!removal.remove(index)) return false;
  fs.sync_directory(directory);
  // The index may have been set aside in a staging directory, and not durably.
  if (index.empty()) make_retired_durable(fs, directory, listing, name, retired.step);
  if (retired.leaves_data) return true;
  removal.remove(of([](Kind kind) { return kind == Kind::data; }),
                 dispose_of_data(fs, directory, name, retired.recycled));
  return true;
}

void remove_left(io::FileSystem& fs, const io::Path& directory, const Naming& name,
                 const LeftData& left, const Ownership& owner, Waiting* recycled) {
  std::vector<SeenFile> files;
  for (int file = 0; file < left.num_files; ++file) {
    files.push_back({data_name(prefix_name(name, left.step), file, left.num_files)});
  }
  Removal(fs, directory, owner).remove(files, dispose_of_data(fs, directory, name, recycled));
}

bool discard_empty(io::FileSystem& fs, const io::Path& temp) {
  try {
    fs.remove_directory(temp);
    return true;
  } catch (const Error&) {  // it is not empty, or cannot be removed now
    return false;
  }
}

bool remove_temp(io::FileSystem& fs, const io::Path& temp) {
  if (fs.is_link(temp)) {  // a link is not ours: what is behind it stays
    fs.remove(temp);
    return true;
  }
  // Records first: after a crash in here the rest must not look complete.
  auto files = fs.list(temp);
  std::stable_partition(files.begin(), files.end(), [](const auto& f) { return is_record(f); });
  bool any_record = false, any_old = false, records_gone = false, foreign = false;
  for (const auto& file : files) {
    if (any_record && !records_gone && !is_record(file)) {
      fs.sync_directory(temp);
      records_gone = true;
    }
    if (parse_temp_name(file).kind == ParsedName::Kind::foreign) {
      foreign = true;
      continue;
    }
    try {
      fs.remove(temp / file);
      any_record |= is_record(file);
      any_old |= parse_temp_name(file).kind == ParsedName::Kind::old_index;
    } catch (const Error&) {
      const auto status = fs.status(temp / file);
      if (!status || !status->is_directory) throw;
      foreign = true;
    }
  }
  if (foreign) {
    log(LogLevel::warning, temp.string() + " stays: it holds files that are not ours");
    return false;
  }
  // It must not come back with records in it, or with an index that would be put back. If it was
  // empty, nobody knows whether its former contents are gone for good.
  if (any_record || any_old || files.empty()) fs.sync_directory(temp);
  fs.remove_directory(temp);
  return true;
}

}  // namespace cairn::commit
