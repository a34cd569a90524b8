#include "mpi/file_fakes.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace cairn::test {
namespace {

std::string failing_call;
int code_of_failure = MPI_SUCCESS, good_calls_left = 0, write_number = 0;
bool away = false;
std::function<int(int, int)> lost_of;
FileCalls counts;

bool call_fails(const char* function) { return failing_call == function && good_calls_left-- <= 0; }

std::vector<std::byte> pack(const void* buffer, int count, MPI_Datatype type) {
  int bytes = 0, at = 0;
  MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
  std::vector<std::byte> packed(static_cast<std::size_t>(bytes));
  MPI_Pack(buffer, count, type, packed.data(), bytes, &at, MPI_COMM_SELF);
  packed.resize(static_cast<std::size_t>(at));
  return packed;
}

}  // namespace

FailingFileCall::FailingFileCall(std::string function, int code, int from_call) {
  failing_call = std::move(function);
  code_of_failure = code;
  good_calls_left = from_call;
}
FailingFileCall::~FailingFileCall() { failing_call.clear(); }

void stay_away() { away = true; }

LosingWrites::LosingWrites(std::function<int(int, int)> lost) {
  lost_of = std::move(lost);
  write_number = 0;
}
LosingWrites::~LosingWrites() { lost_of = nullptr; }

FileCalls file_calls() { return counts; }

}  // namespace cairn::test

namespace fakes = cairn::test;

extern "C" {

int MPI_File_open(MPI_Comm comm, const char* path, int mode, MPI_Info info, MPI_File* file) {
  ++fakes::counts.opened;
  const int code = PMPI_File_open(comm, path, mode, info, file);
  return fakes::call_fails("MPI_File_open") ? fakes::code_of_failure : code;
}

int MPI_File_write_at_all(MPI_File file, MPI_Offset offset, const void* buffer, int count,
                          MPI_Datatype type, MPI_Status* status) {
  ++fakes::counts.written;
  if (fakes::away) return MPI_ERR_IO;
  const bool fails = fakes::call_fails("MPI_File_write_at_all");
  if (fails) count = 0;
  std::optional<int> asked;  // bytes
  std::vector<std::byte> packed;
  if (fakes::lost_of && count > 0) {
    // Newer HDF5 libraries describe memory by their own types.
    if (type != MPI_BYTE) {
      packed = fakes::pack(buffer, count, type);
      buffer = packed.data();
      count = static_cast<int>(packed.size());
      type = MPI_BYTE;
    }
    asked = count;
    count -= fakes::lost_of(fakes::write_number++, count);
  }
  const int code = PMPI_File_write_at_all(file, offset, buffer, count, type, status);
  // The loss is not reported.
  if (asked) MPI_Status_set_elements(status, MPI_BYTE, *asked);
  return fails ? fakes::code_of_failure : code;
}

int MPI_File_sync(MPI_File file) {
  const int code = PMPI_File_sync(file);
  return fakes::call_fails("MPI_File_sync") ? fakes::code_of_failure : code;
}

int MPI_File_close(MPI_File* file) {
  ++fakes::counts.closed;
  const int code = PMPI_File_close(file);
  return fakes::call_fails("MPI_File_close") ? fakes::code_of_failure : code;
}

}  // extern "C"
