#pragma once
/// Checks what an MPI library has written. Its report of success is not trusted: Open MPI 4.1
/// reports success for writes that were refused, or hangs.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// Local, called after the sync. Throws data_loss (no_space on a full disk), naming rank, file,
/// bytes and hints, if the file does not hold the entries' slices with these checksums: Open MPI
/// reports success even if the operating system refused a write. Reads only slices with a hole in
/// them, or all slices if the job's options or known faults of the MPI library require it.
void read_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums);
/// Collective. The same for entries of numbers, whose slices have their checksums.
void read_runs_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries);

/// For messages and agreement: "the hints a=b c=d, read back".
std::string mpi_io_text(const MpiIoOptions&);

}  // namespace cairn
