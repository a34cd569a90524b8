// To be preloaded (LD_PRELOAD): of this process' calls of MPI one fails on one rank: it is made,
// and then its error handler and its caller are told that it failed. The environment says which:
//
//   CAIRN_FAULT_CALL   the function, such as MPI_Isend; without it none fails
//   CAIRN_FAULT_AT     which call of it, from 0 on
//   CAIRN_FAULT_RANK   of which rank
//   CAIRN_FAULT_SIGNAL a number: instead of an error the process gets this signal
//   CAIRN_FAULT_LOG    a file that gets a line when it has happened
//   CAIRN_FAULT_COUNT  a file that gets a line "FUNCTION CALLS" each when the process ends, of that
//                      rank
//
// Of functions that only look (MPI_Test, MPI_Iprobe) those calls count that find something: how
// often the others are made depends on time.
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace {

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

// This process' rank, as Open MPI and MPICH tell it.
const char* rank() {
  const char* open_mpi = setting("OMPI_COMM_WORLD_RANK");
  return *open_mpi ? open_mpi : setting("PMI_RANK");
}

// Whether this process is the one that fails.
bool is_mine() {
  static const bool mine = strcmp(setting("CAIRN_FAULT_RANK"), rank()) == 0;
  return mine;
}

// The calls of one function. There is one object for each, from the first call on.
class Calls {
 public:
  explicit Calls(const char* function) : function_(function), next_(all()) {
    all() = this;
    static const bool is_asked = *setting("CAIRN_FAULT_COUNT") && is_mine() && !atexit(tell_all);
    static_cast<void>(is_asked);
  }

  // Whether the call that was just made is to fail.
  bool strike() {
    const long number = count_++;
    if (!is_mine() || strcmp(setting("CAIRN_FAULT_CALL"), function_) != 0) return false;
    if (number != atol(setting("CAIRN_FAULT_AT"))) return false;
    char line[100];
    snprintf(line, sizeof line, "%s %ld\n", function_, number);
    put("CAIRN_FAULT_LOG", line);
    const int signal = atoi(setting("CAIRN_FAULT_SIGNAL"));
    if (signal != 0) raise(signal);
    return signal == 0;
  }

 private:
  static Calls*& all() {
    static Calls* first = nullptr;
    return first;
  }
  static void put(const char* file, const char* line) {
    const int log = open(setting(file), O_WRONLY | O_CREAT | O_APPEND, 0666);
    const auto size = strlen(line);
    if (log < 0 || write(log, line, size) != static_cast<ssize_t>(size)) abort();
    close(log);
  }
  static void tell_all() {
    for (const Calls* one = all(); one; one = one->next_) {
      char line[100];
      snprintf(line, sizeof line, "%s %ld\n", one->function_, one->count_.load());
      put("CAIRN_FAULT_COUNT", line);
    }
  }

  const char* function_;
  Calls* next_;
  std::atomic<long> count_ = 0;
};

// Fails as MPI does: first it calls the error handler, which may end the job, then it returns to
// the caller.
int fail(MPI_Comm comm) {
  if (comm != MPI_COMM_NULL) PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}
int fail(MPI_File file) {
  PMPI_File_call_errhandler(file, MPI_ERR_IO);
  return MPI_ERR_IO;
}
// For calls that belong to no communicator: their users have set no handler of MPI_COMM_WORLD,
// which MPI-3 would call; they get the code, as with MPI_ERRORS_RETURN there.
int fail() { return MPI_ERR_OTHER; }

}  // namespace

// After the arguments comes the communicator whose error handler is called, if there is one.
#define FAULTY(name, parameters, arguments, ...)               \
  int MPI_##name parameters {                                  \
    static Calls calls("MPI_" #name);                          \
    const int code = PMPI_##name arguments;                    \
    return calls.strike() && !code ? fail(__VA_ARGS__) : code; \
  }
#define FAULTY_IF_FOUND(name, parameters, arguments, ...)               \
  int MPI_##name parameters {                                           \
    static Calls calls("MPI_" #name);                                   \
    const int code = PMPI_##name arguments;                             \
    return *flag && calls.strike() && !code ? fail(__VA_ARGS__) : code; \
  }

