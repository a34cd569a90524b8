#include "tools/ordered_reads.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"

namespace cairn {

int OrderedReads::add(const Address& at) {
  // The status is taken before the file is opened, so that a replacement in between is noticed
  // later.
  const auto status = at.status();
  opened_.push_back({at, status ? status->id : io::FileId{}, at.open_read()});
  return static_cast<int>(opened_.size()) - 1;
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
  std::vector<Address> files;
  for (const auto& one : opened_) files.push_back(one.at);
  reader_ = read_ahead(files, pieces_);
}

// Returns whether these bytes follow those that were read last.
bool OrderedReads::next_is(int file, std::int64_t offset) const {
  if (fetched_ > 0) {
    const auto& last = pieces_[fetched_ - 1];
    if (taken_ < last.bytes) return file == last.file && offset == last.offset + taken_;
  }
  return fetched_ < pieces_.size() && file == pieces_[fetched_].file &&
         offset == pieces_[fetched_].offset;
}

// Returns whether the reader, which opened the file by its name, got the same file. Somebody may
// have replaced it during a long run, for instance by downloading it again.
bool OrderedReads::is_same(int file) {
  if (file == same_) return true;
  const auto& opened = opened_[static_cast<std::size_t>(file)];
  const auto status = opened.at.status();
  if (!status || status->id != opened.id) return false;
  same_ = file;
  return true;
}

// Returns false if there is no reader any more. A plain read then follows, and reports the error if
// it fails too.
bool OrderedReads::fetch() {
  bool fetched = false;
  try {
    reader_->next();  // files of other programs have no known checksums
    fetched = is_same(pieces_[fetched_].file);
  } catch (const std::exception&) {
  }
  if (!fetched) {
    reader_.reset();
    return false;
  }
  ++fetched_;
  taken_ = 0;
  return true;
}

void OrderedReads::read(int file, std::int64_t offset, std::span<std::byte> to) {
  if (!begun_) begin();
  while (!to.empty() && reader_) {
    if (!next_is(file, offset)) {
      reader_.reset();
      break;
    }
    if ((fetched_ == 0 || taken_ == pieces_[fetched_ - 1].bytes) && !fetch()) break;
    const auto left = static_cast<std::size_t>(pieces_[fetched_ - 1].bytes - taken_);
    const auto size = std::min(left, to.size());
    std::memcpy(to.data(), piece_.data() + taken_, size);
    taken_ += static_cast<std::int64_t>(size);
    offset += static_cast<std::int64_t>(size);
    to = to.subspan(size);
  }
  if (!to.empty()) this->file(file).read_at(offset, to);
}

}  // namespace cairn
