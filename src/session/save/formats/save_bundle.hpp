#pragma once
/// TensorFlow's bundles: slices in data files, and an index beside them.
#include "session/save/formats/save_format.hpp"

namespace cairn {

class BundleSave final : public SaveFormat {
 public:
  Format id() const override { return Format::bundle; }
  void validate(Job&) const override;
  std::string limits_policy(const Job&) const override;
  bool stores_dense(const CoveredTensor&, std::size_t slices) const override;
  void choose_files(const Sharding&, const RefreshedState&,
                    std::vector<DenseTensor>&) const override;
  void lay_out(const Job&, const RefreshedState&, Covered&&, SavePlan&) const override;
  Begun begin(const Job&, const RefreshedState&, Draft&, CheckpointMeta&, SavePlan&,
              FileLayout&) const override;
  JoinedEntries merge(Group&, EntryList, const SavePlan&, SaveStatistics&) const override;
};

}  // namespace cairn
