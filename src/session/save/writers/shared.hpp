#pragma once
/// Ranks write into files that they share, with MPI-IO. Each rank has one range of the file, in
/// rank order, which begins at a page boundary. All ranks of a file write in bounded rounds, sync
/// before any of them returns, and read back if that is required. There are as many rounds as the
/// rank with most frames needs; a rank that has failed or finished takes part without data. No rank
/// leaves a record before all have synced, since one rank's sync may have to write another rank's
/// bytes.
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
