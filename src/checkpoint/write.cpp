// Write: a shard becomes a data file; each slice is contiguous in it and has its checksum.
#include <algorithm>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "checkpoint/save_steps.hpp"
#include "plan/exchange.hpp"

namespace cairn {
namespace {

// Small enough that the bytes are still in the cache when they are written after the checksum.
constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;

// Large slices begin on a page, so that whole pages are copied on the way to the disk and back; the
// gap before one reads as zeros.
constexpr std::int64_t page_bytes = 4096, aligned_from_bytes = std::int64_t{64} << 10;

class DataFile {
 public:
  explicit DataFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}

  // Returns where it begins.
  std::int64_t begin_slice(std::int64_t bytes) {
    crc_ = 0;
    if (bytes >= aligned_from_bytes) end_ = (end_ + page_bytes - 1) / page_bytes * page_bytes;
    return end_;
  }
  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min<std::size_t>(piece_bytes, bytes.size()));
      crc_ = crc32c(piece, crc_);
      file_->write_at(end_, piece);
      end_ += static_cast<std::int64_t>(piece.size());
      bytes = bytes.subspan(piece.size());
    }
  }
  std::int64_t end() const { return end_; }
  std::uint32_t crc() const { return crc_; }
  void finish() {
    file_->sync();
    file_->close();
  }

 private:
  std::unique_ptr<io::File> file_;
  std::int64_t end_ = 0;
  std::uint32_t crc_ = 0;
};

// The elements of `part` (relative to the slice) in row-major order.
void append_elements(DataFile& file, const LocalSlice& slice, const Box& part,
                     std::int64_t element_bytes, std::vector<std::byte>& buffer) {
  for (const auto& chunk : plan::cut_into_chunks(part, element_bytes, piece_bytes)) {
    buffer.resize(static_cast<std::size_t>(chunk.bytes));
    slice.memory->read(chunk.box, buffer.data());
    file.append(buffer);
  }
}

// What a policy has cut further is no longer whole in every dimension that its slice was.
std::vector<bool> spelling(std::vector<bool> dash, const Box& box, const Dims& shape) {
  for (std::size_t d = 0; d < dash.size(); ++d) dash[d] = dash[d] && box.extent[d] == shape[d];
  return dash;
}

}  // namespace

std::vector<StoredTensor> write_shards(const Job& job, const State& state, const LocalShards& local,
                                       const FileLayout& layout, const commit::Transaction& save) {
  std::vector<StoredTensor> entries;
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < local.shards.size(); ++i) {
    const int number = layout.first_file + static_cast<int>(i);
    DataFile file(job.files->create(save.part(number)));
    for (const auto& [key, slices] : local.shards[i]) {
      for (const auto& [box, tensor] : slices) {
        const auto& source = state.tensors()[tensor.owner].second;
        StoredSlice stored;
        stored.box = box;
        if (!source.strings && !source.slices.empty()) {
          stored.dash = spelling(source.slices[tensor.owner_slice].dash, box, tensor.shape);
        }
        stored.file = number;
        stored.offset = file.begin_slice(tensor.bytes);
        if (source.strings) {
          const auto& encoded = local.strings.at(tensor.owner);
          file.append(std::as_bytes(std::span(encoded.bytes)));
          stored.crc32c = encoded.crc32c;
        } else {
          if (!box.empty()) {
            const auto& slice = source.slices[tensor.owner_slice];
            const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
            const auto* whole = slice.memory->contiguous();
            if (whole && box == slice.box) {
              file.append({whole, static_cast<std::size_t>(box.count() * item)});
            } else {
              append_elements(file, slice, box.relative_to(slice.box.start), item, buffer);
            }
          }
          stored.crc32c = file.crc();
        }
        stored.size = file.end() - stored.offset;
        entries.push_back({key,
                           tensor.dtype,
                           tensor.shape,
                           box != Box::whole(tensor.shape),
                           {std::move(stored)},
                           ""});
      }
    }
    file.finish();
  }
  return entries;
}

}  // namespace cairn
