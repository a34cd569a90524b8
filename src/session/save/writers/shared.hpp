#pragma once
/// Ranks write into files that they share, with MPI-IO: ranges by rank order, from page to page,
/// written in bounded rounds by all ranks of a file, synced before anybody returns, and read back
/// where that is called for. There are as many rounds as the rank with most frames needs; a rank
/// that failed or is done takes part with nothing. No rank leaves a record before all have synced,
/// since one rank's bytes may be another's to sync.
#include "session/save/writers/writer.hpp"

namespace cairn {

class SharedByRanks final : public DataWriter {
 public:
  bool serves(const Job&) const override;
  std::string name() const override { return "Writer::mpi_io"; }
  std::string description(const ManagerOptions&) const override;
  void validate(Job&) const override;
  std::string why_blocking() const override {
    return "ranks share files, which they write together";
  }
  bool writes_together() const override { return true; }
  bool one_file(const Job&, const Sharding&) const override { return true; }
  Files number(const Job&, const std::vector<int>& shards, bool one_file) const override;
  std::vector<StoredTensor> write_with_others(const Job&, const RefreshedState&, const LocalShards&,
                                              const FileLayout&, const Draft&) const override;
  void make_runs(const Job&, const DensePlan&, const RunsTarget&, int first_file,
                 const Draft&) const override;
  std::unique_ptr<RunsFile> open_runs(const Job&, const DensePlan&, const RunsTarget&,
                                      int first_file, DeferredError&) const override;
  void check_runs(const Job&, const RunsTarget&, const std::vector<StoredTensor>&) const override;
};

}  // namespace cairn
