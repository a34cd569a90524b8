// A directory as one node of several sees it: a FUSE file system that does what NFS and Lustre may.
//
//   node_mount BACKING SECONDS DIRECTORY
//
// Each mount of one BACKING is a node.
//   - Names, also missing ones, and attributes are known for so many seconds, whatever other nodes
//     do meanwhile. An open asks for attributes, bytes and listings anew, of the file or directory
//     that had the name when the node looked (close-to-open).
//   - The kernel keeps locks, so each node has its own.
//   - link() fails with EPERM, renameat2() with flags with EINVAL, fallocate() with EOPNOTSUPP, and
//     nothing tells when a file was made.
//   - A file that is open here gets another name (.nfs...) when this node removes or replaces it,
//     until it is closed. Between that and a rename in its place the name is missing.
//   - What is gone since another node removed or replaced it: ESTALE.
// Removed names and bytes are at once the server's; it loses no power. It ends when it is
// unmounted.
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Node {
  int descriptor = -1;  // O_PATH; the node stays while the kernel knows it
  uint64_t lookups = 0;
  int opened = 0;
  std::string silly;  // its name in `silly_in`, if it is removed when it is closed
  int silly_in = -1;
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    if (descriptor >= 0) close(descriptor);
    if (silly_in >= 0) close(silly_in);
  }
};

using Identity = std::pair<dev_t, ino_t>;
double seconds = 0;
Node root;
std::map<Identity, std::unique_ptr<Node>> nodes;
fuse_session* session = nullptr;

Node& node_of(fuse_ino_t number) {
  return number == FUSE_ROOT_ID ? root : *reinterpret_cast<Node*>(number);
}
fuse_ino_t number_of(const Node& node) {
  return &node == &root ? FUSE_ROOT_ID : reinterpret_cast<fuse_ino_t>(&node);
}

int look(const Node& node, struct stat& found) {
  if (fstat(node.descriptor, &found) != 0) return errno;
  return found.st_nlink == 0 ? ESTALE : 0;
}
// The error of a call that has a name in a directory: a missing one is gone with its directory.
int error_in(const Node& directory) {
  const int error = errno;
  struct stat found;
  return error == ENOENT && look(directory, found) == ESTALE ? ESTALE : error;
}

Node* known(int directory, const char* name) {
  struct stat found;
  if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
  const auto node = nodes.find({found.st_dev, found.st_ino});
  return node == nodes.end() ? nullptr : node->second.get();
}

// Fills the entry; the kernel knows its node once more.
int enter(const Node& directory, const char* name, fuse_entry_param& entry) {
  auto made = std::make_unique<Node>();
  made->descriptor = openat(directory.descriptor, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (made->descriptor < 0) return error_in(directory);
  entry = {};
  if (fstat(made->descriptor, &entry.attr) != 0) return errno;
  auto& node = nodes[{entry.attr.st_dev, entry.attr.st_ino}];
  if (!node) node = std::move(made);
  ++node->lookups;
  entry.ino = number_of(*node);
  entry.attr_timeout = entry.entry_timeout = seconds;
  return 0;
}

void reply_entry(fuse_req_t request, const Node& directory, const char* name) {
  fuse_entry_param entry;
  if (const int error = enter(directory, name, entry)) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_entry(request, &entry);
  }
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry;
  const int error = enter(node_of(parent), name, entry);
  if (error != 0 && error != ENOENT) {
    fuse_reply_err(request, error);
    return;
  }
  if (error == ENOENT) {
    entry = {};
    entry.entry_timeout = seconds;
  }
  fuse_reply_entry(request, &entry);
}

void forget(fuse_req_t request, fuse_ino_t number, uint64_t count) {
  auto& node = node_of(number);
  if (&node != &root && (node.lookups -= count) == 0) {
    struct stat found;
    fstat(node.descriptor, &found);
    nodes.erase({found.st_dev, found.st_ino});
  }
  fuse_reply_none(request);
}

void getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  struct stat found;
  if (const int error = look(node_of(number), found)) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_attr(request, &found, seconds);
  }
}

std::string path_of(const Node& node) { return "/proc/self/fd/" + std::to_string(node.descriptor); }