extern "C" {

// Collectives.
FAULTY(Barrier, (MPI_Comm comm), (comm), comm)
FAULTY(Ibarrier, (MPI_Comm comm, MPI_Request* request), (comm, request), comm)
FAULTY(Bcast, (void* bytes, int count, MPI_Datatype type, int root, MPI_Comm comm),
       (bytes, count, type, root, comm), comm)
FAULTY(Ibcast,
       (void* bytes, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request),
       (bytes, count, type, root, comm, request), comm)
FAULTY(Allreduce,
       (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
       (in, out, count, type, op, comm), comm)
FAULTY(Iallreduce,
       (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
        MPI_Request* request),
       (in, out, count, type, op, comm, request), comm)
FAULTY(Ireduce,
       (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
        MPI_Request* request),
       (in, out, count, type, op, root, comm, request), comm)
FAULTY(Allgather,
       (const void* in, int count, MPI_Datatype type, void* out, int out_count,
        MPI_Datatype out_type, MPI_Comm comm),
       (in, count, type, out, out_count, out_type, comm), comm)
FAULTY(Allgatherv,
       (const void* in, int count, MPI_Datatype type, void* out, const int out_counts[],
        const int at[], MPI_Datatype out_type, MPI_Comm comm),
       (in, count, type, out, out_counts, at, out_type, comm), comm)
FAULTY(Gather,
       (const void* in, int count, MPI_Datatype type, void* out, int out_count,
        MPI_Datatype out_type, int root, MPI_Comm comm),
       (in, count, type, out, out_count, out_type, root, comm), comm)
FAULTY(Gatherv,
       (const void* in, int count, MPI_Datatype type, void* out, const int out_counts[],
        const int at[], MPI_Datatype out_type, int root, MPI_Comm comm),
       (in, count, type, out, out_counts, at, out_type, root, comm), comm)
FAULTY(Scatterv,
       (const void* in, const int counts[], const int at[], MPI_Datatype type, void* out,
        int out_count, MPI_Datatype out_type, int root, MPI_Comm comm),
       (in, counts, at, type, out, out_count, out_type, root, comm), comm)

// Messages.
FAULTY(Send, (const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
       (bytes, count, type, to, tag, comm), comm)
FAULTY(Isend,
       (const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
        MPI_Request* request),
       (bytes, count, type, to, tag, comm, request), comm)
FAULTY(Recv,
       (void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
        MPI_Status* status),
       (bytes, count, type, from, tag, comm, status), comm)
FAULTY(Irecv,
       (void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
        MPI_Request* request),
       (bytes, count, type, from, tag, comm, request), comm)
FAULTY(Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status),
       (from, tag, comm, message, status), comm)
FAULTY(Mrecv, (void* bytes, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status),
       (bytes, count, type, message, status))
FAULTY(Imrecv,
       (void* bytes, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request),
       (bytes, count, type, message, request))
FAULTY(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
FAULTY(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]),
       (count, requests, statuses))
FAULTY_IF_FOUND(Test, (MPI_Request * request, int* flag, MPI_Status* status),
                (request, flag, status))
FAULTY_IF_FOUND(Iprobe, (int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
                (from, tag, comm, flag, status), comm)
FAULTY(Cancel, (MPI_Request * request), (request))
FAULTY(Request_free, (MPI_Request * request), (request))
FAULTY(Get_count, (const MPI_Status* status, MPI_Datatype type, int* count), (status, type, count))
FAULTY(Get_elements_x, (const MPI_Status* status, MPI_Datatype type, MPI_Count* count),
       (status, type, count))

// Communicators.
FAULTY(Comm_dup, (MPI_Comm comm, MPI_Comm* made), (comm, made), comm)
FAULTY(Comm_split, (MPI_Comm comm, int colour, int key, MPI_Comm* made), (comm, colour, key, made),
       comm)
FAULTY(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made),
       (comm, type, key, info, made), comm)
FAULTY(Comm_free, (MPI_Comm * comm), (comm))
FAULTY(Comm_rank, (MPI_Comm comm, int* rank), (comm, rank), comm)
FAULTY(Comm_size, (MPI_Comm comm, int* size), (comm, size), comm)
FAULTY(Comm_compare, (MPI_Comm one, MPI_Comm other, int* result), (one, other, result), one)
FAULTY(Comm_test_inter, (MPI_Comm comm, int* flag), (comm, flag), comm)
FAULTY(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler), comm)
FAULTY(Comm_create_keyval,
       (MPI_Comm_copy_attr_function * copy, MPI_Comm_delete_attr_function* end, int* key,
        void* state),
       (copy, end, key, state))
