#include "layout/bundle/part_record.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bundle.pb.h"
#include "cairn/error.hpp"
#include "layout/bundle/entry.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/numbers.hpp"
#include "model/box_in_shape.hpp"

namespace cairn::bundle {
namespace {

// A record is: magic, u32 version, u64 payload bytes, u32 masked checksum of all else, payload.
constexpr std::string_view record_magic("\211CairnPR", 8);
constexpr std::uint32_t plain_version = 1, codec_version = 2;  // the latter if a piece is encoded
constexpr std::size_t frame_bytes = 24, version_at = 8, length_at = 12, crc_at = 20;

// The wire type in Protocol Buffers of a field that is a message.
constexpr std::uint64_t length_delimited = 2;

[[noreturn]] void bad_record(std::string reason) {
  throw Error(Code::data_loss, "a part record is damaged", std::move(reason));
}

// It covers the frame up to the checksum itself, then the payload.
std::uint32_t checksum(std::string_view bytes) {
  return crc32c(bytes.substr(frame_bytes), crc32c(bytes.substr(0, crc_at)));
}

// Fills the message, which keeps its memory from tensor to tensor.
void put(const StoredTensor& tensor, pb::PartTensor* out) {
  out->Clear();
  out->set_key(tensor.key);
  out->set_dtype(static_cast<std::int32_t>(tensor.dtype));
  out->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  out->set_sliced(tensor.sliced);
  for (const auto& slice : tensor.slices) {
    auto* to = out->add_slices();
    to->mutable_start()->Add(slice.box.start.begin(), slice.box.start.end());
    to->mutable_extent()->Add(slice.box.extent.begin(), slice.box.extent.end());
    to->mutable_dash()->Add(slice.dash.begin(), slice.dash.end());
    to->set_file(slice.file);
    to->set_offset(slice.offset);
    to->set_size(slice.stored_bytes);
    to->set_crc32c(slice.crc32c);
    if (slice.codec == Codec::none) continue;
    to->set_codec(static_cast<std::int32_t>(slice.codec));
    to->set_raw_size(slice.raw_bytes);
    to->set_raw_crc32c(slice.raw_crc32c);
  }
}

// Without checks; problem() makes them.
Piece get(const pb::PartSlice& from) {
  Piece slice;
  slice.box.start.assign(from.start().begin(), from.start().end());
  slice.box.extent.assign(from.extent().begin(), from.extent().end());
  slice.dash.assign(from.dash().begin(), from.dash().end());
  slice.file = from.file();
  slice.offset = from.offset();
  slice.stored_bytes = slice.raw_bytes = from.size();
  slice.crc32c = from.crc32c();
  slice.codec = static_cast<Codec>(from.codec());
  if (slice.codec != Codec::none) {
    slice.raw_bytes = from.raw_size();
    slice.raw_crc32c = from.raw_crc32c();
  }
  return slice;
}

// What is wrong with a slice; empty if nothing is.
std::string problem(const StoredTensor& tensor, const Piece& slice, int num_files) {
  const bool inside = lies_inside(slice.box, tensor.shape) &&
                      (slice.dash.empty() || slice.dash.size() == slice.box.rank());
  if (!inside) return cat("a slice lies outside its shape ", shape_text(tensor.shape));
  auto why = size_problem(tensor.dtype, slice.box.count(), slice);
  if (why.empty()) why = offset_problem(slice.offset, slice.stored_bytes);
  if (!why.empty() || (slice.file >= 0 && slice.file < num_files)) return why;
  return cat("it lies in data file ", slice.file, ", but there are ", num_files);
}

void put(const PartUpload& upload, pb::PartUpload* out) {
  out->set_file(upload.file);
  out->set_key(upload.key);
  out->set_id(upload.id);
  out->set_checks(upload.checks);
  out->set_mark(upload.mark);
  for (const auto& [number, tag] : upload.tags) {
    auto* to = out->add_tags();
    to->set_number(number);
    to->set_tag(tag);
  }
  out->set_last(upload.last);
  if (!upload.ends) return;
  out->mutable_ends()->set_tail_offset(upload.ends->tail_offset);
  out->mutable_ends()->set_tail(upload.ends->tail);
  out->mutable_ends()->set_held(upload.ends->held);
}

PartUpload get(const pb::PartUpload& in) {
  PartUpload upload{in.file(), in.key(), in.id(), in.checks(), in.mark(), {}, in.last()};
  for (const auto& one : in.tags()) upload.tags[one.number()] = one.tag();
  if (!in.has_ends()) return upload;
  upload.ends = {in.ends().tail_offset(), in.ends().tail(), in.ends().held()};
  return upload;
}

bool is_encoded(const StoredTensor& tensor) {
  return std::any_of(tensor.slices.begin(), tensor.slices.end(),
                     [](const auto& slice) { return slice.codec != Codec::none; });
}

// Checks all that a recovery relies on, as it puts these entries into an index.
StoredTensor get(const pb::PartTensor& in, int num_files, std::uint32_t version) {
  StoredTensor tensor;
  tensor.key = in.key();
  const auto refuse = [&](const std::string& why) {
    bad_record(cat("tensor ", key_text(tensor.key), ": ", why));
  };
  if (tensor.key.empty()) refuse("it has no key");
  const auto dtype = dtype_from_number(in.dtype());
  if (!dtype) refuse(cat("its dtype number ", in.dtype(), " is none that is ever stored"));
  tensor.dtype = *dtype;
  tensor.shape.assign(in.shape().begin(), in.shape().end());
  tensor.sliced = in.sliced();
  std::string why;
  if (!checked_count(tensor.shape, &why)) refuse(why);
  if (in.slices_size() == 0) refuse("it has no slice");
  tensor.slices.reserve(static_cast<std::size_t>(in.slices_size()));
  for (const auto& from : in.slices()) {
    tensor.slices.push_back(get(from));
    why = problem(tensor, tensor.slices.back(), num_files);
    if (!why.empty()) refuse(why);
  }
  if (version < codec_version && is_encoded(tensor)) {
    refuse(cat("a slice is encoded, which version ", version, " knows nothing of"));
  }
  return tensor;
}

}  // namespace

std::string encode_part_record(const PartRecord& record) {
  return encode_part_record(record, record.tensors);
}

std::string encode_part_record(const PartRecord& record, std::span<const StoredTensor> tensors) {
  return encode_part_record(record, [&](const auto& take) {
    for (const auto& tensor : tensors) take(tensor);
  });
}

std::string encode_part_record(const PartRecord& record, const EachTensor& each,
                               std::size_t about_bytes) {
  pb::Part part;
  part.set_uuid(record.uuid);
  part.set_fingerprint(record.fingerprint);
  part.set_part(record.part);
  part.set_parts(record.parts);
  part.set_num_files(record.num_files);
  part.set_meta(encode_meta(record.meta));
  for (const auto& upload : record.uploads) put(upload, part.add_uploads());
  std::string bytes(record_magic);
  bytes.reserve(about_bytes);
  append_u32(bytes, 0);  // room for the version, for the length, and for the checksum
  append_u64(bytes, 0);
  append_u32(bytes, 0);
  part.AppendToString(&bytes);
  // Tensors are appended to the message one by one, through one PartTensor that keeps its memory:
  // all of them at once would take as many small allocations as there are slices.
  pb::PartTensor one;
  std::size_t count = 0;
  bool encoded = false;
  each([&](const StoredTensor& tensor) {
    encoded = encoded || is_encoded(tensor);
    put(tensor, &one);
    const auto size = one.ByteSizeLong();
    append_varint(bytes, pb::Part::kTensorsFieldNumber << 3 | length_delimited);
    append_varint(bytes, size);
    if (bytes.size() - frame_bytes + size > 0x7fffffff) {
      throw Error(
          Code::invalid_argument,
          cat("the part record of a rank takes more than 2 GiB from its tensor ", count, " on"),
          "Protocol Buffers hold no larger message", "Give the rank fewer slices.");
    }
    one.AppendToString(&bytes);
    ++count;
  });
  // Version, length and checksum are known only now.
  std::string number;
  append_u32(number, encoded ? codec_version : plain_version);
  bytes.replace(record_magic.size(), 4, number);
  number.clear();
  append_u64(number, bytes.size() - frame_bytes);
  bytes.replace(length_at, 8, number);
  number.clear();
  append_u32(number, crc_mask(checksum(bytes)));
  bytes.replace(crc_at, 4, number);
  return bytes;
}

void check_record_frame(std::string_view first, std::uint64_t file_bytes) {
  if (first.size() < frame_bytes) {
    bad_record(
        cat("it has ", first.size(), " bytes, fewer than the ", frame_bytes, " of its frame"));
  }
  if (first.substr(0, record_magic.size()) != record_magic)
    bad_record("it does not begin as a part record does");
  if (const auto found = load_u32(&first[version_at]);
      found != plain_version && found != codec_version) {
    bad_record(cat("its version is ", found, ", this program reads versions ", plain_version,
                   " and ", codec_version));
  }
  const auto length = load_u64(&first[12]);
  if (length != file_bytes - frame_bytes) {
    bad_record(cat("it should hold ", length, " bytes, but holds ", file_bytes - frame_bytes));
  }
}

PartRecord decode_part_record(std::string_view bytes) {
  check_record_frame(bytes, bytes.size());
  if (crc_unmask(load_u32(&bytes[crc_at])) != checksum(bytes)) bad_record("checksum mismatch");
  pb::Part part;
  const auto payload = bytes.substr(frame_bytes);
  if (payload.size() > 0x7fffffff ||
      !part.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    bad_record("its contents cannot be parsed");
  }
  PartRecord record;
  record.uuid = part.uuid();
  record.fingerprint = part.fingerprint();
  record.part = part.part();
  record.parts = part.parts();
  record.num_files = part.num_files();
  if (record.part < 0 || record.part >= record.parts) {
    bad_record(cat("it calls itself part ", record.part, " of ", record.parts));
  }
  if (record.num_files < 1) bad_record(cat("it speaks of ", record.num_files, " data files"));
  record.meta = decode_meta(part.meta());
  record.tensors.reserve(static_cast<std::size_t>(part.tensors_size()));
  const auto version = load_u32(&bytes[version_at]);
  for (const auto& tensor : part.tensors()) {
    record.tensors.push_back(get(tensor, record.num_files, version));
  }
  for (const auto& upload : part.uploads()) record.uploads.push_back(get(upload));
  return record;
}

}  // namespace cairn::bundle
