#include "support/bundle_files.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/stored_strings.hpp"

namespace cairn::test {
namespace fs = std::filesystem;

namespace {

// One string for each element: the bytes of a number, or a u64 length and a string.
std::vector<std::string> elements(const CheckpointContents& contents, const StoredTensor& tensor,
                                  const Piece& slice) {
  if (!tensor.problem.empty()) throw Error(Code::data_loss, tensor.problem);
  const auto file = read_file(data_file(contents.prefix, slice.file, contents.num_files));
  auto bytes = file.substr(static_cast<std::size_t>(slice.offset),
                           static_cast<std::size_t>(slice.stored_bytes));
  std::vector<std::string> out;
  if (tensor.dtype == DType::string) {
    out = bundle::decode_strings(bytes, slice.box.count(), slice.crc32c, contents.big_endian);
    for (auto& value : out) {
      std::string length;
      for (int i = 0; i < 8; ++i) length += static_cast<char>(value.size() >> 8 * i);
      value.insert(0, length);
    }
    return out;
  }
  if (tensor.dtype == DType::variant) throw Error(Code::unsupported, "a variant is opaque");
  if (crc32c(bytes) != slice.crc32c) throw Error(Code::data_loss, "checksum mismatch of data");
  const auto size = dtype_size(tensor.dtype);
  if (contents.big_endian) {
    bundle::swap_bytes(std::as_writable_bytes(std::span(bytes)), dtype_swap_unit(tensor.dtype));
  }
  for (std::size_t at = 0; at < bytes.size(); at += size) out.push_back(bytes.substr(at, size));
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const auto& part : parts) all += part;
  return all;
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::io, "cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw Error(Code::io, "cannot write " + path.string());
}

fs::path data_file(const fs::path& prefix, int file, int num_files) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, ".data-%05d-of-%05d", file, num_files);
  return prefix.string() + suffix;
}

CheckpointContents open_bundle(const fs::path& prefix) {
  auto contents = bundle::parse_index(read_file(prefix.string() + ".index"));
  contents.prefix = prefix.string();
  bundle::check_files(contents, [&](std::int32_t file) -> std::optional<std::int64_t> {
    const auto path = data_file(prefix, file, contents.num_files);
    if (!fs::exists(path)) return std::nullopt;
    return static_cast<std::int64_t>(fs::file_size(path));
  });
  return contents;
}

std::string read_slice(const CheckpointContents& contents, const StoredTensor& tensor,
                       const Piece& slice) {
  return joined(elements(contents, tensor, slice));
}

std::string read_tensor(const CheckpointContents& contents, const StoredTensor& tensor) {
  if (!tensor.problem.empty()) throw Error(Code::data_loss, tensor.problem);
  std::vector<std::string> all(static_cast<std::size_t>(element_count(tensor.shape)));
  const auto strides = row_major_strides(tensor.shape);
  std::size_t covered = 0;
  for (const auto& slice : tensor.slices) {
    auto values = elements(contents, tensor, slice);
    covered += values.size();
    Dims at = slice.box.start;
    for (auto& value : values) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < at.size(); ++d) position += at[d] * strides[d];
      all[static_cast<std::size_t>(position)] = std::move(value);
      for (auto d = at.size(); d-- > 0;) {
        if (++at[d] < slice.box.end(d)) break;
        at[d] = slice.box.start[d];
      }
    }
  }
  if (covered != all.size()) {
    throw Error(Code::coverage, cat("slices hold ", covered, " of ", all.size(), " elements"));
  }
  return joined(all);
}

std::string dump(const CheckpointContents& contents) {
  std::string text = cat(contents.num_files, contents.big_endian ? " big" : " little", '\n');
  for (const auto& tensor : contents.tensors) {
    text +=
        cat(to_hex(tensor.key), ' ', static_cast<int>(tensor.dtype), ' ', shape_text(tensor.shape),
            tensor.sliced ? " sliced " : " plain ", tensor.problem, '\n');
    for (const auto& s : tensor.slices) {
      text += cat("  ", to_string(SliceSpec{tensor.shape, s.box, s.dash, false}), ' ', s.file, ' ',
                  s.offset, ' ', s.stored_bytes, ' ', s.raw_bytes, ' ', static_cast<int>(s.codec),
                  ' ', s.crc32c, '\n');
    }
  }
  return text;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string from_hex(std::string_view hex) {
  std::string digits, bytes;
  for (const char c : hex) {
    if (c != ' ' && c != '\n') digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace cairn::test
