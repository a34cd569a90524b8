#include "session/save/writers/shared_range.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "exchange/exchange.hpp"
#include "layout/offsets.hpp"

namespace cairn {
SharedRange::SharedRange(Outgoing out, std::int64_t limit)
    : out_(std::move(out)), checksums_(out_.entries.size()) {
  for (std::size_t e = 0; e < out_.entries.size(); ++e) {
    auto& slice = out_.entries[e].slices.front();
    slice.offset = bytes_ = entry_begin(bytes_, slice.raw_bytes);
    bytes_ += slice.raw_bytes;
    cut(e, limit);
  }
  for (const auto& frame : frames_) {
    if (!frame.in_place) largest_ = std::max(largest_, frame.bytes);
  }
}

void SharedRange::cut(std::size_t e, std::int64_t limit) {
  const auto& entry = out_.entries[e];
  const auto& stored = entry.slices.front();
  const auto& run = out_.bytes[e].run;
  const auto* slice = out_.bytes[e].slice;
  if (!run.empty()) {
    for (std::int64_t at = 0; at < stored.raw_bytes; at += limit) {
      append({e, {}, at, std::min(limit, stored.raw_bytes - at)}, limit);
    }
  } else if (slice && stored.raw_bytes > 0) {
    const auto part = stored.box.relative_to(slice->box.start);
    const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
    for (auto& chunk : plan::cut_into_chunks(part, item, std::min(limit, cached_bytes))) {
      append({e, std::move(chunk.box), chunk.offset, chunk.bytes}, limit);
    }
  }
}

void SharedRange::append(Piece piece, std::int64_t limit) {
  const auto at = out_.entries[piece.entry].slices.front().offset + piece.offset;
  const auto end = at + piece.bytes;
  const bool in_place = !out_.bytes[piece.entry].run.empty() && piece.bytes >= limit / 2;
  const bool fits = !frames_.empty() && !frames_.back().in_place && !in_place &&
                    end - frames_.back().begin <= limit;
  const auto number = pieces_.size();
  pieces_.push_back(std::move(piece));
  if (!fits) frames_.push_back({number, number, at, 0, in_place});
  frames_.back().end = number + 1;
  frames_.back().bytes = end - frames_.back().begin;
}

void SharedRange::settle(std::int64_t begin) {
  begin_ = begin;
  for (auto& entry : out_.entries) entry.slices.front().offset += begin;
  // Not initialised: what is never used is never touched.
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(largest_));
}

SharedRange::Bytes SharedRange::fill(std::size_t number) {
  const auto& frame = frames_[number];
  const auto offset = begin_ + frame.begin;
  if (frame.in_place) {
    const auto& piece = pieces_[frame.first];
    const auto bytes = out_.bytes[piece.entry].run.subspan(static_cast<std::size_t>(piece.offset),
                                                           static_cast<std::size_t>(piece.bytes));
    checksums_[piece.entry] = crc32c(bytes, checksums_[piece.entry]);
    return {offset, bytes};
  }
  std::int64_t filled = 0;
  for (auto p = frame.first; p < frame.end; ++p) {
    const auto& piece = pieces_[p];
    const auto& run = out_.bytes[piece.entry].run;
    const auto* slice = out_.bytes[piece.entry].slice;
    const auto at = out_.entries[piece.entry].slices.front().offset + piece.offset - offset;
    std::memset(buffer_.get() + filled, 0, static_cast<std::size_t>(at - filled));
    const std::span packed(buffer_.get() + at, static_cast<std::size_t>(piece.bytes));
    if (!run.empty()) {
      std::memcpy(packed.data(), run.data() + piece.offset, packed.size());
    } else {
      slice->memory->read(piece.box, packed.data());
    }
    checksums_[piece.entry] = crc32c(packed, checksums_[piece.entry]);
    filled = at + piece.bytes;
  }
  return {offset, {buffer_.get(), static_cast<std::size_t>(frame.bytes)}};
}

std::vector<StoredTensor> SharedRange::take_entries() {
  for (std::size_t e = 0; e < out_.entries.size(); ++e) {
    if (out_.entries[e].dtype != DType::string) {
      out_.entries[e].slices.front().crc32c = checksums_[e];
    }
  }
  return std::move(out_.entries);
}

}  // namespace cairn
