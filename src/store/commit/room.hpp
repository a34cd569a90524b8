#pragma once
/// Room for the small files without which nobody can begin to make any: on a full disk, without an
/// inode or with a quota that is used up nothing else can be written. Two files of a block lie in
/// DIRECTORY/.cairn, which are written over in place where there is no space for a new file: an
/// owner's record takes either, so that there is one more where an owner dies before it could make
/// another; a pin takes the second only.
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
