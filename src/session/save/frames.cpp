// Cuts what travels to an io rank. A frame ends where the next part would make it too long; a part
// is never divided further.
#include "session/save/frames.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "exchange/exchange.hpp"

namespace cairn {

Frames::Frames(const std::vector<StoredTensor>& entries, std::int64_t limit,
               std::span<const std::int64_t> at) {
  std::int64_t end = 0;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    cut(entries[e], e, at.empty() ? end : at[e], limit);
    end += entries[e].slices.front().raw_bytes;
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& part = parts[p];
    if (frames.empty() || part.at + part.bytes - frames.back().begin > limit) {
      frames.push_back({p, p, part.at, 0});
    }
    auto& frame = frames.back();
    frame.end = p + 1;
    if (part.bytes > 0) frame.bytes = part.at + part.bytes - frame.begin;
    largest = std::max(largest, frame.bytes);
  }
}

// Strings are cut at any byte, numbers along boxes, so that the sender can read each part from
// strided memory.
void Frames::cut(const StoredTensor& entry, std::size_t e, std::int64_t at, std::int64_t limit) {
  const auto& slice = entry.slices.front();
  if (slice.raw_bytes == 0) {
    parts.push_back({e, {}, 0, 0, at});
  } else if (entry.dtype == DType::string) {
    for (std::int64_t offset = 0; offset < slice.raw_bytes; offset += limit) {
      parts.push_back({e, {}, offset, std::min(limit, slice.raw_bytes - offset), at + offset});
    }
  } else {
    const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
    for (auto& chunk : plan::cut_into_chunks(slice.box, item, limit)) {
      parts.push_back({e, std::move(chunk.box), chunk.offset, chunk.bytes, at + chunk.offset});
    }
  }
}

Error changed_on_the_way(const std::string& key, int sender, int io_rank, std::uint32_t sent,
                         std::uint32_t arrived) {
  return Error(Code::data_loss,
               cat("bytes of tensor '", key, "' changed on their way from rank ", sender,
                   " to its io rank ", io_rank),
               cat("the checksum of what was sent is ", sent, ", of what arrived ", arrived))
      .of_tensor(key);
}

}  // namespace cairn