void setattr(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int set,
             fuse_file_info* file) {
  const auto& node = node_of(number);
  const auto path = path_of(node);
  struct stat found;
  int error = look(node, found);
  if (error == 0 && (set & FUSE_SET_ATTR_MODE) && chmod(path.c_str(), wanted->st_mode) != 0) {
    error = errno;
  }
  if (error == 0 && (set & FUSE_SET_ATTR_SIZE) &&
      (file ? ftruncate(static_cast<int>(file->fh), wanted->st_size)
            : truncate(path.c_str(), wanted->st_size)) != 0) {
    error = errno;
  }
  if (error == 0 && (set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))) {
    const auto time = [&](int given, int now, timespec value) {
      if (set & now) return timespec{0, UTIME_NOW};
      return set & given ? value : timespec{0, UTIME_OMIT};
    };
    const timespec times[] = {time(FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, wanted->st_atim),
                              time(FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, wanted->st_mtim)};
    if (utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) error = errno;
  }
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    getattr(request, number, file);
  }
}

// Removed when the last one here closes it.
bool make_silly(Node& directory, const char* name, Node& node) {
  static unsigned count = 0;
  node.silly = ".nfs" + std::to_string(getpid()) + "-" + std::to_string(++count);
  node.silly_in = dup(directory.descriptor);
  return renameat(directory.descriptor, name, node.silly_in, node.silly.c_str()) == 0;
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  auto& directory = node_of(parent);
  auto* node = known(directory.descriptor, name);
  const bool done = node && node->opened > 0 && node->silly.empty()
                        ? make_silly(directory, name, *node)
                        : unlinkat(directory.descriptor, name, 0) == 0;
  fuse_reply_err(request, done ? 0 : error_in(directory));
}

void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  auto &from = node_of(parent), &to = node_of(new_parent);
  if (flags != 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  auto* replaced = known(to.descriptor, new_name);
  if (replaced && replaced != known(from.descriptor, name) && replaced->opened > 0 &&
      replaced->silly.empty()) {
    make_silly(to, new_name, *replaced);
  }
  if (renameat(from.descriptor, name, to.descriptor, new_name) == 0) {
    fuse_reply_err(request, 0);
    return;
  }
  const int error = error_in(from);
  errno = error;
  fuse_reply_err(request, error_in(to));
}

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  const auto& directory = node_of(parent);
  if (mkdirat(directory.descriptor, name, mode) != 0) {
    fuse_reply_err(request, error_in(directory));
  } else {
    reply_entry(request, directory, name);
  }
}

void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const auto& directory = node_of(parent);
  const bool done = unlinkat(directory.descriptor, name, AT_REMOVEDIR) == 0;
  fuse_reply_err(request, done ? 0 : error_in(directory));
}

void link(fuse_req_t request, fuse_ino_t, fuse_ino_t, const char*) {
  fuse_reply_err(request, EPERM);
}

// Pages of the kernel's cache serve O_DIRECT as well.
int flags_of(const fuse_file_info& info) {
  return (info.flags & ~(O_DIRECT | O_NOFOLLOW)) | O_CLOEXEC;
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  const auto& directory = node_of(parent);
  const int descriptor = openat(directory.descriptor, name, flags_of(*info) | O_CREAT, mode);
  fuse_entry_param entry;
  int error = descriptor < 0 ? error_in(directory) : enter(directory, name, entry);
  if (error != 0) {
    if (descriptor >= 0) close(descriptor);
    fuse_reply_err(request, error);
    return;
  }
  info->fh = static_cast<uint64_t>(descriptor);
  ++node_of(entry.ino).opened;
  fuse_reply_create(request, &entry, info);
}

void open(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  auto& node = node_of(number);
  struct stat found;
  int error = look(node, found);
  const int descriptor = error ? -1 : ::open(path_of(node).c_str(), flags_of(*info));
  if (error == 0 && descriptor < 0) error = errno;
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  fuse_lowlevel_notify_inval_inode(session, number, -1, 0);  // of attributes; an open drops pages
  info->fh = static_cast<uint64_t>(descriptor);
  ++node.opened;
  fuse_reply_open(request, info);
}

