#pragma once
/// What writers do whose bytes an MPI library writes. Its word that a write succeeded is not relied
/// on: Open MPI 4.1 reports success for writes that were refused, or hangs.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// Local, after the sync. Throws data_loss (no_space on a full disk), naming rank, file, bytes and
/// hints, where the slices of the entries are not in the file with these checksums: Open MPI
/// reports success where the operating system refused a write. Slices with a hole in them are read;
/// all are where the job's options, or what is known of the MPI library, ask for it.
void read_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums);
/// Collective: the same for entries of numbers, whose slices have these checksums.
void read_runs_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries);

/// For messages and agreement: "the hints a=b c=d, read back".
std::string mpi_io_text(const MpiIoOptions&);

}  // namespace cairn
