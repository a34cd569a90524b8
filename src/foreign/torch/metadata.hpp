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
/// A value that is no tensor: torch.save's pickle of it.
struct DcpObject {
  std::string key;
  StoredArchive archive;
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;
  std::vector<DcpObject> objects;
  /// JSON, {KEY: [names of the dicts that it was in]}, from which DCP makes nested dicts again.
  /// Empty if the file has no such paths.
  std::string paths;
};

inline constexpr std::int64_t longest_metadata = std::int64_t{256} << 20;

/// Parses the file without running any of it. Throws data_loss for pieces that lie outside their
/// tensor or in no file, and for keys that occur twice; unsupported for a pickle of anything else,
/// dtypes that no checkpoint has, and files that DCP compressed. Does not check that the pieces
/// cover their tensors. Takes some hundred bytes of memory for each byte of the file.
DcpMetadata parse_dcp_metadata(std::string_view bytes);

}  // namespace cairn::torch
