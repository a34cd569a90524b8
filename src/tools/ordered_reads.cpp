#include "tools/ordered_reads.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"

namespace cairn {

int OrderedReads::add(const io::Path& path, std::unique_ptr<io::File> file) {
  paths_.push_back(path);
  open_.push_back(std::move(file));
  return static_cast<int>(open_.size()) - 1;
}

void OrderedReads::expect(const std::string& key, int file, std::int64_t offset,
                          std::int64_t bytes) {
  if (bytes > 0) expected_[key] = {file, offset, bytes};
}

void OrderedReads::begin() {
  begun_ = true;
  piece_.resize(static_cast<std::size_t>(cached_bytes));
  for (const auto& [key, run] : expected_) {
    for (std::int64_t at = 0; at < run.bytes; at += cached_bytes) {
      pieces_.push_back(
          {run.file, run.offset + at, std::min(cached_bytes, run.bytes - at), piece_.data()});
    }
  }
  expected_.clear();
  reader_ = files_.read_ahead(paths_, pieces_, DirectIo::automatic);
}

// Whether these bytes follow those that were given last.
bool OrderedReads::next_is(int file, std::int64_t offset) const {
  if (fetched_ > 0) {
    const auto& last = pieces_[fetched_ - 1];
    if (taken_ < last.bytes) return file == last.file && offset == last.offset + taken_;
  }
  return fetched_ < pieces_.size() && file == pieces_[fetched_].file &&
         offset == pieces_[fetched_].offset;
}

void OrderedReads::fetch() {
  reader_->next();  // of other people's bytes no checksum is known
  ++fetched_;
  taken_ = 0;
}

void OrderedReads::read(int file, std::int64_t offset, std::span<std::byte> to) {
  if (!begun_) begin();
  while (!to.empty() && reader_) {
    if (!next_is(file, offset)) {
      reader_.reset();
      break;
    }
    if (fetched_ == 0 || taken_ == pieces_[fetched_ - 1].bytes) fetch();
    const auto left = static_cast<std::size_t>(pieces_[fetched_ - 1].bytes - taken_);
    const auto size = std::min(left, to.size());
    std::memcpy(to.data(), piece_.data() + taken_, size);
    taken_ += static_cast<std::int64_t>(size);
    offset += static_cast<std::int64_t>(size);
    to = to.subspan(size);
  }
  if (!to.empty()) open_[static_cast<std::size_t>(file)]->read_at(offset, to);
}

}  // namespace cairn
