#pragma once
/// One HDF5 file, in which each tensor is a dataset. Rank 0 lays it out; all numeric tensors are
/// dense ones in it.
#include "session/save/formats/save_format.hpp"

namespace cairn {

class Hdf5Save final : public SaveFormat {
 public:
  Format id() const override { return Format::hdf5; }
  void validate(Job&) const override;
  std::string limits_policy(const Job&) const override;
  bool stores_dense(const CoveredTensor&, std::size_t) const override { return true; }
  void choose_files(const Sharding&, const RefreshedState&,
                    std::vector<DenseTensor>&) const override;
  void lay_out(const Job&, const RefreshedState&, Covered&&, SavePlan&) const override;
  Begun begin(const Job&, const RefreshedState&, Draft&, CheckpointMeta&, SavePlan&,
              FileLayout&) const override;
  JoinedEntries merge(Group&, EntryList, const SavePlan&, SaveStatistics&) const override;
};

}  // namespace cairn
