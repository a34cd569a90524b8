#include "store/sink.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/checksum.hpp"
#include "layout/offsets.hpp"
#include "store/contents/format.hpp"

namespace cairn {

void FileSizes::add(const StoredTensor& entry) {
  const auto& slice = entry.slices.front();
  auto& size = sizes_[slice.file];
  size = entry_begin(size, slice.raw_bytes) + slice.raw_bytes;
}

Sink::Sink(const Draft& draft, const FileSizes& sizes, std::int64_t gathered_bytes)
    : draft_(&draft),
      layout_encodes_(encoding_of(draft.format())),
      most_gathered_(static_cast<std::size_t>(gathered_bytes)) {
  if (!layout_encodes_) sizes_ = sizes.all();  // else encoded sizes are not known yet
}

bool Sink::encodes(const StoredTensor& entry) const {
  return layout_encodes_ && entry.dtype != DType::string && entry.slices.front().raw_bytes > 0;
}

void Sink::begin(StoredTensor& entry) {
  auto& slice = entry.slices.front();
  if (slice.file != number_) {
    finish();
    const auto size = sizes_.find(slice.file);
    const auto most =
        size == sizes_.end() ? std::numeric_limits<std::int64_t>::max() : size->second;
    file_ = draft_->make(slice.file, most);
    number_ = slice.file;
    end_ = at_ = 0;
    unchanged_ = UnchangedBlocks::make(
        file_, most, [this](auto bytes, bool stay) { write(bytes, stay); },
        [this](std::int64_t bytes) { pass(bytes); });
  }
  crc_ = stored_crc_ = 0;
  look_ = draft_->not_finite() ? FiniteCheck(entry.dtype) : FiniteCheck();
  encoding_ = encodes(entry) ? layout_encodes_ : nullptr;
  item_ = dtype_size(entry.dtype);
  slice.codec = encoding_ ? encoding_->codec : Codec::none;
  slice.offset = encoding_ ? entry_begin(end_) : entry_begin(end_, slice.raw_bytes);
  // The gap is filled with zeros: a recycled file may hold old bytes there, and the writes stay
  // sequential.
  static constexpr std::array<std::byte, page_bytes> zeros = {};
  const auto gap = std::span(zeros).first(static_cast<std::size_t>(slice.offset - end_));
  put(gap, false, true);
}

void Sink::append(std::span<const std::byte> bytes, bool stay) {
  while (!bytes.empty()) {
    if (const auto crc = put_block(bytes, stay)) {
      const auto size = unchanged_->block_bytes();
      crc_ = crc32c_combine(crc_, *crc, static_cast<std::uint64_t>(size));
      bytes = bytes.subspan(static_cast<std::size_t>(size));
      continue;
    }
    // A piece stays in the processor's cache from its checksum until it is copied or encoded.
    auto most = cached_bytes;
    if (unchanged_ && unchanged_->lacking() > 0) most = std::min(most, unchanged_->lacking());
    const auto piece = bytes.first(std::min(static_cast<std::size_t>(most), bytes.size()));
    crc_ = crc32c(piece, crc_);
    look_.add(piece);
    if (encoding_) {
      encoded_.clear();
      encoding_->encode(piece, item_, encoded_);
      stored_crc_ = crc32c(encoded_, stored_crc_);
      put(encoded_, false);
    } else {
      put(piece, stay);
    }
    bytes = bytes.subspan(piece.size());
  }
}

// A block that the file holds needs no checksum of its own. The look for numbers that are not
// finite needs all bytes.
std::optional<std::uint32_t> Sink::put_block(std::span<const std::byte> bytes, bool stay) {
  if (!unchanged_ || encoding_ || draft_->not_finite()) return std::nullopt;
  const auto crc = unchanged_->put_block(bytes, stay);
  if (crc) end_ += unchanged_->block_bytes();
  return crc;
}

// Appends bytes to the open file.
void Sink::put(std::span<const std::byte> bytes, bool stay, bool padding) {
  end_ += static_cast<std::int64_t>(bytes.size());
  unchanged_ ? unchanged_->put(bytes, stay, padding) : write(bytes, stay);
}

// Small bytes are gathered here, unless the file gathers them itself. Bytes of a quarter of the
// buffer and more are written at once, behind what was gathered.
void Sink::write(std::span<const std::byte> bytes, bool stay) {
  if (bytes.empty()) return;
  const auto offset = at_;
  const bool small = bytes.size() < most_gathered_ / 4;
  if (small && !(gathered_.empty() && file_.file->gathers())) {
    if (gathered_.size() + bytes.size() > most_gathered_) write_gathered();
    const auto needed = gathered_.size() + bytes.size();
    if (needed > gathered_.capacity()) {
      gathered_.reserve(std::min(std::max(needed, 2 * gathered_.capacity()), most_gathered_));
    }
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  } else {
    write_gathered();
    if (stay && !small) {
      file_.file->write_behind(offset, bytes);
    } else {
      file_.file->write_at(offset, bytes);
    }
  }
  at_ += static_cast<std::int64_t>(bytes.size());
}

// The file holds these bytes.
void Sink::pass(std::int64_t bytes) {
  write_gathered();
  at_ += bytes;
}

void Sink::write_gathered() {
  if (gathered_.empty()) return;
  file_.file->write_at(at_ - static_cast<std::int64_t>(gathered_.size()), gathered_);
  gathered_.clear();
}

std::uint32_t Sink::end(StoredTensor& entry) {
  if (look_.found()) draft_->not_finite()->insert(entry.key);
  auto& slice = entry.slices.front();
  if (encoding_) {
    slice.stored_bytes = end_ - slice.offset;
    slice.crc32c = stored_crc_;
    slice.raw_crc32c = crc_;
  } else if (entry.dtype != DType::string) {
    slice.crc32c = crc_;
  }
  return crc_;
}

void Sink::finish() {
  if (!file_.file) return;
  std::optional<commit::WrittenBlocks> written;
  if (unchanged_) written = unchanged_->end();
  unchanged_.reset();
  write_gathered();
  // A sink may live on after its files, without this memory.
  gathered_.shrink_to_fit();
  // An old file may be longer than this save's bytes.
  if (file_.is_old() && file_.file->size() != end_) file_.file->resize(end_);
  file_.file->sync();
  file_.file->close();
  file_ = {};
  if (written) draft_->wrote(number_, *std::move(written));
}

}  // namespace cairn
