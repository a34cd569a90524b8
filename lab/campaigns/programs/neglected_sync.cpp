// To be preloaded (LD_PRELOAD): fsync does nothing, and says that it has done it, for the kinds of
// file that CAIRN_NEGLECT names, with commas between:
//
//   data       files of a bundle's tensors, under this name or the one that they have at first
//   index      indexes of bundles
//   hdf5       HDF5 files
//   state      the file `checkpoint`
//   other      any other file
//   temp       directories of a save that is under way
//   directory  other directories
//
// CAIRN_NEGLECT_LOG is a file that gets a line for each.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace {

std::string kind_of(int descriptor, const std::string& path) {
  const auto name = path.substr(path.rfind('/') + 1);
  const auto has = [&](const char* text) { return name.find(text) != name.npos; };
  struct stat found = {};
  if (fstat(descriptor, &found) == 0 && S_ISDIR(found.st_mode)) {
    return has("_temp_") ? "temp" : "directory";
  }
  if (has(".data-") || has(".part-")) return "data";
  if (has(".index")) return "index";
  if (has(".h5")) return "hdf5";
  return name.starts_with("checkpoint") ? "state" : "other";
}

bool is_neglected(int descriptor) {
  const char* neglected = getenv("CAIRN_NEGLECT");
  if (!neglected) return false;
  char path[PATH_MAX];
  const auto length =
      readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof path);
  if (length < 0) return false;
  const std::string name(path, static_cast<std::size_t>(length));
  const auto kind = kind_of(descriptor, name);
  const bool is = ("," + std::string(neglected) + ",").find("," + kind + ",") != std::string::npos;
  if (const char* log = getenv("CAIRN_NEGLECT_LOG")) {
    const auto line = std::string(is ? "left out " : "done ") + kind + " " + name + "\n";
    const int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line.data(), line.size()) < 0 || close(file) != 0) abort();
  }
  return is;
}

int really(const char* call, int descriptor) {
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, call))(descriptor);
}

}  // namespace

extern "C" {
int fsync(int descriptor) { return is_neglected(descriptor) ? 0 : really("fsync", descriptor); }
int fdatasync(int descriptor) {
  return is_neglected(descriptor) ? 0 : really("fdatasync", descriptor);
}
}
