#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <algorithm>
#include <deque>
#include <string_view>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bundle.pb.h"
#include "cairn/error.hpp"
#include "format/bundle/entry.hpp"
#include "format/bundle/index.hpp"
#include "format/bundle/key_text.hpp"
#include "format/bundle/slice_key.hpp"

namespace cairn::bundle {
namespace {

class StringFile : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string bytes;
};

// LevelDB asserts that a builder is closed, also when an exception unwinds.
struct ClosedBuilder : leveldb::TableBuilder {
  using TableBuilder::TableBuilder;
  ~ClosedBuilder() {
    if (!closed) Abandon();
  }
  bool closed = false;
};

// One key of the index. Without a slice: the full entry of a sliced tensor.
struct Item {
  std::string_view key;
  const StoredTensor* tensor;
  const StoredSlice* slice;
};

[[noreturn]] void refuse(const StoredTensor& tensor, std::string why) {
  throw Error(Code::invalid_argument,
              cat("tensor ", key_text(tensor.key), " cannot be put into an index"), std::move(why))
      .of_tensor(tensor.key);
}

void check(const StoredTensor& tensor, int num_files) {
  if (tensor.key.empty()) refuse(tensor, "the empty key is the header's");
  if (tensor.key[0] == '\0') refuse(tensor, "keys that begin with a zero byte are those of slices");
  if (!dtype_from_number(static_cast<std::int64_t>(tensor.dtype)))
    refuse(tensor, "it has no dtype");
  std::string why;
  if (!checked_count(tensor.shape, &why)) refuse(tensor, why);
  if (tensor.slices.empty() || (!tensor.sliced && tensor.slices.size() > 1)) {
    refuse(tensor, cat("it is ", tensor.sliced ? "sliced" : "plain", " with ", tensor.slices.size(),
                       " slices"));
  }
  for (const auto& slice : tensor.slices) {
    const auto& box = slice.box;
    bool inside =
        box.start.size() == tensor.shape.size() && box.extent.size() == tensor.shape.size();
    for (std::size_t d = 0; inside && d < tensor.shape.size(); ++d) {
      inside = box.start[d] >= 0 && box.extent[d] >= 0 && box.start[d] <= tensor.shape[d] &&
               box.extent[d] <= tensor.shape[d] - box.start[d];
    }
    if (!inside) refuse(tensor, cat("a slice lies outside its shape ", shape_text(tensor.shape)));
    if (!tensor.sliced && !box.is_whole(tensor.shape))
      refuse(tensor, "it is plain, but its slice is not the whole");
    why = size_problem(tensor.dtype, box.count(), slice.size);
    if (!why.empty()) refuse(tensor, why);
    if (slice.file < 0 || slice.file >= num_files) {
      refuse(tensor, cat("it lies in data file ", slice.file, ", but there are ", num_files));
    }
    std::int64_t end = 0;
    if (slice.offset < 0 || __builtin_add_overflow(slice.offset, slice.size, &end)) {
      refuse(tensor, cat("its offset ", slice.offset, " is impossible"));
    }
    for (std::size_t d = 0; d < slice.dash.size(); ++d) {
      if (slice.dash[d] && (d >= box.rank() || box.start[d] || box.extent[d] != tensor.shape[d])) {
        refuse(tensor, "a dimension of a slice is called whole, but is not");
      }
    }
  }
}

bool is_plain(const StoredTensor& tensor) {
  return !tensor.sliced ||
         (tensor.slices.size() == 1 && tensor.slices[0].box.is_whole(tensor.shape));
}

// The value of one key after the other, made by messages that keep their memory: an index has one
// for each slice. What a call returns is good until the next one.
class EntryText {
 public:
  // Of a sliced tensor as a whole.
  const std::string& full(const StoredTensor& tensor) {
    begin(full_, tensor.dtype, tensor.shape);
    full_.clear_slices();
    ascending_.clear();
    for (const auto& slice : tensor.slices) ascending_.push_back(&slice);
    // TensorFlow registers slices in this order fastest.
    const auto by_box = [](auto a, auto b) { return a->box < b->box; };
    if (!std::is_sorted(ascending_.begin(), ascending_.end(), by_box)) {
      std::sort(ascending_.begin(), ascending_.end(), by_box);
    }
    for (const auto* slice : ascending_) {
      auto* listed = full_.add_slices();
      for (std::size_t d = 0; d < slice->box.rank(); ++d) {
        auto* extent = listed->add_extent();
        if (d < slice->dash.size() && slice->dash[d]) continue;
        extent->set_start(slice->box.start[d]);
        extent->set_length(slice->box.extent[d]);
      }
    }
    return text_of(full_);
  }

