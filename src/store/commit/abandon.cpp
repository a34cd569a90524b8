// Withdraws a save that failed: step 3 of the protocol (protocol.cpp).
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"

namespace cairn::commit {
namespace {

// Runs one step of the clean-up. Keeps the first error and lets the clean-up go on.
template <class F>
void attempt(std::optional<Error>& first, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (!first) first = error;
  }
}

bool is_part_record(const std::string& file) {
  return parse_temp_name(file).kind == ParsedName::Kind::record;
}

// Removes all records of the slot, both this save's and an earlier one's.
void clear_slot(io::FileSystem& fs, const Transaction& save) {
  for (const auto& file : fs.list(save.temp())) {
    if (is_part_record(file) && parse_temp_name(file).slot == save.slot)
      fs.remove(save.temp() / file);
  }
  fs.sync_directory(save.temp());
}

// Makes sure that nobody rolls this save forward. Throws if no record could be removed: then the
// data must stay, since a save with records and half of its data would look damaged.
void withdraw_records(io::FileSystem& fs, const Transaction& save) {
  if (!save.staging.empty()) {
    if (save.records) clear_slot(fs, save);
    return;
  }
  std::optional<Error> first;
  bool any = false, withdrawn = false;
  for (const auto& file : fs.list(save.temp())) {
    if (withdrawn || !is_part_record(file)) continue;
    any = true;
    attempt(first, [&] {
      fs.remove(save.temp() / file);
      fs.sync_directory(save.temp());
      withdrawn = true;
    });
  }
  if (any && !withdrawn) throw *first;
}

// Removes this save's files from a directory that also holds those of other saves.
void remove_staged(io::FileSystem& fs, const Transaction& save) {
  for (const auto& file : fs.list(save.temp())) {
    if (parse_temp_name(file).uuid == save.uuid) io::try_remove(fs, save.temp() / file);
  }
}

}  // namespace

bool abandon(io::FileSystem& fs, const Transaction& save, const Ownership& owner) {
  std::optional<Error> first;
  if (!fs.status(save.temp())) {
    owner.check();  // a successor may have taken the directory, to complete the save
    return true;
  }
  if (save.direct) put_back(fs, save);
  withdraw_records(fs, save);
  // The file at an HDF5 save's final name is the older checkpoint's. A save that has not looked at
  // its step has not renamed any file to a final name, so a file of such a name belongs to another
  // save.
  const Removal removal(fs, save.directory, owner);
  for (int file = 0; file < save.num_files && !is_whole(save.main) && save.replaces; ++file) {
    attempt(first, [&] { removal.remove(SeenFile{save.data(file).filename().string()}); });
  }
  // If a crash brought the data back without the directory, nobody would know whose data it is.
  attempt(first, [&] { fs.sync_directory(save.directory); });
  // The directory is the evidence of whose data it is. It stays as long as the data is there or may
  // come back.
  if (first && (save.direct || first->code() == Code::busy)) throw *first;
  if (!first) {
    attempt(first, [&] {
      if (!save.staging.empty()) return remove_staged(fs, save);
      remove_temp(fs, save.temp());
    });
  }
  attempt(first, [&] { fs.sync_directory(save.directory); });
  if (!first) return true;
  if (save.direct) throw *first;
  log(LogLevel::warning, cat("a failed save will not come back, but the next owner has to remove "
                             "what is left of it: ",
                             first->what()));
  return false;
}

}  // namespace cairn::commit
