// The table of writers.
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "save/writers/datasets.hpp"
#include "save/writers/forwarded.hpp"
#include "save/writers/own_files.hpp"
#include "save/writers/shared.hpp"

namespace cairn {
namespace {

const OwnFiles own_files;
const ForwardedFiles forwarded_files;
const SharedByRanks shared_by_ranks;
const CollectiveDatasets collective_datasets;
const DataWriter* const table[] = {&own_files, &forwarded_files, &shared_by_ranks,
                                   &collective_datasets};

}  // namespace

const DataWriter& writer_of(const Job& job) {
  for (const auto* one : table) {
    if (one->serves(job)) return *one;
  }
  throw Error(Code::internal, "a writer that is in no table");
}

DataWriter::Files DataWriter::number(const Job& job, const std::vector<int>& shards) const {
  Files files;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    if (static_cast<int>(rank) == job.rank()) files.first = files.all;
    files.all += shards[rank];
  }
  return files;
}

void require_no_io_ranks(const ManagerOptions& options, const char* writer) {
  if (options.write.io_ranks.choice == IoRanks::Choice::everyone) return;
  throw Error(Code::invalid_argument, cat(writer, " does not go with io ranks"),
              "the MPI library chooses by itself which ranks touch a file",
              "Say how many of them with hints of the library, or use Writer::posix.");
}

void require_no_limit(const ManagerOptions& options) {
  if (options.write.storage_limit_seconds == 0) return;
  throw Error(Code::unsupported, "a limit on how long storage is waited for takes Writer::posix",
              "MPI-IO and parallel HDF5 wait for the storage by themselves",
              "Leave storage_limit_seconds at 0, or write with Writer::posix.");
}

}  // namespace cairn