  // Of bytes in a data file.
  const std::string& place(const StoredTensor& tensor, const StoredSlice& slice) {
    begin(place_, tensor.dtype, slice.box.extent);
    place_.set_shard_id(slice.file);
    place_.set_offset(slice.offset);
    place_.set_size(slice.size);
    place_.set_crc32c(crc_mask(slice.crc32c));
    return text_of(place_);
  }

 private:
  // Not cleared as a whole, which would free the shape: all fields are set anew.
  static void begin(pb::Entry& entry, DType dtype, const Dims& shape) {
    entry.set_dtype(static_cast<std::int32_t>(dtype));
    auto* to = entry.mutable_shape();
    to->clear_dim();
    for (const auto extent : shape) to->add_dim()->set_size(extent);
  }
  const std::string& text_of(const pb::Entry& entry) {
    entry.SerializeToString(&text_);
    return text_;
  }

  pb::Entry full_, place_;  // two, or one would make the other's memory anew
  std::vector<const StoredSlice*> ascending_;
  std::string text_;
};

std::string header(int num_files) {
  pb::Header header;
  header.set_num_shards(num_files);
  header.mutable_version()->set_producer(1);
  return header.SerializeAsString();
}

}  // namespace

std::string build_index(int num_files, const std::vector<StoredTensor>& tensors) {
  if (num_files < 1) {
    throw Error(Code::invalid_argument,
                cat("an index of ", num_files, " data files is impossible"));
  }
  std::vector<Item> items;
  items.reserve(tensors.size());
  std::deque<std::string> slice_keys;
  // Keys of slices come before all others.
  for (const auto& tensor : tensors) {
    check(tensor, num_files);
    if (is_plain(tensor)) continue;
    for (const auto& slice : tensor.slices) {
      slice_keys.push_back(encode_slice_key(tensor.key, slice.box, slice.dash));
      items.push_back({slice_keys.back(), &tensor, &slice});
    }
  }
  for (const auto& tensor : tensors) {
    items.push_back({tensor.key, &tensor, is_plain(tensor) ? &tensor.slices[0] : nullptr});
  }
  const auto by_key = [](const auto& a, const auto& b) { return a.key < b.key; };
  if (!std::is_sorted(items.begin(), items.end(), by_key)) {
    std::sort(items.begin(), items.end(), by_key);
  }
  for (std::size_t i = 1; i < items.size(); ++i) {
    const auto& [key, tensor, slice] = items[i];
    if (key != items[i - 1].key) continue;
    refuse(*tensor, slice && key[0] == '\0'
                        ? cat("the slice ", box_text(slice->box), " comes twice")
                        : "its key comes twice");
  }

  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  options.block_size = std::size_t{64} << 20;
  options.block_restart_interval = 16;
  StringFile file;
  ClosedBuilder table(options, &file);
  table.Add("", header(num_files));
  EntryText text;
  for (const auto& [key, tensor, slice] : items) {
    table.Add({key.data(), key.size()}, slice ? text.place(*tensor, *slice) : text.full(*tensor));
  }
  table.closed = true;
  if (const auto status = table.Finish(); !status.ok()) {
    throw Error(Code::internal, cat("the index could not be built: ", status.ToString()));
  }
  return std::move(file.bytes);
}

}  // namespace cairn::bundle
