#include "store/commit/removal.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/room.hpp"

namespace cairn::commit {
namespace {

// Whether the file has no other name, and this node only still knows it by that path, which another
// node has taken from it (recycled.hpp).
bool only_known(io::FileSystem& files, const io::Path& aside, const io::Path& path) {
  const auto file = files.status(aside), there = files.status(path);
  return file && there && file->id.inode == there->id.inode && files.has_one_name(aside);
}

// Gives a file its name back, or removes the file if another one has that name.
void give_back(io::FileSystem& files, const io::Path& aside, const io::Path& path) {
  try {
    files.rename_new(aside, path);
  } catch (const Error& error) {
    if (error.code() == Code::not_found) return;  // it has its name, or is gone
    if (error.code() != Code::already_exists || only_known(files, aside, path)) throw;
    files.remove(aside);
  }
}

bool is_meant(const SeenFile& file, const std::optional<SeenFile>& there) {
  return there && (!file.id || file.id == there->id);
}

// Whether this data file belongs to a checkpoint that is gone: data is removed last, when the
// removal of the main file is durable. If there is an unfinished save, the data may be that save's;
// a staging directory's name does not tell of which step. `own`: the staging directory is that of
// the process that removes.
bool is_of_no_checkpoint(const ParsedName& data, const std::vector<std::string>& listing,
                         const Naming& name, bool own) {
  if (data.kind != ParsedName::Kind::data) return false;
  return std::none_of(listing.begin(), listing.end(), [&](const auto& entry) {
    const auto one = parse_name(parse_aside_name(entry, name).value_or(entry), name);
    if (is_staging(one)) return !own;
    const bool counts = is_main(one.kind) || one.kind == ParsedName::Kind::temp_directory;
    return counts && one.step == data.step;
  });
}

// Returns false if the file is gone.
bool set_aside(io::FileSystem& files, const io::Path& directory, const std::string& entry,
               const std::string& token) {
  try {
    rename_with_room(files, directory, directory / entry, directory / aside_name(entry, token));
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    return false;
  }
}

}  // namespace

std::span<const std::string> entries_of(const std::vector<std::string>& listing,
                                        const Naming& naming, std::int64_t step) {
  const auto start = cat(prefix_name(naming, step), '.');
  const auto first = std::lower_bound(listing.begin(), listing.end(), start);
  auto end = first;
  while (end != listing.end() && end->starts_with(start)) ++end;
  return {first, end};
}

std::optional<SeenFile> look_at(io::FileSystem& files, const io::Path& directory,
                                const std::string& entry) {
  const auto status = files.status(directory / entry);
  if (!status) return std::nullopt;
  return SeenFile{entry, status->id};
}

// The rule's steps, each for all files before the next one begins: so one check of the ownership
// serves all of them.
bool Removal::remove(const std::vector<SeenFile>& meant, const Dispose& dispose) const {
  const auto finish = [&](const SeenFile& file, const io::Path& path) {
    dispose ? dispose(file, path) : files_.remove(path);
  };
  const bool renames = owner_.atomic_rename();
  const auto& token = owner_.record().token;
  if (!renames) owner_.check();
  bool all = true;
  std::vector<SeenFile> aside;
  try {
    for (const auto& file : meant) {
      if (file.id || !renames) {
        const auto there = look_at(files_, directory_, file.entry);
        if (!there) continue;
        if (!is_meant(file, there)) {
          all = false;
          continue;
        }
      }
      if (!renames) {
        finish(file, directory_ / file.entry);
        continue;
      }
      // Noted before the rename, which may be carried out and yet report an error: then the file is
      // put back.
      aside.push_back(file);
      if (!set_aside(files_, directory_, file.entry, token)) aside.pop_back();
    }
    std::erase_if(aside, [&](const SeenFile& file) {
      if (!file.id || is_meant(file, look_at(files_, directory_, aside_name(file.entry, token))))
        return false;
      // Another file had got the name in between.
      put_back({file});
      all = false;
      return true;
    });
    if (!aside.empty()) owner_.check();
    while (!aside.empty()) {
      finish(aside.back(), directory_ / aside_name(aside.back().entry, token));
      aside.pop_back();
    }
  } catch (...) {
    put_back(aside);
    throw;
  }
  return all;
}

void Removal::put_back(const std::vector<SeenFile>& aside) const noexcept {
  for (const auto& file : aside) try {
      give_back(files_, directory_ / aside_name(file.entry, owner_.record().token),
                directory_ / file.entry);
    } catch (const std::exception& error) {
      try {
        log(LogLevel::warning,
            cat(file.entry, " is set aside until the next owner: ", error.what()));
      } catch (...) {  // only a log message is lost
      }
    } catch (...) {  // a file system that throws other types: the same as if the process had died
      return;
    }
}

std::vector<std::string> put_back_aside(io::FileSystem& files, const io::Path& directory,
                                        const Naming& name, const Ownership* owner) {
  std::vector<std::string> back;
  bool any = false;
  const auto listing = files.list(directory);
  for (const auto& entry : listing) {
    const auto before = parse_aside_name(entry, name);
    if (!before) continue;
    any = true;
    try {
      const bool own = owner && entry == aside_name(*before, owner->record().token);
      if (is_of_no_checkpoint(parse_name(*before, name), listing, name, own)) {
        io::remove_if_there(files, directory / entry);
        continue;
      }
      give_back(files, directory / entry, directory / *before);
      back.push_back(*before);
    } catch (const Error& error) {
      if (owner) throw;
      log(LogLevel::warning, cat(entry, " cannot get its name back now: ", error.what()));
    }
  }
  if (any) files.sync_directory(directory);
  return back;
}

}  // namespace cairn::commit
