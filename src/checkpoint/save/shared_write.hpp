#pragma once
/// Data files that several ranks write together.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/shared_files.hpp"
#include "checkpoint/job.hpp"
#include "checkpoint/save/save_steps.hpp"

namespace cairn {

std::string hints_text(const std::map<std::string, std::string>&);

/// Collective. One rank, the lowest, makes the file of each number; then those that gave the number
/// open it. null for -1.
std::unique_ptr<SharedFile> open_shared(const Job&, const io::Path&, int number, bool makes_it);

/// Local. Where the job's options or what is known of the MPI library ask for it: reads the slices
/// of the entries from the file and throws data_loss, naming rank, file, bytes and hints, where
/// they do not have these checksums.
void read_back(const Job&, const io::Path&, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums);

}  // namespace cairn
