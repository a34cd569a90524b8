// To be preloaded (LD_PRELOAD): fsync does nothing, and says that it has done it, for the kinds of
// file that CAIRN_NEGLECT names, with commas between:
//
//   data       files of a bundle's tensors, under this name or the one that they have at first
//   index      indexes of bundles, also one that overwrites another
//   hdf5       HDF5 files
//   record     of the parts of a save
//   old_index  that a save without renames replaces
//   state      the file `checkpoint`
//   sequences, owner, status, room, lock: those files in .cairn
//   node_data, parity, map, home: the files on nodes; home, all but the first three
//   other      any other file
//   temp       directories of a save that is under way
//   directory  of the checkpoints (the campaigns name it run)
//   private    .cairn
//   recycled, and other directories there
//   node       directories on nodes
//   parent     other directories
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
#include <string_view>

namespace {

std::string kind_of_directory(std::string_view path, std::string_view name) {
  if (name.find("_temp_") != name.npos || name.find(".part_") != name.npos) return "temp";
  if (path.find("/node-") != path.npos) return "node";
  if (name == ".cairn") return "private";
  if (path.find("/.cairn/") != path.npos) return "recycled";
  return name == "run" ? "directory" : "parent";
}

std::string kind_of_file(std::string_view path, std::string_view name) {
  const auto has = [&](std::string_view text) { return name.find(text) != name.npos; };
  if (path.find("/node-") != path.npos) {
    if (name.starts_with("part-")) return "node_data";
    return name.starts_with("parity-") ? "parity" : name.starts_with("map") ? "map" : "home";
  }
  if (name.ends_with(".h5")) return "hdf5";
  if (has(".data-") || has("part-")) return "data";
  if (name == "old-index") return "old_index";
  if (has(".index") || name.starts_with("retired-") || name == "index") return "index";
  if (name.starts_with("record-")) return "record";
  if (name.starts_with("checkpoint") || name.ends_with(".state")) return "state";
  for (const std::string_view own : {"sequences", "owner", "status", "room"}) {
    if (name.starts_with(own)) return std::string(own);
  }
  return name == "pinned.lock" ? "lock" : "other";
}

std::string kind_of(int descriptor, std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  struct stat found = {};
  const bool is_directory = fstat(descriptor, &found) == 0 && S_ISDIR(found.st_mode);
  return is_directory ? kind_of_directory(path, name) : kind_of_file(path, name);
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
