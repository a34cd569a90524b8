#include "store/commit/room.hpp"

#include <string>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"

namespace cairn::commit {
namespace {

// Room files are room.0 and room.1. A pin takes the last one only (room.hpp).
constexpr int last_room = 1;

io::Path room_path(const io::Path& directory, int number) {
  return directory / private_directory_name / room_name(number);
}

void remove_quietly(io::FileSystem& files, const io::Path& path) {
  try {
    io::try_remove(files, path);
  } catch (const Error&) {  // the first error is the one to tell
  }
}

}  // namespace

bool write_in(io::FileSystem& files, const io::Path& room, const io::Path& path,
              std::string_view bytes) {
  try {
    files.rename(room, path);
  } catch (const Error&) {
    return false;
  }
  try {
    const auto file = files.open_sole(path);
    if (!file) {  // the file has a second name: writing would change another program's bytes
      files.remove(path);
      return false;
    }
    file->write_at(0, std::as_bytes(std::span(bytes)));
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (file->size() > size) file->resize(size);
    file->sync();
    file->close();
    return true;
  } catch (const Error&) {
    try {
      files.rename_new(path, room);
    } catch (const Error&) {
      remove_quietly(files, path);
    }
    return false;
  }
}

void keep_room(io::FileSystem& files, const io::Path& directory) {
  constexpr std::size_t room_bytes = 4096;
  const auto ours = directory / private_directory_name;
  bool any = false;
  const auto make_room = [&](int number) {
    const auto room = room_path(directory, number);
    const auto there = files.status(room);
    // An empty file has no block that could be overwritten.
    if (there && there->size > 0) return;
    if (there) files.remove(room);
    try {
      io::write_file(files, room, std::string(room_bytes, '\n'));
    } catch (const Error& error) {
      // already_exists: another process has made it meanwhile.
      if (error.code() != Code::already_exists) remove_quietly(files, room);
      throw;
    }
    any = true;
  };
  try {
    // There may be room for some of these only. An owner needs the first. A pin needs the lock, the
    // second room file and the folder.
    make_room(0);
    if (!io::exists(files, ours / pin_lock_name)) {
      io::write_file(files, ours / pin_lock_name, "");
      any = true;
    }
    make_room(1);
    if (!io::exists(files, ours / pinned_directory_name)) {
      files.create_directory(ours / pinned_directory_name);
      any = true;
    }
    if (any) files.sync_directory(ours);
  } catch (const Error& error) {
    log(LogLevel::info, cat("no room is kept for a full disk: ", error.what()));
  }
}

void write_with_room(io::FileSystem& files, const io::Path& directory, const io::Path& path,
                     std::string_view bytes) {
  try {
    io::write_file(files, path, bytes);
  } catch (const Error& error) {
    if (error.code() != Code::no_space) throw;
    remove_quietly(files, path);
    for (int number = 0; number <= last_room; ++number) {
      if (write_in(files, room_path(directory, number), path, bytes)) return;
    }
    throw;
  }
}

bool replace_in_room(io::FileSystem& files, const io::Path& directory, const io::Path& path,
                     std::string_view bytes, const io::Path& temporary) {
  const auto room = room_path(directory, last_room);
  if (!write_in(files, room, temporary, bytes)) return false;
  try {
    files.rename(temporary, path);
  } catch (const Error&) {
    give_room(files, directory, temporary);
    throw;
  }
  files.sync_directory(path.parent_path());
  return true;
}

void rename_with_room(io::FileSystem& files, const io::Path& directory, const io::Path& from,
                      const io::Path& to) {
  // Each room file that is removed frees a block for one more attempt.
  for (int number = last_room;; --number) try {
      return files.rename(from, to);
    } catch (const Error& error) {
      if (error.code() != Code::no_space || number < 0) throw;
      remove_quietly(files, room_path(directory, number));
    }
}

void give_room(io::FileSystem& files, const io::Path& directory, const io::Path& path) {
  for (int number = 0; number <= last_room; ++number) {
    const auto room = room_path(directory, number);
    if (io::exists(files, room)) continue;
    try {
      return files.rename_new(path, room);
    } catch (const Error& error) {
      if (error.code() != Code::already_exists) break;
    }
  }
  files.remove(path);
}

}  // namespace cairn::commit
