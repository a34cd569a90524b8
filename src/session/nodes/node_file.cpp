// Writes and reads a rank's part of a checkpoint on the nodes.
#include "session/nodes/node_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "exchange/chunks.hpp"
#include "layout/offsets.hpp"
#include "model/runs.hpp"
#include "store/nodes/sets.hpp"

namespace cairn::tier {

using protect::nth;

namespace {

constexpr std::array<char, 8> magic{'C', 'a', 'i', 'r', 'n', 'P', 't', '1'};
// Entries begin at multiples of it in the data.
constexpr std::int64_t alignment = 64;

struct Head {
  std::array<char, 8> magic;
  // `stripes` is a number of checksums, `data_begin` an offset in the file.
  std::int64_t record_bytes = 0, stripes = 0, data_begin = 0, data_bytes = 0, unused[2] = {};
  std::uint32_t reserved = 0;
  std::uint32_t crc32c = 0;  // of the part of the head before it, the record and the stripes
};
static_assert(sizeof(Head) == 64 && std::is_trivially_copyable_v<Head>);

std::uint32_t checksum(const Head& head, std::string_view record,
                       const std::vector<std::uint32_t>& stripes) {
  auto crc = crc32c(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, crc32c)));
  crc = crc32c(record, crc);
  return crc32c(std::as_bytes(std::span(stripes)), crc);
}

std::int64_t stripes_of(std::int64_t bytes) { return (bytes + stripe_bytes - 1) / stripe_bytes; }

// Writes consecutive bytes, and computes the checksums of their stripes.
class Stripes {
 public:
  Stripes(io::File& file, std::int64_t begin, std::int64_t bytes)
      : file_(file), begin_(begin), crcs_(nth(stripes_of(bytes))) {}

  // `stays`: the bytes do not change until the file is closed, so that they may be written later
  // without a copy.
  void append(std::span<const std::byte> bytes, bool stays) {
    while (!bytes.empty()) {
      const auto left = nth(stripe_bytes - end_ % stripe_bytes);
      const auto piece = bytes.first(std::min(left, bytes.size()));
      auto& crc = crcs_[nth(end_ / stripe_bytes)];
      crc = crc32c(piece, crc);
      put(piece, stays);
      bytes = bytes.subspan(piece.size());
    }
  }
  void finish() { flush(); }
  const std::vector<std::uint32_t>& crcs() const { return crcs_; }
  std::int64_t end() const { return end_; }

 private:
  // Small pieces share one system call.
  void put(std::span<const std::byte> piece, bool stays) {
    // A large piece is not worth the copy.
    if (piece.size() >= gathered_most / 4) {
      flush();
      if (stays) {
        file_.write_behind(begin_ + end_, piece);
      } else {
        file_.write_at(begin_ + end_, piece);
      }
    } else {
      if (gathered_.size() + piece.size() > gathered_most) flush();
      gathered_.insert(gathered_.end(), piece.begin(), piece.end());
    }
    end_ += static_cast<std::int64_t>(piece.size());
  }
  void flush() {
    if (gathered_.empty()) return;
    file_.write_at(begin_ + end_ - static_cast<std::int64_t>(gathered_.size()), gathered_);
    gathered_.clear();
  }

  static constexpr std::size_t gathered_most = std::size_t{256} << 10;
  io::File& file_;
  std::int64_t begin_, end_ = 0;
  std::vector<std::uint32_t> crcs_;
  std::vector<std::byte> gathered_;
};

// Sets where the entries lie, and returns where they end.
std::int64_t place(Outgoing& out) {
  std::int64_t end = 0;
  for (auto& entry : out.entries) {
    auto& slice = entry.slices.front();
    slice.file = 0;
    slice.offset = (end + alignment - 1) / alignment * alignment;
    end = slice.offset + slice.stored_bytes;
  }
  return end;
}

void write_entry(Stripes& to, const StoredTensor& entry, const Outgoing::Bytes& bytes,
                 std::vector<std::byte>& buffer) {
  if (!bytes.run.empty()) return to.append(bytes.run, true);
  if (!bytes.slice) return;
  const auto part = entry.slices.front().box.relative_to(bytes.slice->box.start);
  const auto item = static_cast<std::int64_t>(dtype_size(entry.dtype));
  for (const auto& chunk : plan::cut_into_chunks(part, item, cached_bytes)) {
    buffer.resize(nth(chunk.bytes));
    bytes.slice->memory->read(chunk.box, buffer.data());
    to.append(buffer, false);
  }
}

