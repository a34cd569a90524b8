// Any bytes as a safetensors file, and as the index of several.
#include "foreign/safetensors/header.hpp"
#include "fuzz/hostile.hpp"

using namespace cairn;

CAIRN_FUZZ_TARGET(safetensors) {
  const auto read = [&](std::string_view header, std::int64_t bytes) {
    safetensors::Header found;
    const auto parse = [&] { found = safetensors::parse_header(header, bytes); };
    if (!fuzz::only(parse, Code::data_loss, Code::unsupported)) return;
    std::int64_t end = 0;
    for (const auto& tensor : found.tensors) {
      if (tensor.offset != end || tensor.size < 0) fuzz::wrong("a gap or an overlap");
      end += tensor.size;
    }
    if (end != bytes || found.data_size() != end) fuzz::wrong("bytes missing or left over");
    const auto again = safetensors::encode_header(found);
    safetensors::parse_header(std::string_view(again).substr(safetensors::length_bytes), bytes);
  };
  const auto file_size = static_cast<std::int64_t>(text.size());
  if (text.size() >= safetensors::length_bytes) {
    fuzz::only_data_loss([&] {
      const auto length = safetensors::header_length(text.substr(0, 8), file_size);
      if (length < 0 || length > file_size - safetensors::length_bytes) {
        fuzz::wrong("a header longer than its file");
      }
      read(text.substr(8, static_cast<std::size_t>(length)), file_size - 8 - length);
    });
  }
  for (const std::int64_t bytes : {0, 4, 64}) read(text, bytes);
  safetensors::WeightMap map;
  if (fuzz::only_data_loss([&] { map = safetensors::parse_index(text); })) {
    for (const auto& [key, file] : map) {
      if (file.find('/') != file.npos || file == ".." || file == ".")
        fuzz::wrong("a path out of the folder");
    }
    if (safetensors::parse_index(safetensors::encode_index(map, 0)) != map) {
      fuzz::wrong("an index is not what it was");
    }
  }
}
