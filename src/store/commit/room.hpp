#pragma once
/// Room for the small files that are needed to make room: an owner writes a record first, which is
/// impossible on a full disk, without an inode or with a quota that is used up. So two files of a
/// block lie in DIRECTORY/.cairn. Where there is no space for a new file, one of them is written
/// over in place. An owner's record takes either of them: an owner that dies leaves its own in the
/// record's place, and a successor on another host cannot prove that it is dead before it has
/// written a record of its own. A pin takes the second only, so that it keeps no owner out.
#include <string_view>

#include "io/file_system.hpp"

namespace cairn::commit {

/// An owner's: makes what is missing, durably, and what pinning needs beside it. What fails is
/// logged: there is little space, and what is there stays.
void keep_room(io::FileSystem&, const io::Path& directory);

/// Writes over a file, which gets the name `path`, and is durable on return. False where that
/// cannot be: then it has its name, or is gone.
bool write_in(io::FileSystem&, const io::Path& room, const io::Path& path, std::string_view bytes);
/// As io::write_file, of an owner's record. Where there is no space for it, in a file that is
/// there.
void write_with_room(io::FileSystem&, const io::Path& directory, const io::Path&,
                     std::string_view bytes);
/// As io::replace_file, in the second one: false where that is not there.
bool replace_in_room(io::FileSystem&, const io::Path& directory, const io::Path&,
                     std::string_view bytes, const io::Path& temporary);

/// A rename to a longer name may take a block of its directory: the room, where there is no other.
void rename_with_room(io::FileSystem&, const io::Path& directory, const io::Path& from,
                      const io::Path& to);

/// A file of this kind that nobody needs any more becomes room where some is missing, and else
/// goes.
void give_room(io::FileSystem&, const io::Path& directory, const io::Path&);

}  // namespace cairn::commit