void release(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  auto& node = node_of(number);
  close(static_cast<int>(info->fh));
  if (--node.opened == 0 && !node.silly.empty()) {
    unlinkat(node.silly_in, node.silly.c_str(), 0);
    close(std::exchange(node.silly_in, -1));
    node.silly.clear();
  }
  fuse_reply_err(request, 0);
}

void read(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info* info) {
  std::vector<char> bytes(size);
  struct stat found;
  int error = look(node_of(number), found);
  const auto done = error ? -1 : pread(static_cast<int>(info->fh), bytes.data(), size, offset);
  if (error == 0 && done < 0) error = errno;
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_buf(request, bytes.data(), static_cast<size_t>(done));
  }
}

void write(fuse_req_t request, fuse_ino_t number, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info) {
  struct stat found;
  int error = look(node_of(number), found);
  const auto done = error ? -1 : pwrite(static_cast<int>(info->fh), bytes, size, offset);
  if (error == 0 && done < 0) error = errno;
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_write(request, static_cast<size_t>(done));
  }
}

void fsync(fuse_req_t request, fuse_ino_t number, int, fuse_file_info*) {
  struct stat found;
  fuse_reply_err(request, look(node_of(number), found));
}

// The kernel asks for a listing again if the directory's time has changed, which an open asks for.
void opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  const auto& node = node_of(number);
  struct stat found;
  int error = look(node, found);
  const int descriptor = error ? -1 : openat(node.descriptor, ".", O_RDONLY | O_CLOEXEC);
  DIR* listing = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (error == 0 && !listing) error = errno;
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  fuse_lowlevel_notify_inval_inode(session, number, -1, 0);
  info->fh = reinterpret_cast<uint64_t>(listing);
  info->cache_readdir = info->keep_cache = 1;
  fuse_reply_open(request, info);
}

void readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  auto* listing = reinterpret_cast<DIR*>(info->fh);
  if (offset == 0) {
    rewinddir(listing);
  } else {
    seekdir(listing, offset);
  }
  std::string bytes(size, '\0');
  size_t used = 0;
  while (const dirent* entry = ::readdir(listing)) {
    struct stat kind = {};
    kind.st_ino = entry->d_ino;
    kind.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    const auto needs = fuse_add_direntry(request, bytes.data() + used, size - used, entry->d_name,
                                         &kind, telldir(listing));
    if (needs > size - used) break;
    used += needs;
  }
  fuse_reply_buf(request, bytes.data(), used);
}

void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  closedir(reinterpret_cast<DIR*>(info->fh));
  fuse_reply_err(request, 0);
}

void statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs found;
  if (fstatvfs(root.descriptor, &found) != 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_statfs(request, &found);
  }
}

void fallocate(fuse_req_t request, fuse_ino_t, int, off_t, off_t, fuse_file_info*) {
  fuse_reply_err(request, EOPNOTSUPP);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    fputs("the head of node_mount.cpp says how to use it\n", stderr);
    return 2;
  }
  root.descriptor = ::open(arguments[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  seconds = atof(arguments[2]);
  umask(0);  // the kernel has applied it
  if (root.descriptor < 0) {
    perror("cannot open the directory behind");
    return 1;
  }
  fuse_lowlevel_ops operations = {};
  operations.lookup = lookup;
  operations.forget = forget;
  operations.getattr = getattr;
  operations.setattr = setattr;
  operations.unlink = unlink;
  operations.rename = rename;
  operations.mkdir = mkdir;
  operations.rmdir = rmdir;
  operations.link = link;
  operations.create = create;
  operations.open = open;
  operations.release = release;
  operations.read = read;
  operations.write = write;
  operations.fsync = fsync;
  operations.fsyncdir = fsync;
  operations.opendir = opendir;
  operations.readdir = readdir;
  operations.releasedir = releasedir;
  operations.statfs = statfs;
  operations.fallocate = fallocate;
  const char* words[] = {arguments[0], "-o", "allow_other,default_permissions,fsname=node_mount"};
  fuse_args options = FUSE_ARGS_INIT(3, const_cast<char**>(words));
  session = fuse_session_new(&options, &operations, sizeof operations, nullptr);
  if (!session || fuse_session_mount(session, arguments[3]) != 0) return 1;
  const int result = fuse_session_loop(session);  // one thread
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return result == 0 ? 0 : 1;
}
