#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bundle.pb.h"
#include "format/bundle/damage.hpp"
#include "format/bundle/entry.hpp"
#include "format/bundle/index.hpp"
#include "format/bundle/key_text.hpp"
#include "format/bundle/overlap.hpp"
#include "format/bundle/slice_key.hpp"
#include "format/bundle/table.hpp"

namespace cairn::bundle {
namespace {

constexpr std::int32_t consumer = 1;  // version of the format that this reader understands

bool parse(google::protobuf::MessageLite& message, std::string_view bytes) {
  return bytes.size() <= 0x7fffffff &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void read_header(const Table& table, CheckpointContents& contents) {
  if (table.entries.empty() || !table.entries[0].key.empty())
    damaged("its first entry is no header");
  pb::Header header;
  if (!parse(header, table.entries[0].value)) damaged("its header cannot be parsed");
  if (header.num_shards() < 1) {
    damaged(cat("its header speaks of ", header.num_shards(), " data files"));
  }
  if (header.endianness() != 0 && header.endianness() != 1) {
    damaged(cat("its header has the unknown byte order ", header.endianness()));
  }
  const auto& version = header.version();
  if (version.min_consumer() > consumer) {
    damaged(cat("its header asks for a reader of version ", version.min_consumer(),
                " or later, this one has version ", consumer));
  }
  const auto& bad = version.bad_consumers();
  if (std::find(bad.begin(), bad.end(), consumer) != bad.end()) {
    damaged(cat("its header excludes readers of version ", consumer));
  }
  contents.num_files = header.num_shards();
  contents.big_endian = header.endianness() == 1;
}

// dtype and shape, which all entries have. Returns the element count, or nothing and a problem.
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
    if (shape.size() == 255) break;
  }
  const auto count = checked_count(shape, &tensor.problem);
  if (count) tensor.shape = std::move(shape);
  return count;
}

// Where the bytes of a plain or slice entry are.
void read_place(const pb::Entry& entry, std::int64_t count, int num_files, StoredTensor& tensor) {
  StoredSlice slice;
  slice.box = Box::whole(tensor.shape);
  slice.file = entry.shard_id();
  slice.offset = entry.offset();
  slice.size = entry.size();
  // An absent checksum is one whose masked form is 0: writers leave zeros out. The data will tell.
  slice.crc32c = crc_unmask(entry.crc32c());
  std::int64_t end = 0;
  tensor.problem = size_problem(tensor.dtype, count, slice.size);
  if (!tensor.problem.empty()) return;
  if (slice.file < 0 || slice.file >= num_files) {
    tensor.problem = cat("it lies in data file ", slice.file, ", but there are ", num_files);
  } else if (slice.offset < 0) {
    tensor.problem = cat("its offset ", slice.offset, " is negative");
  } else if (__builtin_add_overflow(slice.offset, slice.size, &end)) {
    tensor.problem = cat("its ", slice.size, " bytes at ", slice.offset, " end beyond 2^63");
  } else if (slice.size == 0 && slice.crc32c != 0) {
    tensor.problem = "it has no bytes, but a checksum of some";
  } else {
    tensor.slices.push_back(std::move(slice));
  }
}

class Assembler {
 public:
  Assembler(const Table& table, CheckpointContents& contents)
      : table_(table), contents_(contents) {}

  void run() {
    const auto& entries = table_.entries;
    tensors_.resize(entries.size());
    hidden_.resize(entries.size());
    for (std::size_t i = 1; i < entries.size(); ++i) read_entry(i);
    for (const auto i : sliced_) assemble(i);
    std::int64_t bytes = 0;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (!hidden_[i]) finish(tensors_[i], bytes);
    }
  }

 private:
  void read_entry(std::size_t i) {
    auto& tensor = tensors_[i];
    tensor.key = table_.entries[i].key;
    if (!parse(entry_, table_.entries[i].value)) {
      tensor.problem = "its entry cannot be parsed";
      return;
    }
    const auto count = read_type(entry_, tensor);
    tensor.sliced = entry_.slices_size() > 0;
    if (tensor.sliced) {
      sliced_.push_back(i);
    } else if (count) {
      read_place(entry_, *count, contents_.num_files, tensor);
    }
  }

