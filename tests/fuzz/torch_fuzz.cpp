// Any bytes as torch's files: .metadata of DCP, the pickle of a tensor or a value, and an archive.
#include <algorithm>

#include "foreign/torch/archive.hpp"
#include "foreign/torch/metadata.hpp"
#include "foreign/torch/saved_tensor.hpp"
#include "fuzz/hostile.hpp"

using namespace cairn;

namespace {

void metadata(std::string_view text) {
  torch::DcpMetadata found;
  const auto parse = [&] { found = torch::parse_dcp_metadata(text); };
  if (!fuzz::only(parse, Code::data_loss, Code::unsupported)) return;
  for (const auto& tensor : found.tensors) {
    for (const auto& piece : tensor.pieces) {
      if (!Box::whole(tensor.shape).contains(piece.box)) fuzz::wrong("a piece outside its tensor");
      if (piece.archive.file.find('/') != std::string::npos || piece.archive.offset < 0 ||
          piece.archive.size < 0) {
        fuzz::wrong("a place that is none");
      }
    }
  }
}

void tensor(std::string_view text) {
  torch::SavedTensor found;
  const auto parse = [&] { found = torch::parse_saved_tensor(text); };
  if (!fuzz::only(parse, Code::data_loss, Code::unsupported)) return;
  if (found.first < 0 || found.last < found.first - 1) fuzz::wrong("elements before the storage");
}

void archive(std::string_view text) {
  const auto size = static_cast<std::int64_t>(text.size());
  const auto tail = std::min<std::size_t>(text.size(), torch::archive_tail_bytes);
  const auto read = [&] {
    const auto place = torch::find_directory(text.substr(text.size() - tail), size);
    if (place.offset < 0 || place.size > size - place.offset) fuzz::wrong("a directory outside");
    const auto inside =
        text.substr(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
    for (const auto& member : torch::parse_directory(inside, place)) {
      const auto begin = torch::member_bytes(
          text.substr(static_cast<std::size_t>(member.header), torch::member_header_bytes), member,
          place);
      if (begin < 0 || member.size < 0 || begin + member.size > size) {
        fuzz::wrong("a member outside its archive");
      }
    }
  };
  fuzz::only(read, Code::data_loss, Code::unsupported);
}

}  // namespace

CAIRN_FUZZ_TARGET(torch) {
  metadata(text);
  tensor(text);
  fuzz::only_data_loss([&] { torch::parse_saved_value(text); });
  archive(text);
}
