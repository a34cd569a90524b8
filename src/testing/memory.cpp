#include "testing/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/text.hpp"
#include "io/system_error.hpp"
#include "testing/memory_disk.hpp"

namespace cairn::io {

using Kind = OperationKind;

std::string MemoryFileSystem::Disk::text_of(const Path& path) {
  const std::string& text = path.native();
  if (text.size() > 1 && text.front() == '/' && text.back() != '/' &&
      text.find("//") == std::string::npos && text.find("/.") == std::string::npos) {
    return text;  // nothing to normalise: crash tests call this a million times
  }
  const Path full = (Path("/") / path).lexically_normal();
  return full.has_filename() ? full.string() : full.parent_path().string();
}

void MemoryFileSystem::Disk::observe(const std::string& text) {
  std::function<void(const std::string&)> call;
  {
    const MutexLock guard(mutex);
    call = observer;
  }
  if (call) call(text);
}

namespace {

[[noreturn]] void fail(Code code, const std::string& action, const Path& path) {
  static constexpr std::pair<Code, int> numbers[]{{Code::io, EIO},
                                                  {Code::no_space, ENOSPC},
                                                  {Code::not_found, ENOENT},
                                                  {Code::already_exists, EEXIST},
                                                  {Code::unsupported, EOPNOTSUPP},
                                                  {Code::unavailable, ETIMEDOUT}};
  for (const auto& [one, number] : numbers) {
    if (one == code) throw system_error(number, action, path);
  }
  throw Error(code, "cannot " + action, "a fault was injected").at(path);
}

}  // namespace

void MemoryFileSystem::Disk::fail_if_told(const std::string& kind, const std::string& action,
                                          const Path& path, const Path& second) {
  const bool changes = kind != "open" && kind != "read" && kind != "list" && kind != "lock";
  for (auto& fault : faults) {
    if (fault.kind.empty() ? !changes : fault.kind != kind) continue;
    if (text_of(path).find(fault.path_part) == std::string::npos &&
        (second.empty() || text_of(second).find(fault.path_part) == std::string::npos)) {
      continue;
    }
    if (fault.skip > 0) {
      --fault.skip;
    } else if (fault.times > 0) {
      --fault.times;
      fail(fault.code, action, path);
    }
  }
}

Inode MemoryFileSystem::Disk::find(const Path& path, const std::string& action) const {
  Inode inode = MemoryTree::root;
  const std::string text = text_of(path);
  for (std::size_t start = 1; start < text.size();) {
    if (inode == 0) return 0;
    if (!tree.find(inode)->directory) throw system_error(ENOTDIR, action, path);
    const auto end = std::min(text.find('/', start), text.size());
    inode = tree.lookup(inode, text.substr(start, end - start));
    start = end + 1;
  }
  return inode;
}

Inode MemoryFileSystem::Disk::directory(const Path& path, const std::string& action) const {
  const Inode inode = find(path, action);
  if (inode == 0) throw system_error(ENOENT, action, path);
  if (!tree.find(inode)->directory) throw system_error(ENOTDIR, action, path);
  return inode;
}

MemoryFileSystem::Disk::Place MemoryFileSystem::Disk::place(const Path& path,
                                                            const std::string& action) const {
  const std::string full = text_of(path);
  const auto slash = full.rfind('/');
  Place place;
  const Inode parent = find(full.substr(0, std::max<std::size_t>(slash, 1)), action);
  if (parent == 0) throw system_error(ENOENT, action, path);
  if (!tree.find(parent)->directory) throw system_error(ENOTDIR, action, path);
  place.directory = parent;
  place.name = full.substr(slash + 1);
  place.inode = place.name.empty() ? MemoryTree::root : tree.lookup(parent, place.name);
  return place;
}

void MemoryFileSystem::Disk::carry_out(MemoryOperation operation) {
  const double now =
      clock ? clock()
            : std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                  .count();
  if (!tree.apply(operation, std::string::npos, now)) {
    throw Error(Code::internal, "the memory file system lost its way", operation.text);
  }
  record.push_back(std::move(operation));
}

void MemoryFileSystem::Disk::opened(Inode inode) { ++open[inode]; }

void MemoryFileSystem::Disk::closed(Inode inode) {
  if (--open.at(inode) > 0) return;
  open.erase(inode);
  if (nameless.erase(inode) > 0) tree.erase(inode);
}

std::int64_t MemoryFileSystem::Disk::names_of(Inode inode) const {
  return linked.contains(inode) ? tree.names_of(inode) : 1;
}

void MemoryFileSystem::Disk::lost_name(Inode inode) {
  if (linked.contains(inode) && tree.names_of(inode) > 0) return;
  if (open.contains(inode)) {
    nameless.insert(inode);
  } else {
    tree.erase(inode);
  }
}

class MemoryFileSystem::MemoryFile : public File {
 public:
  // Called with the disk's mutex held; clang does not check constructors.
  MemoryFile(std::shared_ptr<Disk> disk, Inode inode, Path path, bool writable)
      : disk_(std::move(disk)), inode_(inode), path_(std::move(path)), writable_(writable) {
    disk_->opened(inode_);
  }
  ~MemoryFile() override { close(); }

  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    const auto end = offset + static_cast<std::int64_t>(bytes.size());
    const std::string text = cat("write ", Disk::text_of(path_), " [", offset, ", ", end, ")");
    const std::string action = cat("write ", bytes.size(), " bytes at offset ", offset);
    disk_->observe(text);
    const MutexLock guard(disk_->mutex);
    require_open("write");
    if (!writable_) throw system_error(EBADF, action, path_);
    if (offset < 0) throw system_error(EINVAL, action, path_);
    disk_->fail_if_told("write", action, path_);
    const auto largest = static_cast<std::int64_t>(node().bytes->size()) +
                         std::max<std::int64_t>(disk_->capacity - disk_->tree.bytes_used(), 0);
    const auto fitting = std::clamp<std::int64_t>(largest - offset, 0, end - offset);
    if (fitting > 0) {
      const auto part = bytes.first(static_cast<std::size_t>(fitting));
      disk_->carry_out({.kind = Kind::write,
                        .inode = inode_,
                        .offset = offset,
                        .bytes = std::make_shared<const std::string>(
                            reinterpret_cast<const char*>(part.data()), part.size()),
                        .text = text});
    }
    if (fitting < end - offset) throw system_error(ENOSPC, action, path_);
  }

  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    const MutexLock guard(disk_->mutex);
    require_open("read");
    disk_->fail_if_told("read", cat("read ", bytes.size(), " bytes at offset ", offset), path_);
    if (offset < 0) throw system_error(EINVAL, cat("read at offset ", offset), path_);
    const auto& content = *node().bytes;
    const auto start = std::min(static_cast<std::size_t>(offset), content.size());
    const auto count = std::min(content.size() - start, bytes.size());
    std::copy_n(reinterpret_cast<const std::byte*>(content.data()) + start, count, bytes.data());
    if (count < bytes.size()) {
      throw file_ends(offset + static_cast<std::int64_t>(count), bytes.size() - count, path_);
    }
  }

  std::int64_t size() const override {
    const MutexLock guard(disk_->mutex);
    require_open("examine");
    return static_cast<std::int64_t>(node().bytes->size());
  }

  std::optional<FileId> id() const override {
    const MutexLock guard(disk_->mutex);
    require_open("examine");
    return FileId{inode_, static_cast<std::int64_t>(node().bytes->size()), 0};
  }

  // A write of zeros, of which a crash may leave a part.
  bool punch(std::int64_t offset, std::int64_t bytes) override {
    const auto within = std::min(bytes, size() - offset);
    if (within > 0) write_at(offset, std::vector<std::byte>(static_cast<std::size_t>(within)));
    return true;
  }

  void resize(std::int64_t bytes) override {
    const std::string text = cat("resize ", Disk::text_of(path_), " ", bytes);
    const std::string action = cat("make ", bytes, " bytes long");
    disk_->observe(text);
    const MutexLock guard(disk_->mutex);
    require_open("resize");
    if (!writable_ || bytes < 0) throw system_error(EINVAL, action, path_);
    disk_->fail_if_told("resize", action, path_);
    const auto more = bytes - static_cast<std::int64_t>(node().bytes->size());
    if (more > disk_->capacity - disk_->tree.bytes_used()) {
      throw system_error(ENOSPC, action, path_);
    }
    disk_->carry_out({.kind = Kind::resize, .inode = inode_, .offset = bytes, .text = text});
  }

  void sync() override {
    const std::string text = "sync " + Disk::text_of(path_);
    disk_->observe(text);
    const MutexLock guard(disk_->mutex);
    require_open("sync");
    if (sync_failed_) throw system_error(EIO, "sync", path_);
    try {
      disk_->fail_if_told("sync", "sync", path_);
    } catch (const Error&) {
      sync_failed_ = true;
      throw;
    }
    disk_->carry_out({.kind = Kind::sync, .inode = inode_, .text = text});
  }

  void close() override {
    const MutexLock guard(disk_->mutex);
    if (open_) disk_->closed(inode_);
    open_ = false;
  }

 private:
  void require_open(const char* action) const {
    if (!open_) throw system_error(EBADF, action, path_);
  }
  const MemoryNode& node() const CAIRN_REQUIRES(disk_->mutex) { return *disk_->tree.find(inode_); }

  std::shared_ptr<Disk> disk_;
  Inode inode_;
  Path path_;
  bool writable_;
  bool open_ = true;
  bool sync_failed_ = false;
};

