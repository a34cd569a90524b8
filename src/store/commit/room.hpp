#pragma once
/// Keeps room for the small files that are needed to make room. An owner first writes a record,
/// which is impossible on a full disk, without a free inode, or with a used-up quota. So two files
/// of one block each are kept in DIRECTORY/.cairn. If there is no space for a new file, one of them
/// is overwritten in place. An owner's record may take either: an owner that dies leaves its own
/// room file in the record's place, and a successor on another host cannot prove that it is dead
/// before it has written a record of its own. A pin takes only the second, so that it keeps no
/// owner out.
#include <string_view>

#include "io/file_system.hpp"

namespace cairn::commit {

/// For an owner: makes the missing room files, durably, and the files that pinning needs. Failures
/// are logged: there is little space, and the files that exist stay.
void keep_room(io::FileSystem&, const io::Path& directory);

/// Writes over `room`, renames it to `path`, and makes that durable. Returns false if that is
/// impossible; then `room` has its old name, or is gone.
bool write_in(io::FileSystem&, const io::Path& room, const io::Path& path, std::string_view bytes);
/// As io::write_file, for an owner's record. If there is no space for a new file, it writes over a
/// room file.
void write_with_room(io::FileSystem&, const io::Path& directory, const io::Path&,
                     std::string_view bytes);
/// As io::replace_file, in the second room file. False if there is no such file.
bool replace_in_room(io::FileSystem&, const io::Path& directory, const io::Path&,
                     std::string_view bytes, const io::Path& temporary);

/// Renames a file. A longer name may need a new block of its directory: if there is none, a room
/// file is given up.
void rename_with_room(io::FileSystem&, const io::Path& directory, const io::Path& from,
                      const io::Path& to);

/// Removes a file of this kind that nobody needs any more. If a room file is missing, it becomes
/// that instead.
void give_room(io::FileSystem&, const io::Path& directory, const io::Path&);

}  // namespace cairn::commit