FAULTY(Comm_free_keyval, (int* key), (key))
FAULTY(Comm_set_attr, (MPI_Comm comm, int key, void* value), (comm, key, value), comm)

// Types and hints.
FAULTY(Type_commit, (MPI_Datatype * type), (type))
FAULTY(Type_contiguous, (int count, MPI_Datatype type, MPI_Datatype* made), (count, type, made))
FAULTY(Type_create_struct,
       (int count, const int lengths[], const MPI_Aint at[], const MPI_Datatype types[],
        MPI_Datatype* made),
       (count, lengths, at, types, made))
FAULTY(Type_vector, (int count, int length, int stride, MPI_Datatype type, MPI_Datatype* made),
       (count, length, stride, type, made))
FAULTY(Type_create_hvector,
       (int count, int length, MPI_Aint stride, MPI_Datatype type, MPI_Datatype* made),
       (count, length, stride, type, made))
FAULTY(Type_create_hindexed,
       (int count, const int lengths[], const MPI_Aint at[], MPI_Datatype type, MPI_Datatype* made),
       (count, lengths, at, type, made))
FAULTY(Type_create_hindexed_block,
       (int count, int length, const MPI_Aint at[], MPI_Datatype type, MPI_Datatype* made),
       (count, length, at, type, made))
FAULTY(Type_create_resized, (MPI_Datatype type, MPI_Aint low, MPI_Aint extent, MPI_Datatype* made),
       (type, low, extent, made))
FAULTY(Type_dup, (MPI_Datatype type, MPI_Datatype* made), (type, made))
FAULTY(Type_get_extent, (MPI_Datatype type, MPI_Aint* low, MPI_Aint* extent), (type, low, extent))
FAULTY(Type_size_x, (MPI_Datatype type, MPI_Count* size), (type, size))
FAULTY(Type_free, (MPI_Datatype * type), (type))
FAULTY(Info_create, (MPI_Info * info), (info))
FAULTY(Info_set, (MPI_Info info, const char* key, const char* value), (info, key, value))
FAULTY(Info_dup, (MPI_Info info, MPI_Info* made), (info, made))
FAULTY(Info_get, (MPI_Info info, const char* key, int room, char* value, int* flag),
       (info, key, room, value, flag))
FAULTY(Info_get_nkeys, (MPI_Info info, int* count), (info, count))
FAULTY(Info_get_nthkey, (MPI_Info info, int number, char* key), (info, number, key))
FAULTY(Info_free, (MPI_Info * info), (info))

// Files.
FAULTY(File_open, (MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file),
       (comm, name, mode, info, file))
FAULTY(File_close, (MPI_File * file), (file))
FAULTY(File_set_errhandler, (MPI_File file, MPI_Errhandler handler), (file, handler), file)
FAULTY(File_set_size, (MPI_File file, MPI_Offset bytes), (file, bytes), file)
FAULTY(File_get_size, (MPI_File file, MPI_Offset* bytes), (file, bytes), file)
FAULTY(File_set_view,
       (MPI_File file, MPI_Offset at, MPI_Datatype element, MPI_Datatype type, const char* form,
        MPI_Info info),
       (file, at, element, type, form, info), file)
FAULTY(File_write_at,
       (MPI_File file, MPI_Offset at, const void* bytes, int count, MPI_Datatype type,
        MPI_Status* status),
       (file, at, bytes, count, type, status), file)
FAULTY(File_write_at_all,
       (MPI_File file, MPI_Offset at, const void* bytes, int count, MPI_Datatype type,
        MPI_Status* status),
       (file, at, bytes, count, type, status), file)
FAULTY(File_read_at,
       (MPI_File file, MPI_Offset at, void* bytes, int count, MPI_Datatype type,
        MPI_Status* status),
       (file, at, bytes, count, type, status), file)
FAULTY(File_read_at_all,
       (MPI_File file, MPI_Offset at, void* bytes, int count, MPI_Datatype type,
        MPI_Status* status),
       (file, at, bytes, count, type, status), file)
FAULTY(File_sync, (MPI_File file), (file), file)
FAULTY(File_set_atomicity, (MPI_File file, int flag), (file, flag), file)
FAULTY(File_get_atomicity, (MPI_File file, int* flag), (file, flag), file)

}  // extern "C"
