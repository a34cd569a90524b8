#pragma once
/// Each rank writes its own data files, and its own runs into the files of dense tensors.
#include "session/save/writers/writer.hpp"

namespace cairn {

class OwnFiles : public DataWriter {
 public:
  bool serves(const Job&) const override;
  std::string name() const override { return "Writer::posix"; }
  std::string why_blocking() const override { return ""; }
  std::string description(const ManagerOptions&) const override { return "posix"; }
  std::vector<StoredTensor> write_alone(const Job&, const RefreshedState&, const LocalShards&,
                                        const FileLayout&, const Draft&) const override;
  void make_runs(const Job&, const DensePlan&, const RunsTarget&, int first_file,
                 const Draft&) const override;
  std::unique_ptr<RunsFile> open_runs(const Job&, const DensePlan&, const RunsTarget&,
                                      int first_file, DeferredError&) const override;
};

}  // namespace cairn
