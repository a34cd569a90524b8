// Write: a shard becomes a data file; each slice is contiguous in it and has its checksum.
#include <algorithm>

#include "base/checksum.hpp"
#include "exchange/exchange.hpp"
#include "model/runs.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {
namespace {

// What a policy has cut further is no longer whole in every dimension that its slice was.
std::vector<bool> spelling(std::vector<bool> dash, const Box& box, const Dims& shape) {
  for (std::size_t d = 0; d < dash.size(); ++d) dash[d] = dash[d] && box.extent[d] == shape[d];
  return dash;
}

}  // namespace

Outgoing outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                  bool one_file) {
  Outgoing out;
  std::size_t most = 0;
  for (const auto& shard : local.shards) {
    for (const auto& one : shard) most += one.second.size();
  }
  out.entries.reserve(most);
  out.bytes.reserve(most);
  for (std::size_t i = 0; i < local.shards.size(); ++i) {
    for (const auto& [key, slices] : local.shards[i]) {
      for (const auto& [box, tensor] : slices) {
        const auto owner = tensor.owner.value();
        const auto& source = state.tensors()[owner].second;
        // Made where it stays: there may be very many.
        auto& entry = out.entries.emplace_back();
        entry.key = key;
        entry.dtype = tensor.dtype;
        entry.shape = tensor.shape;
        entry.sliced = !box.is_whole(tensor.shape);
        auto& stored = entry.slices.emplace_back();
        stored.box = box;
        stored.file = one_file ? first_file : first_file + static_cast<int>(i);
        stored.stored_bytes = stored.raw_bytes = tensor.bytes;
        Outgoing::Bytes bytes;
        bytes.tensor = owner;
        bytes.slice_index = tensor.owner_slice;
        if (source.strings) {
          const auto& encoded = local.strings.at(owner);
          bytes.run = std::as_bytes(std::span(encoded.bytes));
          stored.stored_bytes = stored.raw_bytes = static_cast<std::int64_t>(encoded.bytes.size());
          stored.crc32c = encoded.crc32c;
        } else if (!source.slices.empty()) {
          const auto& slice = source.slices[tensor.owner_slice];
          stored.dash = spelling(slice.dash, box, tensor.shape);
          bytes.slice = &slice;
          const auto at =
              box.empty() ? std::nullopt : run_in_box(box, slice.box.start, slice.box.extent);
          if (const auto* base = at ? slice.memory->contiguous() : nullptr) {
            const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
            bytes.run = {base + *at * item, static_cast<std::size_t>(stored.raw_bytes)};
          }
        }
        out.bytes.push_back(bytes);
      }
    }
  }
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
