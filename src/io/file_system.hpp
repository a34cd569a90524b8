#pragma once
/// Operations on files, on top of the one interface to them.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/error.hpp"
#include "cairn/file_system.hpp"
#include "io/reader.hpp"

namespace cairn::io {

/// The file system behind all FileSystemWrappers.
FileSystem& behind_wrappers(FileSystem&);
bool exists(FileSystem&, const Path&);
void remove_if_there(FileSystem&, const Path&);
/// The same with one operation, for a file that is mostly there. Returns false if it was not.
bool try_remove(FileSystem&, const Path&);
/// Opens a file to read for `use`; both again, up to 20 times, if another node has removed or
/// replaced the file meanwhile. `use` lets StaleFile (system_error.hpp) out as it is.
void with_open(FileSystem&, const Path&, const std::function<void(File&)>& use);
/// Throws data_loss above the limit, so that a hostile file costs no memory.
std::string read_file(FileSystem&, const Path&, std::int64_t limit_bytes);
std::string read_file(File&, const Path&, std::int64_t limit_bytes);  ///< all of it, and closes
/// The same, but returns nothing if there is no file, if it is too large, or if it is no regular
/// file.
std::optional<std::string> try_read_file(FileSystem&, const Path&, std::int64_t limit_bytes);
/// Creates a file (exclusively), writes, syncs and closes it. The caller syncs the directory.
/// Returns which file it is, if the file system tells.
std::optional<FileId> write_file(FileSystem&, const Path&, std::string_view bytes);
/// Copies the bytes of a file to a new one, whose access is no wider. The bytes are durable on
/// return, the name is not.
void copy(FileSystem&, const Path& from, const Path& to);
/// Gives the bytes of a file another name, which must be free: with a hard link or else a copy. The
/// bytes are durable on return, the name is not.
void link_or_copy(FileSystem&, const Path& from, const Path& to);
/// Replaces a file durably: PATH.tmp, fsync, rename, directory fsync. If the last fsync fails,
/// throws durability_unknown. A PATH.tmp of a dead process is replaced. So two calls at a time are
/// not allowed, and nobody else may write in that directory; if somebody may, give another name
/// there as `temporary`. `ready` is called before the rename: if it throws, the file stays as it
/// was. After a failure before the rename, the new file is removed if that is possible.
void replace_file(FileSystem&, const Path&, std::string_view bytes, Path temporary = {},
                  const std::function<void()>& ready = {});
/// Of a file system that replaces files at once; then replace_file makes no temporary one.
class Replacing {
 public:
  virtual ~Replacing() = default;
  virtual void replace(const Path&, std::string_view bytes) = 0;
};
/// Of a file system that answers slowly.
class Viewed {
 public:
  virtual ~Viewed() = default;
  /// The same files for reading. A view remembers what it has heard, so its answers may be as old
  /// as itself, until a read finds a file gone or replaced: then it forgets everything. One
  /// question may tell it of all files of a directory. `self`: these files.
  virtual std::shared_ptr<FileSystem> view(std::shared_ptr<FileSystem> self) = 0;
};
/// A new view, if these files have views; else the same files.
std::shared_ptr<FileSystem> view_of(std::shared_ptr<FileSystem>);
bool has_views(FileSystem&);
/// The same without a rename: removes the file, then writes it anew. A crash in between leaves it
/// missing or torn.
void rewrite_file(FileSystem&, const Path&, std::string_view bytes);
/// Makes a directory and its missing parents, and syncs each parent. Existing ones are fine. The
/// parent of an existing directory is synced too, as its maker may have died; if that fails, it is
/// only logged (the parent may not be readable).
void create_directories(FileSystem&, const Path&);
/// The error for a directory that is a symbolic link to nothing; nothing if it is not such a link.
std::optional<Error> link_to_nothing(FileSystem&, const Path& directory);

}  // namespace cairn::io
