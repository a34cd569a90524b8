#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "io/file_system.hpp"
#include "io/system_error.hpp"

namespace cairn::io {
namespace {

Path parent_of(const Path& path) {
  const Path parent = path.parent_path();
  return parent.empty() ? Path(".") : parent;
}

// "a/b/" names the same directory as "a/b" but has another parent_path.
Path without_trailing_slash(const Path& path) {
  return path.has_relative_path() && !path.has_filename() ? path.parent_path() : path;
}

bool is_directory(FileSystem& files, const Path& path) {
  const auto status = files.status(path);
  return status && status->is_directory;
}

// After a rename. The new file is visible by now, so an error must not sound as if nothing had
// changed.
void sync_new_name(FileSystem& files, const Path& path) {
  try {
    files.sync_directory(parent_of(path));
  } catch (const Error& error) {
    throw Error(Code::durability_unknown, "the new file is in place, but perhaps not durably",
                error.what(), "A power failure may bring the old one back.")
        .at(path.string());
  }
}

// What FileSystem::open_directory gives by default: each call resolves the path again.
class DirectoryByPath : public OpenDirectory {
 public:
  DirectoryByPath(FileSystem& files, Path path) : files_(files), path_(std::move(path)) {}
  std::vector<std::string> list() override { return files_.list(path_); }
  void sync() override { files_.sync_directory(path_); }

