#pragma once
/// The file .metadata of a checkpoint of torch.distributed.checkpoint (DCP): a pickle that says
/// which tensors there are, of which pieces, and where in which file each piece lies.
///
/// Facts: torch/distributed/checkpoint/metadata.py and filesystem.py.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "foreign/torch/saved_tensor.hpp"

namespace cairn::torch {

/// Bytes of a file in the checkpoint's directory: an archive of torch.save.
struct StoredArchive {
  std::string file;
  std::int64_t offset = 0, size = 0;
};

struct DcpPiece {
  Box box;
  StoredArchive archive;
};
struct DcpTensor {
  std::string key;
  StoredDType type;
  Dims shape;
  std::vector<DcpPiece> pieces;
};
/// What is no tensor: torch.save's pickle of it.
struct DcpObject {
  std::string key;
  StoredArchive archive;
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;
  std::vector<DcpObject> objects;
  /// JSON, {KEY: [names of the dicts that it was in]}: from it DCP makes nested dicts again.
  /// Empty: it says nothing.
  std::string paths;
};

inline constexpr std::int64_t longest_metadata = std::int64_t{256} << 20;

/// Runs none of it. Throws data_loss for pieces outside their tensor, that are nowhere, or keys
/// that are there twice; unsupported for a pickle of anything else, dtypes that no checkpoint has,
/// and files that DCP compressed. Whether the pieces cover their tensors is not asked. Memory: some
/// hundred bytes for each byte.
DcpMetadata parse_dcp_metadata(std::string_view bytes);

}  // namespace cairn::torch
