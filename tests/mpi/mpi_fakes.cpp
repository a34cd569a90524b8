#include "mpi/mpi_fakes.hpp"

#include <set>

namespace cairn::test {
namespace {

std::string failing;
int failing_code = MPI_SUCCESS, calls_left = 0;
std::function<int(int)> node_colour;
int alive = 0, let_go = 0, between_nodes = 0;

bool fails(const char* function) { return failing == function && calls_left-- <= 0; }

// Node colours are by rank in MPI_COMM_WORLD.
void count_between_nodes(MPI_Comm comm) {
  if (!node_colour) return;
  MPI_Group part = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(comm, &part);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(part, &size);
  std::set<int> nodes;
  for (int rank = 0; rank < size; ++rank) {
    int in_world = 0;
    PMPI_Group_translate_ranks(part, 1, &rank, world, &in_world);
    nodes.insert(node_colour(in_world));
  }
  between_nodes += nodes.size() > 1;
  PMPI_Group_free(&part);
  PMPI_Group_free(&world);
}

}  // namespace

FailingCall::FailingCall(std::string function, int code, int from_call) {
  failing = std::move(function);
  failing_code = code;
  calls_left = from_call;
}
FailingCall::~FailingCall() { failing.clear(); }

PretendedNodes::PretendedNodes(std::function<int(int)> colour) { node_colour = std::move(colour); }
PretendedNodes::~PretendedNodes() { node_colour = nullptr; }

int collectives_between_nodes() { return between_nodes; }
int communicators_alive() { return alive; }
int cancelled_or_freed_requests() { return let_go; }

}  // namespace cairn::test

namespace fakes = cairn::test;

#define CAIRN_FAKE(name, parameters, arguments)                 \
  int MPI_##name parameters {                                   \
    if (fakes::fails("MPI_" #name)) return fakes::failing_code; \
    return PMPI_##name arguments;                               \
  }

#define CAIRN_COLLECTIVE(name, parameters, arguments)           \
  int MPI_##name parameters {                                   \
    if (fakes::fails("MPI_" #name)) return fakes::failing_code; \
    fakes::count_between_nodes(comm);                           \
    return PMPI_##name arguments;                               \
  }

extern "C" {

CAIRN_FAKE(Comm_test_inter, (MPI_Comm comm, int* flag), (comm, flag))
CAIRN_FAKE(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
CAIRN_FAKE(Comm_rank, (MPI_Comm comm, int* rank), (comm, rank))
CAIRN_FAKE(Comm_size, (MPI_Comm comm, int* size), (comm, size))
CAIRN_FAKE(Allgather,
           (const void* in, int count, MPI_Datatype type, void* out, int out_count,
            MPI_Datatype out_type, MPI_Comm comm),
           (in, count, type, out, out_count, out_type, comm))
CAIRN_FAKE(Allreduce,
           (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (in, out, count, type, op, comm))
CAIRN_COLLECTIVE(Bcast, (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
                 (buffer, count, type, root, comm))
CAIRN_COLLECTIVE(Ibcast,
                 (void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                  MPI_Request* request),
                 (buffer, count, type, root, comm, request))
CAIRN_COLLECTIVE(Ireduce,
                 (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root,
                  MPI_Comm comm, MPI_Request* request),
                 (in, out, count, type, op, root, comm, request))
CAIRN_COLLECTIVE(Iallreduce,
                 (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                  MPI_Request* request),
                 (in, out, count, type, op, comm, request))
CAIRN_COLLECTIVE(Barrier, (MPI_Comm comm), (comm))
CAIRN_FAKE(Isend,
           (const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
            MPI_Request* request),
           (buffer, count, type, to, tag, comm, request))
CAIRN_FAKE(Irecv,
           (void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
            MPI_Request* request),
           (buffer, count, type, from, tag, comm, request))
CAIRN_FAKE(Test, (MPI_Request * request, int* done, MPI_Status* status), (request, done, status))
CAIRN_FAKE(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
CAIRN_FAKE(Send, (const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
           (buffer, count, type, to, tag, comm))
CAIRN_FAKE(Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status),
           (from, tag, comm, message, status))
CAIRN_FAKE(Mrecv,
           (void* buffer, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status),
           (buffer, count, type, message, status))
CAIRN_FAKE(Get_count, (const MPI_Status* status, MPI_Datatype type, int* count),
           (status, type, count))

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* duplicate) {
  if (fakes::fails("MPI_Comm_dup")) return fakes::failing_code;
  ++fakes::alive;
  return PMPI_Comm_dup(comm, duplicate);
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* part) {
  if (fakes::fails("MPI_Comm_split")) return fakes::failing_code;
  const int code = PMPI_Comm_split(comm, colour, key, part);
  if (code == MPI_SUCCESS && *part != MPI_COMM_NULL) ++fakes::alive;
  return code;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  if (fakes::fails("MPI_Comm_split_type")) return fakes::failing_code;
  ++fakes::alive;
  if (!fakes::node_colour) return PMPI_Comm_split_type(comm, type, key, info, part);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return PMPI_Comm_split(comm, fakes::node_colour(rank), key, part);
}

int MPI_Comm_free(MPI_Comm* comm) {
  if (fakes::fails("MPI_Comm_free")) return fakes::failing_code;
  --fakes::alive;
  return PMPI_Comm_free(comm);
}

int MPI_Cancel(MPI_Request* request) {
  ++fakes::let_go;
  return PMPI_Cancel(request);
}

int MPI_Request_free(MPI_Request* request) {
  ++fakes::let_go;
  return PMPI_Request_free(request);
}

int MPI_Abort(MPI_Comm, int code) { throw fakes::Aborted{code}; }

}  // extern "C"