  std::size_t position(const std::string& key) const {
    const auto& entries = table_.entries;
    const auto at = std::lower_bound(entries.begin() + 1, entries.end(), key,
                                     [](const auto& e, const auto& k) { return e.key < k; });
    return at != entries.end() && at->key == key ? static_cast<std::size_t>(at - entries.begin())
                                                 : 0;
  }

  // Gives a tensor its slices from their own entries, which from here on are its parts only.
  void assemble(std::size_t i) {
    auto& tensor = tensors_[i];
    parse(entry_, table_.entries[i].value);
    const auto blame = [&](const std::string& problem) {
      if (tensor.problem.empty()) tensor.problem = problem;
    };
    std::vector<Box> boxes;
    std::vector<KeyExtent> extents;
    for (const auto& listed : entry_.slices()) {
      extents.clear();
      for (const auto& e : listed.extent()) {
        extents.push_back({e.start(), e.has_length() ? e.length() : -1});
      }
      const auto part = position(encode_slice_key(tensor.key, extents));
      if (part && hidden_[part]) blame(cat("it lists the slice ", extents_text(extents), " twice"));
      if (part) hidden_[part] = true;
      // Its other parts are hidden too, so that one problem is not told many times.
      if (!tensor.problem.empty()) continue;
      auto slice = read_extents(tensor, extents, entry_.slices_size() == 1);
      if (slice && !part) blame(cat("its slice ", extents_text(extents), " has no entry"));
      if (slice && part) take_part(tensor, *slice, tensors_[part], extents);
      if (tensor.problem.empty()) boxes.push_back(tensor.slices.back().box);
    }
    if (!tensor.problem.empty()) return;
    if (const auto pair = find_overlap(boxes)) {
      blame(cat("its slices ", box_text(boxes[pair->first]), " and ", box_text(boxes[pair->second]),
                " overlap"));
    }
  }

  // The box of a listed slice, or nothing and a problem.
  static std::optional<StoredSlice> read_extents(StoredTensor& tensor,
                                                 const std::vector<KeyExtent>& extents,
                                                 bool alone) {
    const auto& shape = tensor.shape;
    const auto refuse = [&](const std::string& why) {
      tensor.problem = cat("its slice ", extents_text(extents), ' ', why);
      return std::nullopt;
    };
    if (extents.size() != shape.size()) {
      return refuse(cat("has rank ", extents.size(), ", but its shape is ", shape_text(shape)));
    }
    StoredSlice slice;
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

  static void take_part(StoredTensor& tensor, StoredSlice& slice, StoredTensor& part,
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
    auto& place = part.slices[0];
    slice.file = place.file, slice.offset = place.offset, slice.size = place.size;
    slice.crc32c = place.crc32c;
    part = {};  // frees what is not needed twice
    tensor.slices.push_back(std::move(slice));
  }

  void finish(StoredTensor& tensor, std::int64_t& bytes) {
    if (tensor.key[0] == '\0') {
      if (const auto orphan = decode_slice_key(tensor.key)) {
        tensor.problem = cat("it is the slice ", extents_text(orphan->extents), " of ",
                             key_text(orphan->tensor), ", which does not list it");
      }
    }
    std::int64_t total = bytes;
    bool overflow = false;
    for (const auto& slice : tensor.slices) {
      overflow = overflow || __builtin_add_overflow(total, slice.size, &total);
    }
    if (overflow && tensor.problem.empty()) {
      tensor.problem = "with it the checkpoint would have 2^63 bytes or more";
    }
    if (tensor.problem.empty()) {
      bytes = total;
    } else {
      tensor.slices.clear();
    }
    contents_.tensors.push_back(std::move(tensor));
  }

  const Table& table_;
  CheckpointContents& contents_;
  pb::Entry entry_;                    // reused
  std::vector<StoredTensor> tensors_;  // one an entry of the table
  std::vector<bool> hidden_;           // entries that are some tensor's slices
  std::vector<std::size_t> sliced_;
};

}  // namespace

CheckpointContents parse_index(std::string_view bytes, const Limits& limits) {
  const auto table = read_table(bytes, limits);
  CheckpointContents contents;
  read_header(table, contents);
  Assembler(table, contents).run();
  return contents;
}

}  // namespace cairn::bundle
