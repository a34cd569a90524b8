#pragma once
/// Data files that several ranks write together.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/shared_files.hpp"
#include "job/job.hpp"
#include "save/save_steps.hpp"

namespace cairn {

/// Collective. One rank makes the file of each number, and takes the space for so many bytes: a
/// full disk is found by a call that says so, since an MPI library may not, or hang. Then those
/// that gave the number open it. null for -1.
std::unique_ptr<SharedFile> open_shared(const Job&, const io::Path&, int number, bool makes_it,
                                        std::int64_t bytes);

/// Local, after the sync. Throws data_loss (no_space on a full disk), naming rank, file, bytes and
/// hints, where the slices of the entries are not in the file with these checksums: Open MPI
/// reports success where the operating system refused a write. Slices with a hole in them are read;
/// all are where the job's options, or what is known of the MPI library, ask for it.
void read_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums);

}  // namespace cairn
