#pragma once
#include "store/contents/format.hpp"

namespace cairn {

class Hdf5Format final : public CheckpointFormat {
 public:
  Format id() const override { return Format::hdf5; }
  commit::ParsedName::Kind main_kind() const override { return commit::ParsedName::Kind::hdf5; }
  io::Path main_file(const io::Path& prefix) const override;
  io::Path data_file(const io::Path& prefix, int file, int num_files) const override;
  bool recognises(io::FileSystem&, const io::Path& main_file) const override;
  IndexFile read_index(io::FileSystem&, const io::Path& prefix) const override;
  void check(const CheckpointContents&) const override;
  bool is_cairns() const override { return true; }
  bool has_datasets() const override { return true; }
  bool needs_notes() const override { return true; }
  int named_data_files(int) const override { return 0; }
  std::int64_t seal_bytes() const override;
  std::optional<io::Path> foreign(io::FileSystem&, const io::Path& prefix) const override;
  bool has_others(io::FileSystem&, const io::Path&) const override { return true; }
  bool relies_on_renames() const override { return true; }
  bool is_laid_out_each_time() const override { return true; }
  bool began(io::FileSystem&, const commit::Transaction&) const override;
  std::string refuses(int data_files, int num_files) const override;
  void shape(commit::Transaction&, int data_files) const override;
  std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                    const CheckpointMeta&, int data_files, JoinedEntries,
                                    const std::function<void()>& sealed,
                                    const commit::IsCommitted&) const override;
  void take_over(io::FileSystem&, const commit::Transaction&, bool alone) const override;
};

}  // namespace cairn
