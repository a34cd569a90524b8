// A rank's range in a shared file: entries are placed as in a file of their own, then cut into
// frames.
#include "session/save/writers/shared_range.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "exchange/exchange.hpp"
#include "layout/offsets.hpp"

namespace cairn {
SharedRange::SharedRange(Outgoing out, std::int64_t limit, NotFiniteKeys* not_finite)
    : out_(std::move(out)), checksums_(out_.entries.size()), not_finite_(not_finite) {
  for (const auto& entry : out_.entries) {
    if (not_finite) looks_.emplace_back(entry.dtype);
  }
  for (std::size_t e = 0; e < out_.entries.size(); ++e) {
    bytes_ = lay_behind(bytes_, out_.entries[e].slices.front());
    cut(e, limit);
  }
  for (const auto& frame : frames_) {
    if (!frame.in_place) largest_ = std::max(largest_, frame.bytes);
  }
}

// Contiguous memory is cut anywhere; strided memory along boxes that fit the cache.
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
    const auto box = stored.box.relative_to(slice->box.start);
    const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
    for (auto& chunk : plan::cut_into_chunks(box, item, std::min(limit, cached_bytes))) {
      append({e, std::move(chunk.box), chunk.offset, chunk.bytes}, limit);
    }
  }
}

void SharedRange::append(Part part, std::int64_t limit) {
  const auto at = place_of(out_.entries[part.entry].slices.front(), part.offset);
  const auto end = at + part.bytes;
  // Small parts are packed together into a frame; a large contiguous one is not worth the copy.
  const bool in_place = !out_.bytes[part.entry].run.empty() && part.bytes >= limit / 2;
  const bool fits = !frames_.empty() && !frames_.back().in_place && !in_place &&
                    end - frames_.back().begin <= limit;
  const auto number = parts_.size();
  parts_.push_back(std::move(part));
  if (!fits) frames_.push_back({number, number, at, 0, in_place});
  frames_.back().end = number + 1;
  frames_.back().bytes = end - frames_.back().begin;
}

void SharedRange::set_begin(std::int64_t begin) {
  begin_ = begin;
  for (auto& entry : out_.entries) move_by(begin, entry.slices.front());
  // Not initialised, so that pages that are never used are never touched.
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(largest_));
}

// Checksums grow with the frames, so frames must be asked for in order.
SharedRange::Bytes SharedRange::fill(std::size_t number) {
  const auto& frame = frames_[number];
  const auto offset = begin_ + frame.begin;
  if (frame.in_place) {
    const auto& part = parts_[frame.first];
    const auto bytes = out_.bytes[part.entry].run.subspan(static_cast<std::size_t>(part.offset),
                                                          static_cast<std::size_t>(part.bytes));
    look_at(part.entry, bytes);
    return {offset, bytes};
  }
  std::int64_t filled = 0;
  for (auto p = frame.first; p < frame.end; ++p) {
    const auto& part = parts_[p];
    const auto& run = out_.bytes[part.entry].run;
    const auto* slice = out_.bytes[part.entry].slice;
    const auto at = place_of(out_.entries[part.entry].slices.front(), part.offset) - offset;
    // The gap before the part.
    std::memset(buffer_.get() + filled, 0, static_cast<std::size_t>(at - filled));
    const std::span packed(buffer_.get() + at, static_cast<std::size_t>(part.bytes));
    if (!run.empty()) {
      std::memcpy(packed.data(), run.data() + part.offset, packed.size());
    } else {
      slice->memory->read(part.box, packed.data());
    }
    look_at(part.entry, packed);
    filled = at + part.bytes;
  }
  return {offset, {buffer_.get(), static_cast<std::size_t>(frame.bytes)}};
}

void SharedRange::look_at(std::size_t entry, std::span<const std::byte> bytes) {
  checksums_[entry] = crc32c(bytes, checksums_[entry]);
  if (not_finite_) looks_[entry].add(bytes);
}

std::vector<StoredTensor> SharedRange::take_entries() {
  for (std::size_t e = 0; e < out_.entries.size(); ++e) {
    if (not_finite_ && looks_[e].found()) not_finite_->insert(out_.entries[e].key);
    if (out_.entries[e].dtype != DType::string) {
      out_.entries[e].slices.front().crc32c = checksums_[e];
    }
  }
  return std::move(out_.entries);
}

}  // namespace cairn
