#include "tools/checked_slices.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "io/file_system.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/offsets.hpp"

namespace cairn {
namespace {

// A multiple of the size of every dtype, so that no element lies in two blocks. Small, because rows
// of a tensor that is stored in many columns have a little of each of them.
constexpr std::int64_t block_bytes = std::int64_t{128} << 10;
constexpr std::int64_t read_bytes = 32 * block_bytes;  // at a time, of a slice that is read through
constexpr std::size_t most_kept_bytes = std::size_t{24} << 20;

}  // namespace

CheckedSlices::CheckedSlices(const OpenCheckpoint& source, const Progress& progress)
    : source_(source), progress_(progress), total_(source->total_bytes()) {}

void CheckedSlices::read(const StoredTensor& tensor, const Piece& slice, const Box& part,
                         std::byte* out) {
  if (part.empty()) return;
  const auto& extent = slice.box.extent;
  // The dimensions from `outer` on lie in one run of bytes.
  auto outer = extent.size();
  auto run = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  const auto item = run;
  while (outer > 0) {
    --outer;
    run *= part.extent[outer];
    if (part.extent[outer] != extent[outer]) break;
  }
  const auto strides = row_major_strides(extent);
  Dims index(outer);
  for (;;) {
    std::int64_t first = 0;
    for (std::size_t d = 0; d < extent.size(); ++d) {
      first += (part.start[d] + (d < outer ? index[d] : 0)) * strides[d];
    }
    copy(tensor, slice, first * item, run, out);
    out += run;
    auto d = outer;
    while (d > 0 && ++index[d - 1] == part.extent[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::string CheckedSlices::read_box(const StoredTensor& tensor, const Box& box,
                                    std::size_t room_behind) {
  const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(box.count() * size) + room_behind);
  bytes.resize(static_cast<std::size_t>(box.count() * size));
  auto* out = reinterpret_cast<std::byte*>(bytes.data());
  const auto target = host_memory(tensor.dtype, out, out, box.extent, {});
  std::vector<std::byte> part;
  for (const auto& slice : tensor.slices) {
    const auto common = intersect(slice.box, box);
    if (!common || common->empty()) continue;
    const auto within = common->relative_to(slice.box.start);
    if (*common == box) {
      read(tensor, slice, within, out);
      break;
    }
    part.resize(static_cast<std::size_t>(common->count() * size));
    read(tensor, slice, within, part.data());
    target->write(common->relative_to(box.start), part.data());
  }
  return bytes;
}

void CheckedSlices::copy(const StoredTensor& tensor, const Piece& slice, std::int64_t offset,
                         std::int64_t count, std::byte* out) {
  const bool encoded = slice.codec != Codec::none;
  while (count > 0) {
    const auto number = encoded ? 0 : offset / block_bytes;
    const auto bytes = block(tensor, slice, number);
    const auto within = offset - number * block_bytes;
    const auto here = std::min(count, std::ssize(bytes) - within);
    std::memcpy(out, bytes.data() + within, static_cast<std::size_t>(here));
    out += here, offset += here, count -= here;
  }
}

std::string_view CheckedSlices::block(const StoredTensor& tensor, const Piece& slice,
                                      std::int64_t number) {
  const Place place{&slice, number};
  for (bool checked = false;; checked = true) {
    if (const auto found = kept_.find(place); found != kept_.end()) {
      order_.splice(order_.begin(), order_, found->second.order);
      return found->second.bytes;
    }
    if (slice.codec != Codec::none) {
      tell(slice.stored_bytes);
      return keep(tensor, place, source_.read(tensor, slice));
    }
    if (checksums_.contains(&slice) || checked) break;
    check_all(tensor, slice);  // and then the block may be kept already
  }
  auto bytes = read_bytes_of(slice, number * block_bytes, block_bytes);
  const auto crc = crc32c(bytes);
  if (crc != checksums_.at(&slice)[static_cast<std::size_t>(number)]) {
    throw Error(
        Code::data_loss,
        cat("tensor '", tensor.key, "': ", box_text(slice.box), " does not read as it did before"),
        "its checksum was right, and that of a part of it is not any more",
        "Something writes to the file, or the disk fails.")
        .at(source_.data(slice.file).string())
        .of_tensor(tensor.key);
  }
  return keep(tensor, place, std::move(bytes));
}

// At most so many bytes, from `offset` on.
std::string CheckedSlices::read_bytes_of(const Piece& slice, std::int64_t offset,
                                         std::int64_t most) {
  if (open_number_ != slice.file) {
    open_number_ = -1;
    open_ = source_.data(slice.file).open_read();
    open_number_ = slice.file;
  }
  std::string bytes(static_cast<std::size_t>(std::min(most, slice.raw_bytes - offset)), '\0');
  open_->read_at(place_of(slice, offset), std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// A slice that fits is kept on the way: most slices are read only once.
void CheckedSlices::check_all(const StoredTensor& tensor, const Piece& slice) {
  std::vector<std::uint32_t> checksums;
  std::uint32_t all = 0;
  const bool fits = static_cast<std::size_t>(slice.raw_bytes) <= most_kept_bytes;
  std::vector<std::string> blocks;  // they are kept when they have been proved
  for (std::int64_t at = 0; at < slice.raw_bytes; at += read_bytes) {
    const auto bytes = read_bytes_of(slice, at, read_bytes);
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto block = rest.substr(0, static_cast<std::size_t>(block_bytes));
      checksums.push_back(crc32c(block));
      all = crc32c_combine(all, checksums.back(), block.size());
      if (fits) blocks.emplace_back(block);
      rest.remove_prefix(block.size());
    }
    tell(std::ssize(bytes));
  }
  if (all != slice.crc32c) throw checksum_error(*source_, tensor, slice, all);
  checksums_.emplace(&slice, std::move(checksums));
  for (std::size_t number = blocks.size(); number-- > 0;) {
    keep(tensor, {&slice, static_cast<std::int64_t>(number)}, std::move(blocks[number]));
  }
}

std::string_view CheckedSlices::keep(const StoredTensor& tensor, Place place, std::string bytes) {
  if (source_->big_endian) {
    bundle::swap_bytes(std::as_writable_bytes(std::span(bytes)), dtype_swap_unit(tensor.dtype));
  }
  kept_bytes_ += bytes.size();
  while (kept_bytes_ > most_kept_bytes && !order_.empty()) {
    const auto oldest = kept_.find(order_.back());
    kept_bytes_ -= oldest->second.bytes.size();
    kept_.erase(oldest);
    order_.pop_back();
  }
  order_.push_front(place);
  return kept_.emplace(place, Block{std::move(bytes), order_.begin()}).first->second.bytes;
}

void CheckedSlices::tell(std::int64_t more) {
  done_ = std::min(total_, done_ + more);
  if (progress_) progress_(done_, total_);
}

}  // namespace cairn
