#pragma once
/// With io ranks: shards travel in bounded rounds to the io rank that serves their rank, which
/// writes the files. Sender and receiver both checksum each byte. Runs of dense tensors are on io
/// ranks already. In an asynchronous save it is the copies that travel (session/save/capture.hpp).
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