// Checks the sizes in the head against the size of the file.
// Each size is compared with the room that is left before it is added to others, so that no sum
// overflows, whatever the head says.
bool is_sound(const Head& head, std::int64_t size) {
  constexpr auto head_bytes = static_cast<std::int64_t>(sizeof head);
  const auto room = size - head_bytes;
  if (head.magic != magic || head.data_bytes < 0 || head.record_bytes < 0 ||
      head.record_bytes > room || head.data_begin > size || head.data_begin < 0) {
    return false;
  }
  return head.data_bytes == size - head.data_begin && head.stripes == stripes_of(head.data_bytes) &&
         head.stripes <= room / 4 &&
         head.data_begin == next_page(head_bytes + head.record_bytes + 4 * head.stripes);
}

}  // namespace

// The head comes last, since it has the checksums. A crash before that leaves a file without the
// magic.
std::int64_t write_part(const Address& at, bundle::PartRecord record, Outgoing& out, bool sync) {
  Head head{magic};
  head.data_bytes = place(out);
  const auto text = bundle::encode_part_record(record, out.entries);
  head.record_bytes = static_cast<std::int64_t>(text.size());
  head.stripes = stripes_of(head.data_bytes);
  head.data_begin =
      next_page(static_cast<std::int64_t>(sizeof head) + head.record_bytes + 4 * head.stripes);
  const auto file = at.create();
  Stripes data(*file, head.data_begin, head.data_bytes);
  std::vector<std::byte> buffer;
  static constexpr std::array<std::byte, alignment> zeros = {};
  for (std::size_t i = 0; i < out.entries.size(); ++i) {
    const auto gap = out.entries[i].slices.front().offset - data.end();
    data.append(std::span(zeros).first(nth(gap)), false);
    write_entry(data, out.entries[i], out.bytes[i], buffer);
  }
  data.finish();
  head.crc32c = checksum(head, text, data.crcs());
  std::string front(reinterpret_cast<const char*>(&head), sizeof head);
  front += text;
  front.append(reinterpret_cast<const char*>(data.crcs().data()), 4 * data.crcs().size());
  front.resize(nth(head.data_begin));
  file->write_at(0, std::as_bytes(std::span(front)));
  if (sync) file->sync();
  file->close();
  return head.data_begin + head.data_bytes;
}

NodeFile::NodeFile(const Address& at, const std::string& uuid)
    : path_(at.path()), file_(at.open_read()) {
  const auto size = file_->size();
  Head head;
  if (size < static_cast<std::int64_t>(sizeof head)) damaged("it is too short");
  file_->read_at(0, std::as_writable_bytes(std::span(&head, 1)));
  if (!is_sound(head, size)) damaged("its head is none");
  std::string text(nth(head.record_bytes), '\0');
  stripes_.resize(nth(head.stripes));
  file_->read_at(sizeof head, std::as_writable_bytes(std::span(text)));
  file_->read_at(static_cast<std::int64_t>(sizeof head) + head.record_bytes,
                 std::as_writable_bytes(std::span(stripes_)));
  if (checksum(head, text, stripes_) != head.crc32c) damaged("checksum mismatch of its record");
  record_end_ = static_cast<std::int64_t>(sizeof head) + head.record_bytes + 4 * head.stripes;
  data_begin_ = head.data_begin;
  data_bytes_ = head.data_bytes;
  record_ = bundle::decode_part_record(text);
  if (record_.uuid != uuid) damaged("it is of another save");
  // Reads trust these places.
  for (const auto& entry : record_.tensors) {
    const auto& slice = entry.slices.at(0);
    if (slice.codec != Codec::none) damaged(cat("tensor '", entry.key, "' is encoded"));
    if (slice.offset < 0 || slice.stored_bytes < 0 || slice.stored_bytes > data_bytes_ ||
        slice.offset > data_bytes_ - slice.stored_bytes) {
      damaged(cat("tensor '", entry.key, "' lies outside of it"));
    }
  }
}

void NodeFile::damaged(const std::string& why) const {
  damaged_ = true;
  throw Error(Code::data_loss, "a part of a checkpoint on this node is damaged", why)
      .at(path_.string());
}

void NodeFile::read_stripe(std::int64_t stripe, std::span<std::byte> to) const {
  file_->read_at(data_begin_ + stripe * stripe_bytes, to);
  if (crc32c(to) != stripes_[nth(stripe)]) damaged(cat("checksum mismatch in stripe ", stripe));
}

