#include "store/contents/data_file.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

template <class Use>
void read(const io::File& file, std::int64_t begin, std::int64_t end, Use use) {
  std::string bytes;
  for (auto at = begin; at < end; at += piece_bytes) {
    bytes.resize(static_cast<std::size_t>(std::min(piece_bytes, end - at)));
    file.read_at(at, std::as_writable_bytes(std::span(bytes)));
    use(std::string_view(bytes));
  }
}

// Whether the piece is in the file and has the bytes that its checksum says.
bool holds(const io::File& file, const FileExtent& piece, bool big_endian) {
  if (piece.dtype == DType::variant) return false;  // a variant cannot be checked
  if (piece.offset > file.size() || piece.size > file.size() - piece.offset) return false;
  if (piece.dtype == DType::string) {
    std::string bytes(static_cast<std::size_t>(piece.size), '\0');
    if (!bytes.empty()) file.read_at(piece.offset, std::as_writable_bytes(std::span(bytes)));
    bundle::decode_strings(bytes, piece.count, piece.crc32c, big_endian);
    return true;
  }
  std::uint32_t crc = 0;
  read(file, piece.offset, piece.end(), [&](std::string_view bytes) { crc = crc32c(bytes, crc); });
  return crc == piece.crc32c;
}

// Runs a check on a file. The file is not sound if it is missing, too short, or not a regular file.
template <class Look>
bool look(io::FileSystem& files, const io::Path& path, Look look) try {
  return look(*files.open_read(path));
} catch (const Error& error) {
  if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
  return false;
}

}  // namespace

std::string save_id(std::string_view uuid) {
  if (!commit::is_uuid(uuid)) return "";
  const auto numbers = commit::parse_uuid(uuid);
  std::string bytes;
  for (const auto number : {numbers.high, numbers.low}) {
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

std::string uuid_of(std::string_view save_id) {
  commit::Uuid uuid;
  auto* half = &uuid.high;
  for (std::size_t i = 0; i < save_id.size(); ++i) {
    if (i == sizeof uuid.high) half = &uuid.low;
    *half |= std::uint64_t{static_cast<unsigned char>(save_id[i])} << i % sizeof uuid.high * 8;
  }
  return commit::uuid_text(uuid);
}

std::string save_id(const CheckpointContents& contents) {
  return contents.meta ? save_id(contents.meta->uuid) : "";
}

bool FileExtent::operator==(const FileExtent& other) const {
  return std::tie(offset, size, crc32c, dtype, key, shape, box.start, box.extent) ==
         std::tie(other.offset, other.size, other.crc32c, other.dtype, other.key, other.shape,
                  other.box.start, other.box.extent);
}

FileExtents extents_of(const CheckpointContents& contents) {
  FileExtents all;
  for (const auto* tensors : {&contents.tensors, &contents.own}) {
    for (const auto& tensor : *tensors) {
      for (const auto& slice : tensor.slices) {
        all[slice.file].push_back({slice.offset, slice.stored_bytes, slice.crc32c, tensor.dtype,
                                   slice.box.count(), tensor.key, tensor.shape, slice.box});
      }
    }
  }
  for (auto& [file, pieces] : all) {
    std::sort(pieces.begin(), pieces.end(), [](const FileExtent& a, const FileExtent& b) {
      return std::tie(a.offset, a.size, a.key) < std::tie(b.offset, b.size, b.key);
    });
  }
  return all;
}

bool has_metadata(const std::vector<FileExtent>& pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const auto& piece) { return piece.key == bundle::meta_key; });
}

bool is_sound(io::FileSystem& files, const io::Path& path, const std::vector<FileExtent>& pieces,
              const CheckpointContents& contents, std::string_view tail) {
  std::int64_t end = 0;
  for (const auto& piece : pieces) end = std::max(end, piece.end());
  return look(files, path, [&](const io::File& file) {
    const auto id = save_id(contents);
    const auto rest = file.size() - end;
    if (tail.empty() && rest > 0) tail = id;
    if (rest != std::ssize(tail)) return false;
    std::int64_t at = 0;
    for (const auto& piece : pieces) {
      bool zero = true;
      read(file, at, piece.offset, [&](std::string_view bytes) {
        zero = zero && bytes.find_first_not_of('\0') == bytes.npos;
      });
      if (!zero || !holds(file, piece, contents.big_endian)) return false;
      at = std::max(at, piece.end());
    }
    bool same = true;
    read(file, end, file.size(), [&](std::string_view bytes) {
      same = same && tail.starts_with(bytes);
      tail.remove_prefix(std::min(tail.size(), bytes.size()));
    });
    return same;
  });
}

std::string found_save_id(io::FileSystem& files, const CheckpointContents& contents) {
  if (contents.meta) return save_id(contents);
  std::set<std::string> ids;
  for (const auto& [number, pieces] : extents_of(contents)) {
    if (has_metadata(pieces)) continue;
    std::int64_t end = 0;
    for (const auto& piece : pieces) end = std::max(end, piece.end());
    look(files, data_path(contents, number), [&](const io::File& file) {
      const auto rest = file.size() - end;
      std::string id(rest == save_id_bytes ? static_cast<std::size_t>(rest) : 0, '\0');
      if (!id.empty()) file.read_at(end, std::as_writable_bytes(std::span(id)));
      if (!id.empty() || rest == 0) ids.insert(std::move(id));
      return true;
    });
  }
  return ids.size() == 1 ? *ids.begin() : "";
}

bool begins_with(io::FileSystem& files, const io::Path& path,
                 const std::vector<FileExtent>& pieces) {
  return look(files, path, [&](const io::File& file) {
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const auto& piece) { return holds(file, piece, false); });
  });
}

void write_over(const io::File& from, std::int64_t bytes, io::File& to) {
  std::int64_t at = 0;
  std::string there;
  read(from, 0, bytes, [&](std::string_view piece) {
    const auto size = static_cast<std::int64_t>(piece.size());
    there.resize(piece.size());
    const bool known = at + size <= to.size();
    if (known) to.read_at(at, std::as_writable_bytes(std::span(there)));
    if (!known || there != piece) to.write_at(at, std::as_bytes(std::span(piece)));
    at += size;
  });
  if (to.size() != at) to.resize(at);
}

}  // namespace cairn
