#pragma once
/// With io ranks: shards travel to the rank that serves theirs in bounded rounds, each byte is
/// checksummed on both sides, and io ranks write the files. Runs of dense tensors have come to io
/// ranks already. Of an asynchronous save the copies travel (session/save/capture.hpp).
#include "session/save/writers/own_files.hpp"

namespace cairn {

class ForwardedFiles final : public OwnFiles {
 public:
  bool serves(const Job&) const override;
  bool one_file(const Job&, const Sharding&) const override;
  Files number(const Job&, const std::vector<int>& shards, bool one_file) const override;
  std::vector<StoredTensor> write_with_others(const Job&, const RefreshedState&, const LocalShards&,
                                              const FileLayout&, const Draft&) const override;
  std::vector<StoredTensor> write_alone(const Job&, const RefreshedState&, const LocalShards&,
                                        const FileLayout&, const Draft&) const override {
    return {};
  }
};

}  // namespace cairn
