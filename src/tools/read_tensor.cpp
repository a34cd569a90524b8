#include "tools/read_tensor.hpp"

#include <algorithm>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/state.hpp"
#include "exchange/chunks.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/offsets.hpp"
#include "model/sparse.hpp"

namespace cairn {
namespace {

constexpr std::int64_t chunk_bytes = std::int64_t{4} << 20, small_chunk_bytes = 64 << 10;

// The slices that a read of this box needs.
std::vector<const Piece*> touched(const CheckpointContents& contents, const StoredTensor& tensor,
                                  const Box& wanted) {
  const auto name = bundle::key_text(tensor.key);
  if (tensor.dtype == DType::variant) {
    throw Error(Code::unsupported, cat("tensor ", name, " is a variant"),
                "variants are objects of TensorFlow's own, which are listed but never decoded",
                "Read it with tf.train.load_checkpoint.")
        .of_tensor(tensor.key);
  }
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor ", name, " cannot be read"), tensor.problem,
                "cairn verify names everything that is damaged.")
        .at(contents.prefix)
        .of_tensor(tensor.key);
  }
  if (wanted.rank() != tensor.shape.size() || !Box::whole(tensor.shape).contains(wanted)) {
    throw Error(Code::invalid_argument, cat(box_text(wanted), " is no part of tensor ", name, " ",
                                            shape_text(tensor.shape)))
        .of_tensor(tensor.key);
  }
  require_stored(tensor, {wanted});
  std::vector<const Piece*> slices;
  for (const auto& slice : tensor.slices) {
    // A tensor without elements still has a checksum to check.
    if (!overlaps(slice.box, wanted) && slice.box != wanted) continue;
    decoder_of(contents, tensor, slice);
    slices.push_back(&slice);
  }
  return slices;
}

// The bytes of what a slice holds, without what fills up a chunk at an edge.
std::int64_t bytes_of(const StoredTensor& tensor, const Piece& slice) {
  if (slice.codec == Codec::none) return slice.stored_bytes;
  return slice.box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
}
std::int64_t bytes_of(const StoredTensor& tensor, const std::vector<const Piece*>& slices) {
  std::int64_t bytes = 0;
  for (const auto* slice : slices) bytes += bytes_of(tensor, *slice);
  return bytes;
}

void require_numbers(const StoredTensor& tensor) {
  if (tensor.dtype != DType::string) return;
  throw Error(Code::invalid_argument,
              cat("tensor ", bundle::key_text(tensor.key), " holds strings, not numbers"))
      .of_tensor(tensor.key);
}

void to_little_endian(const CheckpointContents& contents, const StoredTensor& tensor,
                      std::string& bytes) {
  if (!contents.big_endian) return;
  bundle::swap_bytes(std::as_writable_bytes(std::span(bytes)), dtype_swap_unit(tensor.dtype));
}

// Calls `take` for each part of `wanted` where a sparse tensor has no slices.
void each_gap(const StoredTensor& tensor, const Box& wanted, const TakeGap& take) {
  if (!tensor.sliced || !tensor.gaps) return;
  for (const auto& gap : tensor.gaps->boxes) {
    if (const auto common = intersect(gap, wanted)) take(*common, tensor.gaps->fill);
  }
}

// Limits memory: a few bytes of an index may stand for any number of elements.
void require_few_filled(const StoredTensor& tensor, const Box& wanted) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  // No overflow: the boxes are disjoint and the tensor has less than 2^63 bytes.
  std::int64_t elements = 0;
  each_gap(tensor, wanted, [&](const Box& gap, const auto&) { elements += gap.count(); });
  if (elements <= most_bytes / static_cast<std::int64_t>(dtype_size(tensor.dtype))) return;
  throw Error(Code::invalid_argument,
              cat("tensor ", bundle::key_text(tensor.key), ' ', shape_text(tensor.shape), ": ",
                  box_text(wanted), " is too much to be read at once"),
              cat(elements, " of its ", wanted.count(),
                  " elements were held by no rank, and take "
                  "more than 1 GiB where they are written out"),
              "Read a part of it (cairn cat: --slice).")
      .of_tensor(tensor.key);
}

// Reads the bytes of one piece in parts. An encoded piece is read and decoded as a whole first.
class PieceReader {
 public:
  PieceReader(const OpenCheckpoint& checkpoint, const StoredTensor& tensor, const Piece& piece)
      : piece_(piece) {
    if (piece.codec == Codec::none) {
      file_ = checkpoint.data(piece.file).open_read();
    } else {
      decoded_ = checkpoint.read(tensor, piece);
    }
  }
  void read(const plan::Chunk& chunk, std::string& bytes) const {
    const auto size = static_cast<std::size_t>(chunk.bytes);
    if (!file_) return void(bytes.assign(decoded_, static_cast<std::size_t>(chunk.offset), size));
    bytes.resize(size);
    file_->read_at(place_of(piece_, chunk.offset), std::as_writable_bytes(std::span(bytes)));
  }

 private:
  const Piece& piece_;
  std::unique_ptr<io::File> file_;
  std::string decoded_;
};

}  // namespace

std::int64_t value_bytes(const StoredTensor& tensor) {
  std::int64_t bytes = 0;
  for (const auto& slice : tensor.slices) bytes += bytes_of(tensor, slice);
  return bytes;
}

