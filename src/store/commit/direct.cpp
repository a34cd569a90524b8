// Direct saves, which rely on no rename. protocol.cpp describes their steps.
#include "store/commit/direct.hpp"

#include "base/checksum.hpp"
#include "cairn/error.hpp"

namespace cairn::commit {
namespace {

// Far above any real index.
constexpr std::int64_t index_limit_bytes = std::int64_t{4} << 30;

// The format of old-index: '1' and the bytes of the index, or '0' if there was no index; then the
// checksum of these, low byte first.
std::string encode(const OldIndex& old) {
  std::string text = old.bytes ? "1" + *old.bytes : "0";
  const auto crc = crc32c(text);
  for (const int shift : {0, 8, 16, 24}) text += static_cast<char>(crc >> shift & 255);
  return text;
}

std::optional<OldIndex> decode(std::string text) {
  constexpr std::size_t crc_bytes = 4;
  if (text.size() < 1 + crc_bytes) return std::nullopt;
  std::uint32_t stored = 0;
  for (std::size_t i = 0; i < crc_bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[text.size() - crc_bytes + i]);
    stored |= std::uint32_t{byte} << 8 * i;
  }
  text.resize(text.size() - crc_bytes);
  if (crc32c(text) != stored) return std::nullopt;
  OldIndex old;
  if (text.front() == '1') old.bytes = text.substr(1);
  return old;
}

// The old bytes are removed first, durably. So this is not for an index to which something is only
// appended.
void replace_index(io::FileSystem& fs, const Transaction& save, const io::Content* bytes) {
  if (io::exists(fs, save.index())) {
    fs.remove(save.index());
    fs.sync_directory(save.directory);
  }
  if (bytes) io::write_content(fs, save.index(), *bytes);
}

}  // namespace

void remove_stale(io::FileSystem& fs, const Transaction& save) {
  bool synced = false;
  for (const auto& file : fs.list(save.directory)) {
    const auto parsed = parse_name(file, save.name);
    if (parsed.kind != ParsedName::Kind::temp_directory || !parsed.direct ||
        parsed.step != save.step) {
      continue;
    }
    // An index for which this old-index may still be needed becomes durable first.
    if (!synced) fs.sync_directory(save.directory);
    synced = true;
    remove_temp(fs, save.directory / file);
  }
}

std::optional<OldIndex> read_old_index(io::FileSystem& fs, const Transaction& save) {
  if (!io::exists(fs, save.old_index())) return std::nullopt;
  return decode(io::read_file(fs, save.old_index(), index_limit_bytes));
}

void publish_direct(io::FileSystem& fs, const Transaction& save, const io::Content& index,
                    const std::vector<OwnFile>& own_files) {
  for (const auto& own : own_files) {
    io::remove_if_there(fs, save.data(own.file));  // left by an attempt that died here
    io::write_content(fs, save.data(own.file), own.bytes);
  }
  // A whole old-index of an attempt that died is older than the present index, which that attempt
  // may have torn. So it is kept.
  if (!read_old_index(fs, save)) {
    OldIndex old;
    if (io::exists(fs, save.index())) {
      old.bytes = io::read_file(fs, save.index(), index_limit_bytes);
    }
    io::remove_if_there(fs, save.old_index());
    io::write_file(fs, save.old_index(), encode(old));
  }
  fs.sync_directory(save.temp());
  fs.sync_directory(save.directory);
  replace_index(fs, save, &index);
  sync_commit(fs, save);
}

void put_back(io::FileSystem& fs, const Transaction& save) {
  const auto old = read_old_index(fs, save);
  if (!old) return;
  const auto now = io::exists(fs, save.index())
                       ? std::optional(io::read_file(fs, save.index(), index_limit_bytes))
                       : std::nullopt;
  if (now == old->bytes) {
    // It is back, or was never replaced. An earlier attempt may have died before its sync.
    if (now) fs.open_read(save.index())->sync();
  } else {
    std::optional<io::Content> back;
    if (old->bytes) back.emplace(*old->bytes);
    replace_index(fs, save, back ? &*back : nullptr);
  }
  fs.sync_directory(save.directory);
}

void finish_direct(io::FileSystem& fs, const Transaction& save) {
  for (const auto& file : fs.list(save.temp())) {
    if (parse_temp_name(file).kind == ParsedName::Kind::record) {
      fs.open_read(save.temp() / file)->sync();
    }
  }
  if (io::exists(fs, save.index())) fs.open_read(save.index())->sync();
  fs.sync_directory(save.temp());
}

}  // namespace cairn::commit
