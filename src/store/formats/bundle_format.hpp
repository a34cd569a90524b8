#pragma once
#include "store/contents/format.hpp"

namespace cairn {

/// TensorFlow's bundles. CheckpointFormat says what the functions are for.
class BundleFormat final : public CheckpointFormat {
 public:
  Format id() const override { return Format::bundle; }
  commit::ParsedName::Kind main_kind() const override { return commit::ParsedName::Kind::index; }
  io::Path main_file(const io::Path& prefix) const override;
  io::Path data_file(const io::Path& prefix, int file, int num_files) const override;
  bool recognises(io::FileSystem&, const io::Path& main_file) const override;
  IndexFile read_index(io::FileSystem&, const io::Path& prefix) const override;
  bool is_ours(const CheckpointContents*) const override;
  std::string dataset_of(const std::string&) const override { return ""; }
  bool may_be_one(io::FileSystem&, const io::Path&) const override { return true; }
  std::optional<Claim> claim(io::FileSystem&, const io::Path& prefix) const override;
  std::optional<bool> gives_way(io::FileSystem&, const io::Path&) const override { return true; }
  bool began(io::FileSystem&, const commit::Transaction&) const override;
  std::string refuses(int data_files, int num_files) const override;
  void shape(commit::Transaction&, int data_files) const override;
  std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                    const CheckpointMeta&, int data_files, JoinedEntries,
                                    const std::function<void()>& sealed,
                                    const commit::IsCommitted&) const override;
};

}  // namespace cairn
