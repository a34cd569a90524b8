#pragma once
/// What the library does with files, on top of the one interface to them.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/error.hpp"
#include "cairn/file_system.hpp"
#include "io/reader.hpp"

namespace cairn::io {

bool exists(FileSystem&, const Path&);
void remove_if_there(FileSystem&, const Path&);
/// The same with one operation, where it mostly is there. False where it was not.
bool try_remove(FileSystem&, const Path&);
/// Throws data_loss above the limit, so that a hostile file costs no memory.
std::string read_file(FileSystem&, const Path&, std::int64_t limit_bytes);
std::string read_file(File&, const Path&, std::int64_t limit_bytes);  ///< all of it, and closes
/// The same, and nothing where there is no file, or one that is too large, or something else.
std::optional<std::string> try_read_file(FileSystem&, const Path&, std::int64_t limit_bytes);
/// Creates (exclusively), writes, syncs, closes. The directory is left to the caller.
/// Returns which file it is, if it tells.
std::optional<FileId> write_file(FileSystem&, const Path&, std::string_view bytes);
/// The bytes of one file in a new one, which is no more open than that, durable on return; its name
/// is not.
void copy(FileSystem&, const Path& from, const Path& to);
/// The bytes of one file under another name, which must be free: linked, or else copied. The bytes
/// are durable on return, the name is not.
void link_or_copy(FileSystem&, const Path& from, const Path& to);
/// Replaces a file durably: PATH.tmp, fsync, rename, directory fsync. If that last one fails:
/// durability_unknown. A PATH.tmp of a dead process is replaced; two at a time are not allowed, and
/// nobody else may write in that directory. Where that may be, another name there is given. `ready`
/// is called before the rename: what it throws leaves the file as it was. After a failure before
/// the rename nothing is left of the new file, if it can be removed.
void replace_file(FileSystem&, const Path&, std::string_view bytes, Path temporary = {},
                  const std::function<void()>& ready = {});
/// The same without a rename: the file is removed, then written anew. A crash in between leaves it
/// missing or torn.
void rewrite_file(FileSystem&, const Path&, std::string_view bytes);
/// Makes a directory and its missing parents, and syncs each parent. Existing ones are fine.
/// The parent of an existing one is synced too, as its maker may have died; a failure of this is
/// only logged (the parent may not be readable).
void create_directories(FileSystem&, const Path&);
/// What is wrong with a directory that is a symbolic link to what is not there; nothing: it is not.
std::optional<Error> link_to_nothing(FileSystem&, const Path& directory);

}  // namespace cairn::io
