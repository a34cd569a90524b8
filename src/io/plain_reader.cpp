#include <algorithm>

#include "base/checksum.hpp"
#include "io/file_system.hpp"
#include "io/reader.hpp"

namespace cairn::io {
namespace {

// Less than `cached_bytes`, since the kernel's copy takes room in the cache, too.
constexpr std::int64_t checked_bytes = std::int64_t{1} << 17;

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
  if (!to) scratch_.resize(static_cast<std::size_t>(checked_bytes));
  auto crc = previous;
  for (std::int64_t at = 0; at < bytes; at += checked_bytes) {
    const auto size = static_cast<std::size_t>(std::min(checked_bytes, bytes - at));
    const std::span piece(to ? to + at : scratch_.data(), size);
    file.read_at(offset + at, piece);
    crc = crc32c(piece, crc);
  }
  return crc;
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
