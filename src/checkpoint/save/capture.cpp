#include "checkpoint/save/capture.hpp"

#include <cstring>

namespace cairn {

CaptureLayout capture_layout(const Outgoing& out, const DensePlan& dense, int rank) {
  CaptureLayout layout;
  layout.at.reserve(out.entries.size());
  int file = -1;
  std::int64_t begin = 0, end = 0;  // of the file, in memory; of its entries, in the file
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    const auto& slice = out.entries[i].slices.front();
    if (slice.file != file) {
      file = slice.file;
      begin = next_page(begin + end);
      end = 0;
    }
    end = entry_begin(end, slice.size);
    layout.at.push_back(begin + end);
    end += slice.size;
  }
  layout.shard_bytes = next_page(begin + end);
  layout.bytes = layout.shard_bytes + (dense.bytes > 0 ? capture_bytes(dense, rank) : 0);
  return layout;
}

void capture_shards(Outgoing& out, const CaptureLayout& layout, std::span<std::byte> memory) {
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    auto& [run, slice] = out.bytes[i];
    const auto& stored = out.entries[i].slices.front();
    auto* to = memory.data() + layout.at[i];
    if (!run.empty()) {
      std::memcpy(to, run.data(), run.size());
    } else if (slice) {
      slice->memory->read(stored.box.relative_to(slice->box.start), to);
    } else {
      continue;
    }
    run = {to, static_cast<std::size_t>(stored.size)};
    slice = nullptr;
  }
}

}  // namespace cairn
