#include "store/contents/spare.hpp"

#include <algorithm>

#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/bundle/table.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/index_end.hpp"
#include "store/contents/whose.hpp"

namespace cairn {
namespace {

constexpr std::int64_t longest_meta_bytes = std::int64_t{16} << 20;
constexpr std::int64_t longest_copy_bytes = std::int64_t{4} << 30;

std::string read_range(const io::File& file, std::int64_t at, std::int64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read_at(at, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Where the index at the end of the file begins. Nothing if the file does not end with one.
std::optional<std::int64_t> find_index(const io::File& file, std::int64_t size) {
  constexpr auto footer = static_cast<std::int64_t>(bundle::footer_bytes);
  if (size < footer || size > longest_copy_bytes) return std::nullopt;
  const auto bytes = bundle::table_bytes(read_range(file, size - footer, footer));
  if (!bytes || *bytes >= static_cast<std::uint64_t>(size)) return std::nullopt;
  return size - static_cast<std::int64_t>(*bytes);
}

// Reads a data file that ends in metadata and an index that lists them. If retention rules have
// removed tensors since, earlier metadata precede these.
std::optional<Spare> try_meta_file(const io::File& file, const io::Path& path, std::int64_t number,
                                   std::int64_t count) {
  const auto size = file.size();
  const auto end = find_index(file, size);
  if (!end) return std::nullopt;
  try {
    Spare spare;
    spare.file = path.filename().string();
    require_index_end(file, *end, size - *end);
    spare.index = read_range(file, *end, size - *end);
    auto index = bundle::parse_index(spare.index);
    spare.num_files = index.num_files;
    if (index.num_files != count) return std::nullopt;
    const auto entry = bundle::take_meta_entry(index);
    if (!entry || entry->slices.size() != 1) return std::nullopt;
    const auto& slice = entry->slices.front();
    if (slice.file != number || slice.stored_bytes > longest_meta_bytes) return std::nullopt;
    // The metadata end where the index begins, as seal_index() writes them.
    if (slice.offset + slice.stored_bytes != *end) return std::nullopt;
    const auto text = read_range(file, slice.offset, slice.stored_bytes);
    spare.meta = bundle::decode_meta(bundle::decode_strings(text, 1, slice.crc32c).front());
    return spare;
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    return std::nullopt;
  }
}

std::optional<CheckpointMeta> try_hdf5_file(const io::File& file) {
  const auto size = file.size();
  const auto place = hdf5::find_meta_place(read_range(file, 0, std::min(size, hdf5::marker_reach)));
  if (!place || place->bytes > longest_meta_bytes || place->offset > size - place->bytes) {
    return std::nullopt;
  }
  try {
    const auto text = read_range(file, place->offset, place->bytes);
    return bundle::decode_meta(bundle::decode_strings(text, 1, place->crc32c).front());
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    return std::nullopt;
  }
}

std::optional<Spare> try_meta_file(io::FileSystem& files, const io::Path& path, std::int64_t number,
                                   std::int64_t count) {
  std::optional<Spare> spare;
  io::with_open(files, path,
                [&](io::File& file) { spare = try_meta_file(file, path, number, count); });
  return spare;
}

std::optional<CheckpointMeta> try_hdf5_file(io::FileSystem& files, const io::Path& path) {
  std::optional<CheckpointMeta> meta;
  io::with_open(files, path, [&](io::File& file) { meta = try_hdf5_file(file); });
  return meta;
}

}  // namespace

std::vector<Spare> find_spares(const Address& prefix) {
  return find_spares(*prefix.files(), prefix.directory().path(), {prefix.name(), false}, 0);
}

std::vector<Spare> find_spares(io::FileSystem& files, const io::Path& directory,
                               const commit::Naming& name, std::int64_t step) {
  std::vector<Spare> found;
  for (const auto& entry : files.list(directory)) {
    const auto parsed = commit::parse_name(entry, name);
    if (parsed.step != step || parsed.kind != commit::ParsedName::Kind::data) continue;
    auto spare = try_meta_file(files, directory / entry, parsed.number, parsed.count);
    if (spare) found.push_back(*std::move(spare));
  }
  return found;
}

std::optional<Spare> find_own_spare(io::FileSystem& files, const io::Path& prefix, int file,
                                    int num_files) {
  try {
    auto spare = try_meta_file(files, commit::data_path(prefix, file, num_files), file, num_files);
    if (spare && whose({files, prefix}, spare->meta) != Whose::its_own) spare.reset();
    return spare;
  } catch (const Error& error) {
    if (error.code() != Code::not_found && error.code() != Code::data_loss) throw;
    return std::nullopt;
  }
}

std::vector<CheckpointMeta> find_metas_without_index(io::FileSystem& files,
                                                     const io::Path& directory,
                                                     const commit::Naming& name,
                                                     std::int64_t step) {
  std::vector<CheckpointMeta> found;
  for (auto& spare : find_spares(files, directory, name, step)) {
    if (spare.meta.step == step) found.push_back(std::move(spare.meta));
  }
  const auto hdf5 = directory / commit::hdf5_name(commit::prefix_name(name, step));
  if (files.status(hdf5)) {
    auto meta = try_hdf5_file(files, hdf5);
    if (meta && meta->step == step) found.push_back(*std::move(meta));
  }
  return found;
}

std::optional<CheckpointMeta> find_meta_without_index(io::FileSystem& files,
                                                      const io::Path& directory,
                                                      const commit::Naming& name,
                                                      std::int64_t step) {
  auto found = find_metas_without_index(files, directory, name, step);
  if (found.size() != 1) return std::nullopt;
  return std::move(found.front());
}

}  // namespace cairn
