#include "save/capture.hpp"

#include <cstring>

#include "base/copy.hpp"
#include "model/runs.hpp"

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

CaptureForm::CaptureForm(const State& state, const Outgoing& out, CaptureLayout layout)
    : made_(true), layout_(std::move(layout)), entries_(out.entries) {
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    const auto& at = out.bytes[i];
    auto& piece = pieces_.emplace_back(Piece{at.tensor, at.slice_index, {}, {}, 0});
    const auto& tensor = state.tensors()[at.tensor].second;
    if (tensor.strings || tensor.slices.empty()) continue;
    const auto& stored = out.entries[i].slices.front();
    const auto& slice = tensor.slices[at.slice_index];
    piece.bytes = stored.size;
    if (piece.bytes == 0) continue;
    piece.part = stored.box.relative_to(slice.box.start);
    piece.run = run_at(piece.part, slice.box.extent);
    if (piece.run) *piece.run *= static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
}

void CaptureForm::copy(const State& state, const StringStore& strings,
                       std::span<std::byte> memory) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto& piece = pieces_[i];
    const auto& tensor = state.tensors()[piece.tensor].second;
    auto* to = memory.data() + layout_.at[i];
    if (tensor.strings) {
      const auto& bytes = strings.at(piece.tensor).bytes;
      std::memcpy(to, bytes.data(), bytes.size());
    } else if (piece.bytes > 0) {
      const auto& from = *tensor.slices[piece.slice].memory;
      const auto* base = piece.run ? from.contiguous() : nullptr;
      if (base) {
        copy_past_caches(to, base + *piece.run, static_cast<std::size_t>(piece.bytes));
      } else {
        from.read(piece.part, to);
      }
    }
  }
}

Outgoing CaptureForm::outgoing(std::span<std::byte> memory, const StringStore& strings) const {
  Outgoing out;
  out.entries = entries_;
  out.bytes.resize(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto& stored = out.entries[i].slices.front();
    const auto text = strings.find(pieces_[i].tensor);
    if (text != strings.end()) stored.crc32c = text->second.crc32c;
    out.bytes[i].run = memory.subspan(static_cast<std::size_t>(layout_.at[i]),
                                      static_cast<std::size_t>(stored.size));
  }
  return out;
}

}  // namespace cairn