 private:
  FileSystem& files_;
  Path path_;
};

}  // namespace

FileSystem& behind_wrappers(FileSystem& files) {
  auto* at = &files;
  while (auto* wrapper = dynamic_cast<FileSystemWrapper*>(at)) at = &wrapper->target();
  return *at;
}

std::shared_ptr<FileSystem> view_of(std::shared_ptr<FileSystem> files) {
  auto* const viewed = dynamic_cast<Viewed*>(files.get());
  return viewed ? viewed->view(files) : files;
}

bool has_views(FileSystem& files) { return dynamic_cast<Viewed*>(&files) != nullptr; }

bool exists(FileSystem& files, const Path& path) { return files.status(path).has_value(); }

void remove_if_there(FileSystem& files, const Path& path) {
  if (exists(files, path)) files.remove(path);
}

bool try_remove(FileSystem& files, const Path& path) {
  try {
    files.remove(path);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    return false;
  }
  return true;
}

void with_open(FileSystem& files, const Path& path, const std::function<void(File&)>& use) {
  constexpr int most = 20;
  for (int i = 1;; ++i) try {
      return use(*files.open_read(path));
    } catch (const StaleFile&) {  // another node may replace a file at any time
      if (i == most) throw;
      files.status(path);  // asks for the name anew: see open_read()
    }
}

std::string read_file(FileSystem& files, const Path& path, std::int64_t limit_bytes) {
  std::string bytes;
  with_open(files, path, [&](File& file) { bytes = read_file(file, path, limit_bytes); });
  return bytes;
}

std::string read_file(File& file, const Path& path, std::int64_t limit_bytes) {
  const std::int64_t size = file.size();
  if (size > limit_bytes) {
    throw Error(Code::data_loss, "file is too large for what it should hold",
                cat(size, " bytes, at most ", limit_bytes, " are plausible"),
                "It is damaged or not ours.")
        .at(path.string());
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  file.close();
  return bytes;
}

std::optional<std::string> try_read_file(FileSystem& files, const Path& path,
                                         std::int64_t limit_bytes) {
  try {
    return read_file(files, path, limit_bytes);
  } catch (const Error& error) {
    if (error.code() == Code::not_found || error.code() == Code::data_loss) return std::nullopt;
    throw;
  }
}

std::optional<FileId> write_file(FileSystem& files, const Path& path, std::string_view bytes) {
  const auto file = files.create(path);
  file->write_at(0, std::as_bytes(std::span(bytes)));
  file->sync();
  const auto id = file->id();
  file->close();
  return id;
}

void copy(FileSystem& files, const Path& from, const Path& to) {
  constexpr std::int64_t piece = std::int64_t{4} << 20;
  const auto source = files.open_read(from);
  const auto target = files.create(to);
  // Before the first byte: who may not read the source may not read the copy at any time.
  if (const auto status = files.status(from)) files.limit_access(to, status->access);
  const auto size = source->size();
  std::string bytes;
  for (std::int64_t at = 0; at < size; at += piece) {
    bytes.resize(static_cast<std::size_t>(std::min(piece, size - at)));
    source->read_at(at, std::as_writable_bytes(std::span(bytes)));
    target->write_at(at, std::as_bytes(std::span(bytes)));
  }
  target->sync();
  target->close();
}

void link_or_copy(FileSystem& files, const Path& from, const Path& to) {
  if (!files.try_link(from, to)) return copy(files, from, to);
  // The file's writer may not have synced it. A sync through any descriptor of the file will do.
  files.open_read(to)->sync();
}

std::unique_ptr<File> FileSystem::open_sole(const Path& path) {
  return has_one_name(path) ? open_write(path) : nullptr;
}

bool FileSystem::try_link(const Path&, const Path&) { return false; }

std::unique_ptr<OpenDirectory> FileSystem::open_directory(const Path& path) {
  return std::make_unique<DirectoryByPath>(*this, path);
}

void FileSystem::rename_new(const Path& from, const Path& to) {
  if (status(to)) throw system_error(EEXIST, "rename to " + to.string(), from);
  rename(from, to);
}

void replace_file(FileSystem& files, const Path& path, std::string_view bytes, Path temporary,
                  const std::function<void()>& ready) {
  if (auto* at_once = dynamic_cast<Replacing*>(&behind_wrappers(files))) {
    if (ready) ready();
    return at_once->replace(path, bytes);
  }
  if (temporary.empty()) temporary = Path(path) += ".tmp";
  try {
    try {
      write_file(files, temporary, bytes);
    } catch (const Error& error) {
      if (error.code() != Code::already_exists) throw;
      files.remove(temporary);  // left by a process that died
      write_file(files, temporary, bytes);
    }
    if (ready) ready();
    files.rename(temporary, path);
  } catch (const Error&) {
    try {
      try_remove(files, temporary);
    } catch (const Error&) {  // the first error is reported
    }
    throw;
  }
  sync_new_name(files, path);
}

void rewrite_file(FileSystem& files, const Path& path, std::string_view bytes) {
  remove_if_there(files, path);
  write_file(files, path, bytes);
  sync_new_name(files, path);
}

std::optional<Error> link_to_nothing(FileSystem& files, const Path& path) {
  if (files.status(path) || !files.is_link(path)) return std::nullopt;
  std::error_code none;  // if the files are not the system's
  const auto target = std::filesystem::read_symlink(path, none);
  return Error(Code::invalid_argument,
               cat("the directory ", path.string(), " is a link to ",
                   none ? "something" : target.string(), ", which is not there"),
               "nothing is made behind a link", "Make what it leads to, or remove the link.")
      .at(path.string());
}

void create_directories(FileSystem& files, const Path& directory) {
  const Path path = without_trailing_slash(directory);
  if (path.empty()) return;
  const Path parent = parent_of(path);
  if (is_directory(files, path)) {
    // Its maker may have died before the name was durable.
    if (!path.has_relative_path() || path.filename() == "." || path.filename() == "..") return;
    try {
      files.sync_directory(parent);
    } catch (const Error& error) {
      log(LogLevel::warning,
          cat("the directory ", path.string(), " exists, but perhaps not durably: ", error.what()));
    }
    return;
  }
  create_directories(files, parent);
  try {
    files.create_directory(path);
  } catch (const Error& error) {
    // Another process may have been faster; then it must be a directory.
    if (error.code() != Code::already_exists) throw;
    if (const auto wrong = link_to_nothing(files, path)) throw Error(*wrong);
    if (!is_directory(files, path)) throw system_error(ENOTDIR, "create directory", path);
  }
  files.sync_directory(parent);
}

}  // namespace cairn::io
