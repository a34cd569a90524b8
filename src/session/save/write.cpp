// Write: a shard becomes a data file; each slice is contiguous in it and has its checksum.
#include <algorithm>
#include <array>
#include <limits>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "exchange/exchange.hpp"
#include "model/runs.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {
namespace {

constexpr std::int64_t page_bytes = 4096, aligned_from_bytes = std::int64_t{64} << 10;

// What a policy has cut further is no longer whole in every dimension that its slice was.
std::vector<bool> spelling(std::vector<bool> dash, const Box& box, const Dims& shape) {
  for (std::size_t d = 0; d < dash.size(); ++d) dash[d] = dash[d] && box.extent[d] == shape[d];
  return dash;
}

}  // namespace

std::int64_t next_page(std::int64_t offset) {
  return (offset + page_bytes - 1) / page_bytes * page_bytes;
}

std::int64_t entry_begin(std::int64_t end_of_last, std::int64_t bytes) {
  return bytes >= aligned_from_bytes ? next_page(end_of_last) : end_of_last;
}

Outgoing outgoing(const State& state, const LocalShards& local, int first_file, bool one_file) {
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
        stored.size = tensor.bytes;
        Outgoing::Bytes bytes;
        bytes.tensor = owner;
        bytes.slice_index = tensor.owner_slice;
        if (source.strings) {
          const auto& encoded = local.strings.at(owner);
          bytes.run = std::as_bytes(std::span(encoded.bytes));
          stored.size = static_cast<std::int64_t>(encoded.bytes.size());
          stored.crc32c = encoded.crc32c;
        } else if (!source.slices.empty()) {
          const auto& slice = source.slices[tensor.owner_slice];
          stored.dash = spelling(slice.dash, box, tensor.shape);
          bytes.slice = &slice;
          const auto at =
              box.empty() ? std::nullopt : run_in_box(box, slice.box.start, slice.box.extent);
          if (const auto* base = at ? slice.memory->contiguous() : nullptr) {
            const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
            bytes.run = {base + *at * item, static_cast<std::size_t>(stored.size)};
          }
        }
        out.bytes.push_back(bytes);
      }
    }
  }
  return out;
}

ShardFiles::ShardFiles(io::FileSystem& files, const commit::Transaction& save,
                       const std::vector<StoredTensor>& entries, std::int64_t gathered_bytes)
    : files_(&files), save_(&save), most_gathered_(static_cast<std::size_t>(gathered_bytes)) {
  for (const auto& entry : entries) {
    const auto& slice = entry.slices.front();
    auto& size = sizes_[slice.file];
    size = entry_begin(size, slice.size) + slice.size;
  }
}

void ShardFiles::begin(StoredTensor& entry) {
  auto& slice = entry.slices.front();
  if (slice.file != number_) {
    finish();
    const auto size = sizes_.find(slice.file);
    file_ = commit::make_part(
        *files_, *save_, slice.file,
        size == sizes_.end() ? std::numeric_limits<std::int64_t>::max() : size->second);
    number_ = slice.file;
    end_ = 0;
  }
  crc_ = 0;
  slice.offset = entry_begin(end_, slice.size);
  // Whatever was there; and what is written stays in a row.
  static constexpr std::array<std::byte, page_bytes> zeros = {};
  const auto gap = std::span(zeros).first(static_cast<std::size_t>(slice.offset - end_));
  put(gap, false);
}

void ShardFiles::append(std::span<const std::byte> bytes, bool stay) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<std::size_t>(cached_bytes, bytes.size()));
    crc_ = crc32c(piece, crc_);
    put(piece, stay);
    bytes = bytes.subspan(piece.size());
  }
}

void ShardFiles::put(std::span<const std::byte> bytes, bool stay) {
  if (bytes.empty()) return;
  const auto offset = end_;
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
  end_ += static_cast<std::int64_t>(bytes.size());
}

void ShardFiles::write_gathered() {
  if (gathered_.empty()) return;
  file_.file->write_at(end_ - static_cast<std::int64_t>(gathered_.size()), gathered_);
  gathered_.clear();
}

std::uint32_t ShardFiles::end(StoredTensor& entry) const {
  if (entry.dtype != DType::string) entry.slices.front().crc32c = crc_;
  return crc_;
}

void ShardFiles::finish() {
  if (!file_.file) return;
  write_gathered();
  gathered_.shrink_to_fit();
  if (file_.recycled && file_.file->size() != end_) file_.file->resize(end_);
  file_.file->sync();
  file_.file->close();
  file_ = {};
}

void write_entries(ShardFiles& file, Outgoing& out, const std::atomic<bool>* cancelled) {
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

void write_files(io::FileSystem& files, const commit::Transaction& save, Outgoing& out,
                 const std::atomic<bool>* cancelled) {
  ShardFiles file(files, save, out.entries);
  write_entries(file, out, cancelled);
  if (!cancelled || !*cancelled) file.finish();
}

}  // namespace cairn
