#include "layout/bundle/entry_read.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "layout/bundle/damage.hpp"
#include "layout/bundle/entry.hpp"

namespace cairn::bundle {
bool parse(google::protobuf::MessageLite& message, std::string_view bytes) {
  // protobuf counts bytes in int.
  return bytes.size() <= 0x7fffffff &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// A reader must be of min_consumer's version at least, and none of bad_consumers, as TensorFlow has
// it.
bool read_header(std::string_view value, CheckpointContents& contents) {
  pb::Header header;
  if (!parse(header, value)) damaged("its header cannot be parsed");
  if (header.num_shards() < 1) {
    damaged(cat("its header speaks of ", header.num_shards(), " data files"));
  }
  if (header.endianness() != 0 && header.endianness() != 1) {
    damaged(cat("its header has the unknown byte order ", header.endianness()));
  }
  const auto& version = header.version();
  const bool has_codecs = version.min_consumer() == codec_consumer;
  if (version.min_consumer() > plain_consumer && !has_codecs) {
    of_another_version(cat("its header asks for a reader of version ", version.min_consumer(),
                           ", this one has the versions ", plain_consumer, " and ",
                           codec_consumer));
  }
  for (const auto bad : version.bad_consumers()) {
    if (bad != plain_consumer && bad != codec_consumer) continue;
    of_another_version(cat("its header excludes readers of version ", bad));
  }
  contents.num_files = header.num_shards();
  contents.big_endian = header.endianness() == 1;
  return has_codecs;
}

std::optional<std::int64_t> read_type(const pb::Entry& entry, StoredTensor& tensor) {
  const auto dtype = dtype_from_number(entry.dtype());
  if (!dtype) {
    tensor.problem = cat("its dtype number ", entry.dtype(), " is none that is ever stored");
    return std::nullopt;
  }
  tensor.dtype = *dtype;
  if (entry.shape().unknown_rank()) {
    tensor.problem = "its shape has no known rank";
    return std::nullopt;
  }
  Dims shape;
  shape.reserve(static_cast<std::size_t>(std::min(entry.shape().dim_size(), 255)));
  for (const auto& dim : entry.shape().dim()) {
    shape.push_back(dim.size());
    // One more than there may be, so checked_count() refuses it, whatever the number in the file.
    if (shape.size() == 255) break;
  }
  const auto count = checked_count(shape, &tensor.problem);
  if (count) tensor.shape = std::move(shape);
  return count;
}

// Checks all numbers of an entry, so that later code can compute with them.
void read_place(const pb::Entry& entry, std::int64_t count, int num_files, bool has_codecs,
                StoredTensor& tensor) {
  Piece slice;
  slice.box = Box::whole(tensor.shape);
  slice.file = entry.shard_id();
  slice.offset = entry.offset();
  slice.stored_bytes = slice.raw_bytes = entry.size();
  slice.codec = static_cast<Codec>(entry.codec());
  if (slice.codec != Codec::none) {
    slice.raw_bytes = entry.raw_size();
    slice.raw_crc32c = crc_unmask(entry.raw_crc32c());
  }
  // An absent checksum is one whose masked form is 0, since writers leave zeros out. Whether that
  // is right shows when the data is read.
  slice.crc32c = crc_unmask(entry.crc32c());
  std::int64_t end = 0;
  tensor.problem = size_problem(tensor.dtype, count, slice);
  if (!tensor.problem.empty()) return;
  if (slice.codec != Codec::none && !has_codecs) {
    tensor.problem =
        cat("it is encoded with codec ", entry.codec(), ", of which the header says nothing");
  } else if (slice.file < 0 || slice.file >= num_files) {
    tensor.problem = cat("it lies in data file ", slice.file, ", but there are ", num_files);
  } else if (slice.offset < 0) {
    tensor.problem = cat("its offset ", slice.offset, " is negative");
  } else if (__builtin_add_overflow(slice.offset, slice.stored_bytes, &end)) {
    tensor.problem =
        cat("its ", slice.stored_bytes, " bytes at ", slice.offset, " end beyond 2^63");
  } else if (slice.stored_bytes == 0 && slice.crc32c != 0) {
    tensor.problem = "it has no bytes, but a checksum of some";
  } else {
    tensor.slices.push_back(std::move(slice));
  }
}

void read_extents(const pb::Slice& listed, std::vector<KeyExtent>& extents) {
  extents.clear();
  for (const auto& e : listed.extent()) {
    extents.push_back({e.start(), e.has_length() ? e.length() : -1});
  }
}

std::optional<Piece> read_box(StoredTensor& tensor, const std::vector<KeyExtent>& extents,
                              bool alone) {
  const auto& shape = tensor.shape;
  const auto refuse = [&](const std::string& why) {
    tensor.problem = cat("its slice ", extents_text(extents), ' ', why);
    return std::nullopt;
  };
  if (extents.size() != shape.size()) {
    return refuse(cat("has rank ", extents.size(), ", but its shape is ", shape_text(shape)));
  }
  Piece slice;
  bool all_dash = true, any_dash = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto [start, length] = extents[d];
    const bool dash = length == -1;
    if (dash && start != 0) return refuse(cat("has the start ", start, " without a length"));
    if (start < 0 || length < -1 || start > shape[d] || (!dash && length > shape[d] - start)) {
      return refuse(cat("lies outside its shape ", shape_text(shape)));
    }
    slice.box.start.push_back(start);
    slice.box.extent.push_back(dash ? shape[d] : length);
    slice.dash.push_back(dash);
    all_dash &= dash;
    any_dash |= dash;
  }
  // TensorFlow takes such an entry for a plain one, and finds no bytes in it.
  if (all_dash && alone) return refuse("is the whole tensor, which is stored without slices");
  if (!any_dash) slice.dash.clear();
  return slice;
}

// The slice's own entry has to say what the tensor's entry says of it.
void take_part(StoredTensor& tensor, Piece& slice, StoredTensor& part,
               const std::vector<KeyExtent>& extents) {
  const auto refuse = [&](const std::string& why) {
    tensor.problem = cat("the entry of its slice ", extents_text(extents), ' ', why);
  };
  if (part.sliced) return refuse("lists slices itself");
  if (!part.problem.empty()) return refuse(cat("is bad: ", part.problem));
  if (part.dtype != tensor.dtype) {
    return refuse(
        cat("has the dtype ", dtype_name(part.dtype), ", not ", dtype_name(tensor.dtype)));
  }
  if (part.shape != slice.box.extent) {
    return refuse(
        cat("has the shape ", shape_text(part.shape), ", not ", shape_text(slice.box.extent)));
  }
  // read_place() has added exactly one slice, or set a problem.
  auto& place = part.slices[0];
  place.box = std::move(slice.box), place.dash = std::move(slice.dash);
  tensor.slices.push_back(std::move(place));
  part = {};  // frees its memory
}

}  // namespace cairn::bundle
