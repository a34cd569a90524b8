// To be preloaded (LD_PRELOAD): counts what this process makes by MPI and gives back, by Cairn, the
// program and libhdf5, and at MPI_Finalize what is left. CAIRN_COUNT_LOG is a file that then gets a
// line for each kind that was used:
//
//   RANK KIND made N left M [in LIBRARY ...]
//
// and for descriptors of files below CAIRN_COUNT_PLACE, threads that were not there after MPI_Init,
// and objects of libhdf5, where there is one: RANK KIND left M [NAME ...].
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

enum Kind { communicator, request, message, file, datatype, info, group, op, errhandler, keyval };
constexpr std::array<const char*, 10> names{"communicators", "requests", "messages", "files",
                                            "datatypes",     "infos",    "groups",   "ops",
                                            "errhandlers",   "keyvals"};

struct Count {
  long made = 0;
  std::multimap<std::uint64_t, std::string> there;  // by handle, who made it
};

std::mutex mutex;
std::array<Count, names.size()>& counts() {
  static std::array<Count, names.size()> all;
  return all;
}
int threads_at_first = 0;

std::string setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

template <class Handle>
std::uint64_t number(Handle handle) {  // a pointer in Open MPI, an int in MPICH
  std::uint64_t value = 0;
  memcpy(&value, &handle, sizeof handle);
  return value;
}

std::string library_of(const void* address) {
  Dl_info found;
  if (!dladdr(address, &found) || !found.dli_fname) return "?";
  const std::string path = found.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

template <class Handle>
void made(Kind kind, Handle handle, Handle none, const void* caller) {
  if (handle == none) return;
  const std::lock_guard lock(mutex);
  ++counts()[kind].made;
  counts()[kind].there.emplace(number(handle), library_of(caller));
}
template <class Handle>
void gone(Kind kind, Handle handle) {
  const std::lock_guard lock(mutex);
  auto& there = counts()[kind].there;
  if (const auto at = there.find(number(handle)); at != there.end()) there.erase(at);
}

int entries(const char* directory) {
  int count = 0;
  DIR* all = opendir(directory);
  while (all && readdir(all)) ++count;
  if (all) closedir(all);
  return count;
}

// File descriptors below the place that is watched.
std::string open_files(int& count) {
  std::string found;
  const auto place = setting("CAIRN_COUNT_PLACE");
  DIR* all = place.empty() ? nullptr : opendir("/proc/self/fd");
  while (const dirent* entry = all ? readdir(all) : nullptr) {
    char target[4096];
    const auto size =
        readlink((std::string("/proc/self/fd/") + entry->d_name).c_str(), target, sizeof target);
    const std::string path(target, size > 0 ? static_cast<std::size_t>(size) : 0);
    if (!path.starts_with(place)) continue;
    ++count;
    found += ' ' + path;
  }
  if (all) closedir(all);
  return found;
}

// The objects that the program has open in libhdf5, if that is loaded: files, datasets, groups,
// types and attributes, of all files.
int hdf5_objects() {
  constexpr unsigned all = 0x1f;  // H5F_OBJ_ALL
  const auto call =
      reinterpret_cast<long (*)(std::int64_t, unsigned)>(dlsym(RTLD_DEFAULT, "H5Fget_obj_count"));
  return call ? static_cast<int>(call(all, all)) : 0;
}

void tell(int rank, const std::string& before) {
  std::string text = before;
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    const auto& one = counts()[kind];
    if (one.made == 0) continue;
    text += std::to_string(rank) + ' ' + names[kind] + " made " + std::to_string(one.made) +
            " left " + std::to_string(one.there.size());
    std::map<std::string, int> makers;
    for (const auto& [handle, maker] : one.there) ++makers[maker];
    for (const auto& [maker, count] : makers) text += " in " + maker + ':' + std::to_string(count);
    text += '\n';
  }
  const int log = open(setting("CAIRN_COUNT_LOG").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (log < 0 || write(log, text.data(), text.size()) != static_cast<ssize_t>(text.size())) abort();
  close(log);
}

}  // namespace

