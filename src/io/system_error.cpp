#include "io/system_error.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace cairn::io {
namespace {

// Callers act on these codes: a missing file is an answer to some, after `no_space` a save may make
// room and begin anew, and `unsupported` lets them do without an operation. Servers of files that
// do not answer are `unavailable`: no restore takes an older checkpoint then. After all else (`io`)
// nothing counts as damaged.
Code code_of(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return Code::no_space;
    case ENOENT:
      return Code::not_found;
    case EEXIST:
      return Code::already_exists;
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::unsupported;
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENOTCONN:
    case ESHUTDOWN:
      return Code::unavailable;
    default:
      return Code::io;
  }
}

// What a user can do, by errno. It ends the text of the error.
constexpr std::pair<int, const char*> ways_out[]{
    {ENOSPC, "Free space on this file system, or use a directory on another one."},
    {EDQUOT, "The quota is used up: free space, or have it raised."},
    {ENOENT, "Check the path and that its parent directory exists."},
    {EEXIST, "Remove it, or use another name."},
    {ENOTEMPTY, "It holds files that were not expected there: look at them first."},
    {EACCES, "Check owner and permissions of the file and of its directory."},
    {EPERM, "Check owner and permissions of the file and of its directory."},
    {EROFS, "The file system is mounted read-only: use another directory."},
    {ENOTDIR, "A part of the path is a file where a directory should be."},
    {EISDIR, "A directory stands where a file should be."},
    {EMFILE, "Raise the limit on open files (ulimit -n)."},
    {ENFILE, "Raise the limit on open files (ulimit -n)."},
    {ENAMETOOLONG, "Use a shorter name."},
    {EFBIG, "The file system or a limit (ulimit -f) allows no larger file."},
    {EIO, "The device or server failed: do not trust it before it was checked."},
    {ESTALE, "The server no longer knows this file: it was removed or is mounted anew."},
    {ETIMEDOUT, "The server of these files does not answer: try again later."},
    {ENOTCONN, "The server of these files is not connected: mount it anew."},
    {ENOLCK, "This file system does not offer the operation."},
    {ENOSYS, "This file system does not offer the operation."},
    {EOPNOTSUPP, "This file system does not offer the operation."}};

const char* way_out(int number) {
  for (const auto& [code, text] : ways_out) {
    if (code == number) return text;
  }
  return "";
}

}  // namespace

Error system_error(int number, const std::string& action, const Path& path) {
  return Error(code_of(number), "cannot " + action, std::generic_category().message(number),
               way_out(number))
      .at(path.string());
}

Error rename_error(int number, const Path& from, const Path& to) {
  auto error = system_error(number, "rename to " + to.string(), from);
  if (number != EPERM && number != EACCES) return error;
  return Error(error.code(), error.problem(), error.reason(),
               cat(error.way_out(),
                   " If the file system has no rename, set write.atomic_rename to "
                   "false."))
      .at(error.path());
}

void throw_read_error(int number, const std::string& action, const Path& path) {
  auto error = system_error(number, action, path);
  if (number == ESTALE) throw StaleFile(std::move(error));
  throw Error(std::move(error));
}

Error no_regular_file(const Path& path) {
  return Error(Code::data_loss, "cannot open file", "it is no regular file",
               "Something else stands in its place: remove it.")
      .at(path.string());
}

Error file_ends(std::int64_t offset, std::size_t wanted, const Path& path) {
  return Error(Code::data_loss, "file ends too early",
               cat(wanted, " bytes are wanted at offset ", offset),
               "It was truncated or never written whole.")
      .at(path.string());
}

}  // namespace cairn::io
