// Write: a shard becomes a data file. Each slice is contiguous in it and has its checksum.
#include <algorithm>

#include "base/checksum.hpp"
#include "exchange/exchange.hpp"
#include "model/runs.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {
namespace {

// The dimensions that the slice's spec writes as "-" (whole). A policy may have cut the slice
// further, so that some of them are no longer whole.
std::vector<bool> spelling(std::vector<bool> dash, const Box& box, const Dims& shape) {
  for (std::size_t d = 0; d < dash.size(); ++d) dash[d] = dash[d] && box.extent[d] == shape[d];
  return dash;
}

}  // namespace

// Describes each entry, and says where its bytes are in memory. Nothing is read except encoded
// strings, which are there already.
void each_outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                   bool one_file, const std::function<StoredTensor&()>& make,
                   const std::function<void(const Outgoing::Bytes&)>& take) {
  for (std::size_t i = 0; i < local.shards.size(); ++i) {
    for (const auto& task : local.shards[i]) {
      const auto& [key, source] = state.tensors()[task.tensor];
      const auto& box = task.box;
      // Filled in place, since there may be very many entries.
      auto& entry = make();
      entry.key = key;
      entry.dtype = source.dtype;
      entry.shape = source.shape;
      entry.sliced = !box.is_whole(source.shape);
      auto& stored = entry.slices.emplace_back();
      stored.box = box;
      stored.file = one_file ? first_file : first_file + static_cast<int>(i);
      stored.stored_bytes = stored.raw_bytes = bytes_of(state, local.strings, task);
      Outgoing::Bytes bytes;
      bytes.tensor = task.tensor;
      bytes.slice_index = task.slice < 0 ? 0 : static_cast<std::size_t>(task.slice);
      if (source.strings) {
        const auto& encoded = local.strings.at(task.tensor);
        bytes.run = std::as_bytes(std::span(encoded.bytes));
        stored.crc32c = encoded.crc32c;
      } else if (!source.slices.empty()) {
        const auto& slice = source.slices[bytes.slice_index];
        stored.dash = spelling(slice.dash, box, source.shape);
        bytes.slice = &slice;
        const auto at =
            box.empty() ? std::nullopt : run_in_box(box, slice.box.start, slice.box.extent);
        // Contiguous in memory: written from there, without a copy.
        if (const auto* base = at ? slice.memory->contiguous() : nullptr) {
          const auto item = static_cast<std::int64_t>(dtype_size(source.dtype));
          bytes.run = {base + *at * item, static_cast<std::size_t>(stored.raw_bytes)};
        }
      }
      take(bytes);
    }
  }
}

std::size_t count_of(const LocalShards& local) {
  std::size_t count = 0;
  for (const auto& shard : local.shards) count += shard.size();
  return count;
}

Outgoing outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                  bool one_file) {
  Outgoing out;
  out.entries.reserve(count_of(local));
  out.bytes.reserve(count_of(local));
  each_outgoing(
      state, local, first_file, one_file, [&]() -> auto& { return out.entries.emplace_back(); },
      [&](const Outgoing::Bytes& bytes) { out.bytes.push_back(bytes); });
  return out;
}

void write_entries(Sink& file, Outgoing& out, const std::atomic<bool>* cancelled) {
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    if (cancelled && *cancelled) return;
    auto& entry = out.entries[i];
    const auto& run = out.bytes[i].run;
    const auto* slice = out.bytes[i].slice;
    file.begin(entry);
    if (!run.empty()) {
      file.append(run, true);
    } else if (slice) {
      const auto part = entry.slices.front().box.relative_to(slice->box.start);
      const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
      for (const auto& chunk : plan::cut_into_chunks(part, item, cached_bytes)) {
        buffer.resize(static_cast<std::size_t>(chunk.bytes));
        slice->memory->read(chunk.box, buffer.data());
        file.append(buffer);
      }
    }
    out.bytes[i].crc32c = file.end(entry);
  }
}

void write_files(const Draft& draft, Outgoing& out, const std::atomic<bool>* cancelled) {
  Sink file(draft, out.entries);
  write_entries(file, out, cancelled);
  if (!cancelled || !*cancelled) file.finish();
}

}  // namespace cairn
