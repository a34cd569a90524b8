// A disk that records what happens to it: a FUSE file system of two files.
//
//   power_disk DIRECTORY IMAGE LOG
//
// DIRECTORY/disk has the bytes of IMAGE, for a loop device. DIRECTORY/marks takes notes, which get
// their place among the writes; both are open without a cache, so that a write that has returned is
// in the log. LOG gets a record of each write to the disk ('W'), each fsync of it ('F') and each
// note ('M'): the letter, 7 bytes of zero, offset and size as 64-bit numbers, and the bytes. There
// are no holes to punch, so that the kernel writes zeros instead. It ends when it is unmounted.
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace {

constexpr fuse_ino_t disk = 2, marks = 3;
constexpr double forever = 1e6;
int image = -1, history = -1;
off_t image_size = 0;

struct stat attributes_of(fuse_ino_t file) {
  struct stat result = {};
  result.st_ino = file;
  result.st_nlink = 1;
  result.st_mode = file == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0666;
  if (file == disk) result.st_size = image_size;
  return result;
}

// Everything after a failure here would be worthless: the disk ends, and so does what is on it.
void record(char kind, const char* bytes, size_t size, off_t offset) {
  std::array<uint64_t, 3> head = {static_cast<unsigned char>(kind), static_cast<uint64_t>(offset),
                                  size};
  std::array<iovec, 2> parts = {iovec{head.data(), sizeof head},
                                iovec{const_cast<char*>(bytes), size}};
  if (writev(history, parts.data(), 2) != static_cast<ssize_t>(sizeof head + size)) {
    perror("cannot write the log");
    _exit(1);
  }
}

void lookup(fuse_req_t request, fuse_ino_t, const char* name) {
  fuse_entry_param entry = {};
  entry.ino = strcmp(name, "disk") == 0 ? disk : strcmp(name, "marks") == 0 ? marks : 0;
  if (entry.ino == 0) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  entry.attr = attributes_of(entry.ino);
  entry.attr_timeout = entry.entry_timeout = forever;
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t file, fuse_file_info*) {
  const auto attributes = attributes_of(file);
  fuse_reply_attr(request, &attributes, forever);
}

void open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  info->direct_io = 1;
  fuse_reply_open(request, info);
}

void read(fuse_req_t request, fuse_ino_t file, size_t size, off_t offset, fuse_file_info*) {
  std::vector<char> bytes(size);
  const auto done = file == disk ? pread(image, bytes.data(), size, offset) : 0;
  if (done < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  fuse_reply_buf(request, bytes.data(), static_cast<size_t>(done));
}

void write(fuse_req_t request, fuse_ino_t file, const char* bytes, size_t size, off_t offset,
           fuse_file_info*) {
  if (file == disk) {
    if (offset + static_cast<off_t>(size) > image_size) {
      fuse_reply_err(request, ENOSPC);
      return;
    }
    if (pwrite(image, bytes, size, offset) != static_cast<ssize_t>(size)) {
      fuse_reply_err(request, EIO);
      return;
    }
  }
  record(file == disk ? 'W' : 'M', bytes, size, offset);
  fuse_reply_write(request, size);
}

void fsync(fuse_req_t request, fuse_ino_t file, int, fuse_file_info*) {
  if (file == disk) record('F', "", 0, 0);
  fuse_reply_err(request, 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    fputs("the head of power_disk.cpp says how to use it\n", stderr);
    return 2;
  }
  image = ::open(arguments[2], O_RDWR | O_CLOEXEC);
  history = ::open(arguments[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  struct stat found = {};
  if (image < 0 || history < 0 || fstat(image, &found) != 0) {
    perror("cannot open image and log");
    return 1;
  }
  image_size = found.st_size;
  fuse_lowlevel_ops operations = {};
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.open = open;
  operations.read = read;
  operations.write = write;
  operations.fsync = fsync;
  char* name = arguments[0];
  fuse_args words = FUSE_ARGS_INIT(1, &name);
  fuse_session* session = fuse_session_new(&words, &operations, sizeof operations, nullptr);
  if (!session || fuse_session_mount(session, arguments[1]) != 0) return 1;
  const int result = fuse_session_loop(session);  // one thread: requests have one order
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return result == 0 ? 0 : 1;
}