class MemoryFileSystem::MemoryLock : public Lock {
 public:
  MemoryLock(std::shared_ptr<Disk> disk, Inode inode) : disk_(std::move(disk)), inode_(inode) {}
  ~MemoryLock() override {
    const MutexLock guard(disk_->mutex);
    disk_->locked.erase(inode_);
    disk_->closed(inode_);
  }

 private:
  std::shared_ptr<Disk> disk_;
  Inode inode_;
};

MemoryFileSystem::MemoryFileSystem() : disk_(std::make_shared<Disk>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

std::unique_ptr<File> MemoryFileSystem::create(const Path& path) {
  const std::string text = "create " + Disk::text_of(path);
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("create", "create file", path);
  auto place = disk_->place(path, "create file");
  if (place.inode != 0) throw system_error(EEXIST, "create file", path);
  const Inode inode = disk_->next_inode++;
  disk_->carry_out({.kind = Kind::create,
                    .inode = inode,
                    .directory = place.directory,
                    .name = place.name,
                    .text = text});
  return std::make_unique<MemoryFile>(disk_, inode, path, true);
}

std::unique_ptr<File> MemoryFileSystem::open_read(const Path& path) { return open(path, false); }
std::unique_ptr<File> MemoryFileSystem::open_write(const Path& path) { return open(path, true); }

std::unique_ptr<File> MemoryFileSystem::open(const Path& path, bool writable) {
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("open", "open file", path);
  const Inode inode = disk_->find(path, "open file");
  if (inode == 0) throw system_error(ENOENT, "open file", path);
  if (disk_->tree.find(inode)->directory) {
    throw writable ? system_error(EISDIR, "open file", path) : no_regular_file(path);
  }
  return std::make_unique<MemoryFile>(disk_, inode, path, writable);
}

void MemoryFileSystem::rename(const Path& from, const Path& to) { rename(from, to, true); }
void MemoryFileSystem::rename_new(const Path& from, const Path& to) { rename(from, to, false); }

void MemoryFileSystem::rename(const Path& from, const Path& to, bool replaces) {
  const std::string text = cat("rename ", Disk::text_of(from), " to ", Disk::text_of(to));
  const std::string action = "rename to " + to.string();
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("rename", action, from, to);
  if (!disk_->renames) throw system_error(EOPNOTSUPP, action, from);
  const auto source = disk_->place(from, action);
  if (source.inode == 0) throw system_error(ENOENT, action, from);
  const auto target = disk_->place(to, action);
  if (target.inode != 0 && !replaces) throw system_error(EEXIST, action, from);
  if (target.inode == source.inode) return;
  const auto* moved = disk_->tree.find(source.inode);
  if (target.inode != 0) {
    const auto* replaced = disk_->tree.find(target.inode);
    if (replaced->directory && !moved->directory) throw system_error(EISDIR, action, from);
    if (!replaced->directory && moved->directory) throw system_error(ENOTDIR, action, from);
    if (!replaced->entries.empty()) throw system_error(ENOTEMPTY, action, from);
  }
  // The only other case that apply() refuses: a directory moves into itself.
  if (cat(Disk::text_of(to), "/").starts_with(cat(Disk::text_of(from), "/"))) {
    throw system_error(EINVAL, action, from);
  }
  disk_->carry_out({.kind = Kind::rename,
                    .inode = source.inode,
                    .directory = source.directory,
                    .name = source.name,
                    .to_directory = target.directory,
                    .to_name = target.name,
                    .text = text});
  if (target.inode != 0) disk_->lost_name(target.inode);
}

bool MemoryFileSystem::try_link(const Path& from, const Path& to) {
  const std::string text = cat("link ", Disk::text_of(from), " to ", Disk::text_of(to));
  const std::string action = "link to " + to.string();
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("link", action, from, to);
  const auto source = disk_->place(from, action);
  if (source.inode == 0) throw system_error(ENOENT, action, from);
  if (disk_->tree.find(source.inode)->directory) return false;
  const auto target = disk_->place(to, action);
  if (target.inode != 0) throw system_error(EEXIST, action, from);
  disk_->carry_out({.kind = Kind::link,
                    .inode = source.inode,
                    .directory = target.directory,
                    .name = target.name,
                    .text = text});
  disk_->linked.insert(source.inode);
  return true;
}

bool MemoryFileSystem::shares_space(const Path&) {
  const MutexLock guard(disk_->mutex);
  return disk_->shares;
}

std::unique_ptr<File> MemoryFileSystem::create_clone(const Path& from, const Path& to) {
  if (!shares_space(to)) return nullptr;
  std::shared_ptr<const std::string> bytes;
  {
    const MutexLock guard(disk_->mutex);
    const auto inode = disk_->find(from, "open file");
    if (inode == 0 || disk_->tree.find(inode)->directory) return nullptr;
    bytes = std::make_shared<const std::string>(*disk_->tree.find(inode)->bytes);
  }
  auto made = create(to);
  made->write_at(0, std::as_bytes(std::span(*bytes)));
  return made;
}

bool MemoryFileSystem::has_one_name(const Path& path) {
  const auto found = status(path);
  return found && !found->is_directory && found->names == 1;
}

void MemoryFileSystem::remove(const Path& path) {
  const std::string text = "remove " + Disk::text_of(path);
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("remove", "remove file", path);
  const auto place = disk_->place(path, "remove file");
  if (place.inode == 0) throw system_error(ENOENT, "remove file", path);
  if (disk_->tree.find(place.inode)->directory) throw system_error(EISDIR, "remove file", path);
  disk_->carry_out({.kind = Kind::remove,
                    .inode = place.inode,
                    .directory = place.directory,
                    .name = place.name,
                    .text = text});
  disk_->lost_name(place.inode);
}

void MemoryFileSystem::create_directory(const Path& path) {
  const std::string text = "create_directory " + Disk::text_of(path);
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("create_directory", "create directory", path);
  const auto place = disk_->place(path, "create directory");
  if (place.inode != 0) throw system_error(EEXIST, "create directory", path);
  disk_->carry_out({.kind = Kind::create_directory,
                    .inode = disk_->next_inode++,
                    .directory = place.directory,
                    .name = place.name,
                    .text = text});
}

void MemoryFileSystem::remove_directory(const Path& path) {
  const std::string text = "remove_directory " + Disk::text_of(path);
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("remove_directory", "remove directory", path);
  const auto place = disk_->place(path, "remove directory");
  if (place.inode == 0) throw system_error(ENOENT, "remove directory", path);
  const auto* node = disk_->tree.find(place.inode);
  if (!node->directory) throw system_error(ENOTDIR, "remove directory", path);
  if (place.inode == MemoryTree::root) throw system_error(EBUSY, "remove directory", path);
  if (!node->entries.empty()) throw system_error(ENOTEMPTY, "remove directory", path);
  disk_->carry_out({.kind = Kind::remove_directory,
                    .inode = place.inode,
                    .directory = place.directory,
                    .name = place.name,
                    .text = text});
  disk_->lost_name(place.inode);
}

std::vector<std::string> MemoryFileSystem::list(const Path& path) {
  const MutexLock guard(disk_->mutex);
  disk_->fail_if_told("list", "list directory", path);
  const auto* node = disk_->tree.find(disk_->directory(path, "list directory"));
  std::vector<std::string> names;
  for (const auto& [name, inode] : node->entries) names.push_back(name);
  return names;
}

std::optional<Status> MemoryFileSystem::status(const Path& path) {
  const MutexLock guard(disk_->mutex);
  Inode inode = 0;
  try {
    inode = disk_->find(path, "examine");
  } catch (const Error&) {  // a file stands in the place of a directory
  }
  if (inode == 0) return std::nullopt;
  const auto* node = disk_->tree.find(inode);
  const auto size = node->directory ? 0 : static_cast<std::int64_t>(node->bytes->size());
  const auto names = node->directory ? 0 : disk_->names_of(inode);
  return Status{.is_directory = node->directory,
                .size = size,
                .modified_seconds = node->modified_seconds,
                .id = {inode, size, 0},
                .names = names,
                .changed_nanoseconds = node->change};
}

void MemoryFileSystem::sync_directory(const Path& path) {
  const std::string text = "sync_directory " + Disk::text_of(path);
  disk_->observe(text);
  const MutexLock guard(disk_->mutex);
  const Inode inode = disk_->directory(path, "open directory");
  disk_->fail_if_told("sync_directory", "sync directory", path);
  disk_->carry_out({.kind = Kind::sync_directory, .inode = inode, .text = text});
}

std::int64_t MemoryFileSystem::free_bytes(const Path& directory) {
  const MutexLock guard(disk_->mutex);
  disk_->directory(directory, "ask for free space at");
  return std::max<std::int64_t>(disk_->capacity - disk_->tree.bytes_used(), 0);
}

std::unique_ptr<Lock> MemoryFileSystem::try_lock(const Path& path) {
  {
    const MutexLock guard(disk_->mutex);
    disk_->fail_if_told("lock", "lock", path);
  }
  if (!status(path)) {
    try {
      create(path);
    } catch (const Error& error) {
      if (error.code() != Code::already_exists) throw;  // another process was faster
    }
  }
  const MutexLock guard(disk_->mutex);
  const Inode inode = disk_->find(path, "open lock file");
  if (inode == 0) throw system_error(ENOENT, "open lock file", path);
  if (disk_->tree.find(inode)->directory) throw system_error(EISDIR, "open lock file", path);
  if (!disk_->locked.insert(inode).second) return nullptr;
  disk_->opened(inode);
  return std::make_unique<MemoryLock>(disk_, inode);
}

}  // namespace cairn::io