std::int64_t checked_bytes(const CheckpointContents& contents, const StoredTensor& tensor,
                           const Box& wanted) {
  require_numbers(tensor);
  return bytes_of(tensor, touched(contents, tensor, wanted));
}

void read_chunks(const OpenCheckpoint& checkpoint, const StoredTensor& tensor, const Box& wanted,
                 const TakeChunk& take, const TakeGap& take_gap, const Progress& progress) {
  require_numbers(tensor);
  const auto slices = touched(*checkpoint, tensor, wanted);
  const auto total = bytes_of(tensor, slices);
  const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  std::string bytes;
  std::int64_t done = 0;
  for (const auto* slice : slices) {
    if (slice->raw_bytes == 0) continue;
    const PieceReader piece(checkpoint, tensor, *slice);
    std::uint32_t crc = 0;
    const plan::ChunkCut cut(slice->box, item, chunk_bytes);
    for (std::int64_t number = 0; number < cut.count(); ++number) {
      const auto chunk = cut.chunk(number);
      piece.read(chunk, bytes);
      crc = crc32c(bytes, crc);
      done += chunk.bytes;
      if (progress) progress(done, total);
      to_little_endian(*checkpoint, tensor, bytes);
      take(chunk.box, bytes);
    }
    if (slice->codec != Codec::none) continue;  // decoding has compared its checksum
    if (crc != slice->crc32c) throw checksum_error(*checkpoint, tensor, *slice, crc);
  }
  each_gap(tensor, wanted, take_gap);
}

void read_chunks_unchecked(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                           const Box& wanted, const std::function<bool(const Box&)>& needed,
                           const TakeChunk& take, const TakeGap& take_gap,
                           const Progress& progress) {
  require_numbers(tensor);
  const auto slices = touched(*checkpoint, tensor, wanted);
  const auto total = bytes_of(tensor, slices);
  const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  std::string bytes;
  std::int64_t done = 0;
  for (const auto* slice : slices) {
    if (slice->raw_bytes == 0) continue;
    const PieceReader piece(checkpoint, tensor, *slice);
    const plan::ChunkCut cut(slice->box, item, small_chunk_bytes);
    cut.each_in(wanted, [&](std::int64_t number, const Box& common) {
      if (!needed(common)) return;
      const auto chunk = cut.chunk(number);
      piece.read(chunk, bytes);
      if (progress) progress(done + chunk.offset + chunk.bytes, total);
      to_little_endian(*checkpoint, tensor, bytes);
      take(chunk.box, bytes);
    });
    done += bytes_of(tensor, *slice);
  }
  each_gap(tensor, wanted, [&](const Box& gap, const std::string& element) {
    if (needed(gap)) take_gap(gap, element);
  });
}

std::string read_numbers(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                         const Box& wanted, const Progress& progress) {
  require_numbers(tensor);
  const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  checked_bytes(*checkpoint, tensor, wanted);  // throws for a wrong box before memory is allocated
  require_few_filled(tensor, wanted);
  std::string out(static_cast<std::size_t>(wanted.count() * item), '\0'), piece;
  const auto target = host_memory(tensor.dtype, out.data(), out.data(), wanted.extent, {});
  const auto take = [&](const Box& chunk, std::string& bytes) {
    const auto common = intersect(chunk, wanted);
    if (!common) return;
    const auto* from = &bytes;
    if (*common != chunk) {
      piece.resize(static_cast<std::size_t>(common->count() * item));
      host_memory(tensor.dtype, bytes.data(), nullptr, chunk.extent, {})
          ->read(common->relative_to(chunk.start), reinterpret_cast<std::byte*>(piece.data()));
      from = &piece;
    }
    target->write(common->relative_to(wanted.start),
                  reinterpret_cast<const std::byte*>(from->data()));
  };
  const auto fill = [&](const Box& gap, const std::string& element) {
    write_fill(*target, gap.relative_to(wanted.start), element);
  };
  read_chunks(checkpoint, tensor, wanted, take, fill, progress);
  return out;
}

std::vector<std::string> read_string_box(const OpenCheckpoint& checkpoint,
                                         const StoredTensor& tensor, const Box& wanted,
                                         const Progress& progress) {
  if (tensor.dtype != DType::string && tensor.dtype != DType::variant) {
    throw Error(Code::invalid_argument,
                cat("tensor ", bundle::key_text(tensor.key), " holds no strings"))
        .of_tensor(tensor.key);
  }
  const auto slices = touched(*checkpoint, tensor, wanted);
  const auto total = bytes_of(tensor, slices);
  const auto strides = row_major_strides(wanted.extent);
  std::vector<std::string> out(static_cast<std::size_t>(wanted.count()));
  std::int64_t done = 0;
  for (const auto* slice : slices) {
    auto values = checkpoint.read_strings(tensor, *slice);
    const auto inner = row_major_strides(slice->box.extent);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      std::int64_t at = 0;
      bool inside = true;
      for (std::size_t d = 0; d < strides.size(); ++d) {
        const auto index = slice->box.start[d] + rest / inner[d];
        rest %= inner[d];
        inside = inside && index >= wanted.start[d] && index < wanted.end(d);
        at += (index - wanted.start[d]) * strides[d];
      }
      if (inside) out[static_cast<std::size_t>(at)] = std::move(values[i]);
    }
    done += bytes_of(tensor, *slice);
    if (progress) progress(done, total);
  }
  return out;
}

}  // namespace cairn