#define CALLER __builtin_return_address(0)
#define MAKES(kind, none, name, parameters, arguments, result)  \
  int MPI_##name parameters {                                   \
    const int code = PMPI_##name arguments;                     \
    if (code == MPI_SUCCESS) made(kind, *result, none, CALLER); \
    return code;                                                \
  }
#define ENDS(kind, name, Handle)                 \
  int MPI_##name(Handle* handle) {               \
    const auto before = *handle;                 \
    const int code = PMPI_##name(handle);        \
    if (code == MPI_SUCCESS) gone(kind, before); \
    return code;                                 \
  }
#define STARTS(name, parameters, arguments) \
  MAKES(request, MPI_REQUEST_NULL, name, parameters, arguments, made_request)

extern "C" {

int MPI_Init_thread(int* count, char*** arguments, int wanted, int* given) {
  const int code = PMPI_Init_thread(count, arguments, wanted, given);
  threads_at_first = entries("/proc/self/task");
  return code;
}
int MPI_Init(int* count, char*** arguments) {
  const int code = PMPI_Init(count, arguments);
  threads_at_first = entries("/proc/self/task");
  return code;
}
// libhdf5 frees its own objects while MPI ends.
int MPI_Finalize() {
  int rank = 0, open_count = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto prefix = std::to_string(rank);
  const auto files = open_files(open_count);
  const int more = entries("/proc/self/task") - threads_at_first;
  const auto before = prefix + " descriptors left " + std::to_string(open_count) + files + '\n' +
                      prefix + " threads left " + std::to_string(more < 0 ? 0 : more) + '\n' +
                      prefix + " hdf5_objects left " + std::to_string(hdf5_objects()) + '\n';
  const int code = PMPI_Finalize();
  if (!setting("CAIRN_COUNT_LOG").empty()) tell(rank, before);
  return code;
}

MAKES(communicator, MPI_COMM_NULL, Comm_dup, (MPI_Comm comm, MPI_Comm* result), (comm, result),
      result)
MAKES(communicator, MPI_COMM_NULL, Comm_split,
      (MPI_Comm comm, int colour, int key, MPI_Comm* result), (comm, colour, key, result), result)
MAKES(communicator, MPI_COMM_NULL, Comm_split_type,
      (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* result),
      (comm, type, key, info, result), result)
MAKES(communicator, MPI_COMM_NULL, Comm_create, (MPI_Comm comm, MPI_Group part, MPI_Comm* result),
      (comm, part, result), result)
ENDS(communicator, Comm_free, MPI_Comm)

MAKES(datatype, MPI_DATATYPE_NULL, Type_contiguous,
      (int count, MPI_Datatype type, MPI_Datatype* result), (count, type, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_vector,
      (int count, int length, int stride, MPI_Datatype type, MPI_Datatype* result),
      (count, length, stride, type, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_create_hvector,
      (int count, int length, MPI_Aint stride, MPI_Datatype type, MPI_Datatype* result),
      (count, length, stride, type, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_create_hindexed,
      (int count, const int lengths[], const MPI_Aint at[], MPI_Datatype type,
       MPI_Datatype* result),
      (count, lengths, at, type, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_create_struct,
      (int count, const int lengths[], const MPI_Aint at[], const MPI_Datatype types[],
       MPI_Datatype* result),
      (count, lengths, at, types, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_create_resized,
      (MPI_Datatype type, MPI_Aint low, MPI_Aint extent, MPI_Datatype* result),
      (type, low, extent, result), result)
MAKES(datatype, MPI_DATATYPE_NULL, Type_create_subarray,
      (int dims, const int sizes[], const int subsizes[], const int starts[], int order,
       MPI_Datatype type, MPI_Datatype* result),
      (dims, sizes, subsizes, starts, order, type, result), result)
ENDS(datatype, Type_free, MPI_Datatype)

MAKES(info, MPI_INFO_NULL, Info_create, (MPI_Info * result), (result), result)
MAKES(info, MPI_INFO_NULL, Info_dup, (MPI_Info from, MPI_Info* result), (from, result), result)
MAKES(info, MPI_INFO_NULL, File_get_info, (MPI_File from, MPI_Info* result), (from, result), result)
ENDS(info, Info_free, MPI_Info)

MAKES(group, MPI_GROUP_NULL, Comm_group, (MPI_Comm comm, MPI_Group* result), (comm, result), result)
ENDS(group, Group_free, MPI_Group)

MAKES(op, MPI_OP_NULL, Op_create, (MPI_User_function * call, int commutes, MPI_Op* result),
      (call, commutes, result), result)
ENDS(op, Op_free, MPI_Op)

MAKES(errhandler, MPI_ERRHANDLER_NULL, Comm_create_errhandler,
      (MPI_Comm_errhandler_function * call, MPI_Errhandler* result), (call, result), result)
MAKES(errhandler, MPI_ERRHANDLER_NULL, File_create_errhandler,
      (MPI_File_errhandler_function * call, MPI_Errhandler* result), (call, result), result)
ENDS(errhandler, Errhandler_free, MPI_Errhandler)

MAKES(keyval, MPI_KEYVAL_INVALID, Comm_create_keyval,
      (MPI_Comm_copy_attr_function * copy, MPI_Comm_delete_attr_function* end, int* result,
       void* state),
      (copy, end, result, state), result)
ENDS(keyval, Comm_free_keyval, int)

MAKES(file, MPI_FILE_NULL, File_open,
      (MPI_Comm comm, const char* name, int mode, MPI_Info hints, MPI_File* result),
      (comm, name, mode, hints, result), result)
ENDS(file, File_close, MPI_File)

MAKES(message, MPI_MESSAGE_NULL, Mprobe,
      (int from, int tag, MPI_Comm comm, MPI_Message* result, MPI_Status* status),
      (from, tag, comm, result, status), result)
int MPI_Mrecv(void* bytes, int count, MPI_Datatype type, MPI_Message* taken, MPI_Status* status) {
  const auto before = *taken;
  const int code = PMPI_Mrecv(bytes, count, type, taken, status);
  if (code == MPI_SUCCESS) gone(message, before);
  return code;
}

STARTS(Isend,
       (const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
        MPI_Request* made_request),
       (bytes, count, type, to, tag, comm, made_request))
STARTS(Irecv,
       (void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
        MPI_Request* made_request),
       (bytes, count, type, from, tag, comm, made_request))
STARTS(Ibarrier, (MPI_Comm comm, MPI_Request* made_request), (comm, made_request))
STARTS(Ibcast,
       (void* bytes, int count, MPI_Datatype type, int root, MPI_Comm comm,
        MPI_Request* made_request),
       (bytes, count, type, root, comm, made_request))
STARTS(Ireduce,
       (const void* in, void* out, int count, MPI_Datatype type, MPI_Op sum, int root,
        MPI_Comm comm, MPI_Request* made_request),
       (in, out, count, type, sum, root, comm, made_request))
STARTS(Iallreduce,
       (const void* in, void* out, int count, MPI_Datatype type, MPI_Op sum, MPI_Comm comm,
        MPI_Request* made_request),
       (in, out, count, type, sum, comm, made_request))

// A request is over when it is the null request.
int MPI_Wait(MPI_Request* one, MPI_Status* status) {
  const auto before = *one;
  const int code = PMPI_Wait(one, status);
  if (before != *one) gone(request, before);
  return code;
}
int MPI_Test(MPI_Request* one, int* flag, MPI_Status* status) {
  const auto before = *one;
  const int code = PMPI_Test(one, flag, status);
  if (before != *one) gone(request, before);
  return code;
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const std::vector<std::uint64_t> before = [&] {
    std::vector<std::uint64_t> all;
    for (int i = 0; i < count; ++i) all.push_back(number(requests[i]));
    return all;
  }();
  const int code = PMPI_Waitall(count, requests, statuses);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != number(requests[i])) gone(request, before[i]);
  }
  return code;
}
ENDS(request, Request_free, MPI_Request)

}  // extern "C"