// A stripe that is wanted whole is read to its destination. Of others the last one is kept, since
// the next read often continues in it.
void NodeFile::read(std::int64_t offset, std::span<std::byte> to) const {
  try {
    while (!to.empty()) {
      const auto stripe = offset / stripe_bytes;
      const auto begin = stripe * stripe_bytes;
      const auto bytes = std::min(stripe_bytes, data_bytes_ - begin);
      const auto here = std::min(to.size(), nth(begin + bytes - offset));
      if (static_cast<std::int64_t>(here) == bytes) {
        read_stripe(stripe, to.first(here));
      } else {
        if (in_stripe_ != stripe) {
          in_stripe_ = -1;
          stripe_.resize(nth(bytes));
          read_stripe(stripe, stripe_);
          in_stripe_ = stripe;
        }
        std::memcpy(to.data(), stripe_.data() + (offset - begin), here);
      }
      offset += static_cast<std::int64_t>(here);
      to = to.subspan(here);
    }
  } catch (const Error&) {
    damaged_ = true;
    throw;
  }
}

// Parity also covers these bytes, so wrong ones would spoil what is computed from this part.
void NodeFile::verify_gap() const {
  std::vector<std::byte> gap(nth(data_begin_ - record_end_));
  file_->read_at(record_end_, gap);
  const bool zeros =
      std::all_of(gap.begin(), gap.end(), [](std::byte one) { return one == std::byte{0}; });
  if (!zeros) damaged("between its record and its data there is something");
}

void NodeFile::verify() const {
  verify_gap();
  std::vector<std::byte> buffer(nth(std::min(stripe_bytes, data_bytes_)));
  for (std::int64_t stripe = 0; stripe < std::ssize(stripes_); ++stripe) {
    const auto at = stripe * stripe_bytes;
    read(at, std::span(buffer).first(nth(std::min(stripe_bytes, data_bytes_ - at))));
  }
}

// Blocks are those of the erasure code, stripes those of the checksums: a bad stripe makes all
// blocks bad that it overlaps.
std::set<std::int64_t> NodeFile::bad_blocks(std::int64_t block_bytes, LogLevel level) const {
  std::set<std::int64_t> bad;
  const auto look = [&](std::int64_t begin, std::int64_t end, const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      log(level, error.what());
      for (auto block = begin / block_bytes; block * block_bytes < end; ++block) bad.insert(block);
    }
  };
  look(record_end_, data_begin_, [&] { verify_gap(); });
  std::vector<std::byte> buffer(nth(std::min(stripe_bytes, data_bytes_)));
  for (std::int64_t at = 0; at < data_bytes_; at += stripe_bytes) {
    const auto bytes = std::min(stripe_bytes, data_bytes_ - at);
    look(data_begin_ + at, data_begin_ + at + bytes, [&] {
      // A kept stripe would not show what the file holds now.
      in_stripe_ = -1;
      read(at, std::span(buffer).first(nth(bytes)));
    });
  }
  return bad;
}

namespace {

class NodeFileMemory : public SliceMemory {
 public:
  NodeFileMemory(std::shared_ptr<const NodeFile> part, std::int64_t offset, Dims extent,
                 std::int64_t item)
      : part_(std::move(part)), offset_(offset), extent_(std::move(extent)), item_(item) {}

  void read(const Box& box, std::byte* out) const override {
    if (box.empty()) return;
    read_from(0, 0, box, out);
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::invalid_argument, "a checkpoint on the nodes is not written into");
  }
  bool writable() const override { return false; }

 private:
  // Reads the rows of `box` in the dimensions from `dim` on. `index` is that of the element to
  // which the earlier dimensions lead. Whole dimensions are read as one run.
  void read_from(std::size_t dim, std::int64_t index, const Box& box, std::byte*& out) const {
    bool is_run = true;  // all dimensions after this one are whole
    std::int64_t behind = 1;
    for (auto d = dim + 1; d < extent_.size(); ++d) {
      is_run = is_run && box.start[d] == 0 && box.extent[d] == extent_[d];
      behind *= extent_[d];
    }
    if (dim >= extent_.size() || is_run) {
      const bool scalar = dim >= extent_.size();
      const auto first = scalar ? index : index + box.start[dim] * behind;
      const auto count = scalar ? 1 : box.extent[dim] * behind;
      const auto bytes = nth(count * item_);
      part_->read(offset_ + first * item_, {out, bytes});
      out += bytes;
      return;
    }
    for (std::int64_t i = 0; i < box.extent[dim]; ++i) {
      read_from(dim + 1, index + (box.start[dim] + i) * behind, box, out);
    }
  }

  std::shared_ptr<const NodeFile> part_;
  std::int64_t offset_;
  Dims extent_;
  std::int64_t item_;
};

}  // namespace

std::shared_ptr<SliceMemory> part_memory(std::shared_ptr<const NodeFile> part, std::int64_t offset,
                                         Dims extent, std::int64_t element_bytes) {
  return std::make_shared<NodeFileMemory>(std::move(part), offset, std::move(extent),
                                          element_bytes);
}

}  // namespace cairn::tier
