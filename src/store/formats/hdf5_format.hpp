#pragma once
#include "store/contents/format.hpp"

namespace cairn {

/// One HDF5 file. CheckpointFormat says what the functions are for.
class Hdf5Format final : public CheckpointFormat {
 public:
  Format id() const override { return Format::hdf5; }
  commit::ParsedName::Kind main_kind() const override { return commit::ParsedName::Kind::hdf5; }
  io::Path main_file(const io::Path& prefix) const override;
  io::Path data_file(const io::Path& prefix, int file, int num_files) const override;
  bool recognises(io::FileSystem&, const io::Path& main_file) const override;
  IndexFile read_index(io::FileSystem&, const io::Path& prefix) const override;
  bool is_ours(const CheckpointContents*) const override { return true; }
  std::string dataset_of(const std::string& key) const override { return "/" + key; }
  bool may_be_one(io::FileSystem&, const io::Path& main_file) const override;
  std::optional<Claim> claim(io::FileSystem&, const io::Path& prefix) const override;
  std::optional<bool> gives_way(io::FileSystem&, const io::Path& prefix) const override;
  bool began(io::FileSystem&, const commit::Transaction&) const override;
  std::string refuses(int data_files, int num_files) const override;
  void shape(commit::Transaction&, int data_files) const override;
  std::optional<io::FileId> publish(io::FileSystem&, const commit::Transaction&,
                                    const CheckpointMeta&, int data_files, JoinedEntries,
                                    const std::function<void()>& sealed,
                                    const commit::IsCommitted&) const override;
};

}  // namespace cairn
