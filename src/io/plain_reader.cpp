#include <algorithm>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "io/file_system.hpp"
#include "io/reader.hpp"

namespace cairn::io {
namespace {

// Less than `cached_bytes`, since the kernel's copy takes room in the cache, too.
constexpr std::int64_t checked_bytes = std::int64_t{1} << 17;
constexpr std::int64_t line_bytes = 64;
// Fewer bytes are read where they are to be, wherever that is: a copy of them gains nothing.
constexpr std::int64_t copied_from = std::int64_t{16} << 10;

bool lies_like_the_file(const std::byte* to, std::int64_t offset) {
  return (reinterpret_cast<std::intptr_t>(to) - offset) % line_bytes == 0;
}

// Has one file open at a time: extents of one file in a row open it once.
class PlainReader : public Reader {
 public:
  PlainReader(FileSystem& disk, std::vector<Path> files, std::vector<Extent> extents)
      : disk_(disk), files_(std::move(files)), extents_(std::move(extents)) {}

  std::uint32_t next() override {
    // Counts first: after an error the next call goes on with the following extent.
    const auto& extent = extents_[turn_++];
    if (!file_ || number_ != extent.file) {
      file_.reset();
      file_ = disk_.open_read(files_[static_cast<std::size_t>(extent.file)]);
      number_ = extent.file;
    }
    return read_(*file_, extent.offset, extent.bytes, extent.to, 0);
  }

 private:
  FileSystem& disk_;
  const std::vector<Path> files_;
  const std::vector<Extent> extents_;
  std::size_t turn_ = 0;
  std::unique_ptr<File> file_;
  int number_ = -1;
  CheckedRead read_;
};

}  // namespace

std::uint32_t CheckedRead::operator()(const File& file, std::int64_t offset, std::int64_t bytes,
                                      std::byte* to, std::uint32_t previous) {
  const bool straight = to && (bytes < copied_from || lies_like_the_file(to, offset));
  auto* own = straight ? nullptr : scratch(offset);
  auto crc = previous;
  for (std::int64_t at = 0; at < bytes; at += checked_bytes) {
    const auto size = static_cast<std::size_t>(std::min(checked_bytes, bytes - at));
    const std::span piece(straight ? to + at : own, size);
    file.read_at(offset + at, piece);
    crc = crc32c(piece, crc);
    if (to && !straight) copy_past_caches(to + at, own, size);
  }
  return crc;
}

// Memory for a piece that begins at this offset, which lies like the file. Not initialised, so that
// what is never used is never touched.
std::byte* CheckedRead::scratch(std::int64_t offset) {
  constexpr auto size = static_cast<std::size_t>(checked_bytes + 2 * line_bytes);
  if (!scratch_) scratch_ = std::make_unique_for_overwrite<std::byte[]>(size);
  const auto begin = reinterpret_cast<std::intptr_t>(scratch_.get());
  return scratch_.get() + (line_bytes - begin % line_bytes) + offset % line_bytes;
}

std::unique_ptr<Reader> plain_reader(FileSystem& disk, std::vector<Path> files,
                                     std::vector<Extent> extents) {
  return std::make_unique<PlainReader>(disk, std::move(files), std::move(extents));
}

std::unique_ptr<Reader> FileSystem::read_ahead(std::vector<Path> files, std::vector<Extent> extents,
                                               DirectIo) {
  return plain_reader(*this, std::move(files), std::move(extents));
}

}  // namespace cairn::io
