// The table of writers.
#include "cairn/error.hpp"
#include "session/save/writers/datasets.hpp"
#include "session/save/writers/forwarded.hpp"
#include "session/save/writers/own_files.hpp"
#include "session/save/writers/shared.hpp"

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

DataWriter::Files DataWriter::number(const Job& job, const std::vector<int>& shards,
                                     bool /*one_file*/) const {
  Files files;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    if (static_cast<int>(rank) == job.rank()) files.first = files.all;
    files.all += shards[rank];
  }
  return files;
}

}  // namespace cairn
