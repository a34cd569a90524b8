#include <algorithm>
#include <string_view>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bundle.pb.h"
#include "cairn/error.hpp"
#include "format/bundle/entry.hpp"
#include "format/bundle/index.hpp"
#include "format/bundle/key_text.hpp"
#include "format/bundle/numbers.hpp"
#include "format/bundle/slice_key.hpp"
#include "format/bundle/table_write.hpp"

namespace cairn::bundle {
namespace {

[[noreturn]] void refuse(const std::string& key, std::string why) {
  throw Error(Code::invalid_argument, cat("tensor ", key_text(key), " cannot be put into an index"),
              std::move(why))
      .of_tensor(key);
}
[[noreturn]] void refuse(const StoredTensor& tensor, std::string why) {
  refuse(tensor.key, std::move(why));
}

void check(const StoredTensor& tensor) {
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
    if (slice.file < 0) refuse(tensor, cat("it lies in data file ", slice.file));
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

// The value of one key after the other: an Entry of bundle.proto, spelled as protobuf spells it. An
// index has one for each slice, for which messages would take several times as long. What a call
// returns is good until the next one.
class EntryText {
 public:
  // Of a sliced tensor as a whole. `head`: how long it is before the slices.
  const std::string& full(const StoredTensor& tensor, std::int32_t& head) {
    begin(tensor.dtype, tensor.shape);
    head = static_cast<std::int32_t>(text_.size());
    ascending_.clear();
    for (const auto& slice : tensor.slices) ascending_.push_back(&slice);
    // TensorFlow registers slices in this order fastest.
    const auto by_box = [](auto a, auto b) { return a->box < b->box; };
    if (!std::is_sorted(ascending_.begin(), ascending_.end(), by_box)) {
      std::sort(ascending_.begin(), ascending_.end(), by_box);
    }
    for (const auto* slice : ascending_) {
      listed_.clear();
      for (std::size_t d = 0; d < slice->box.rank(); ++d) {
        extent_.clear();
        if (d >= slice->dash.size() || !slice->dash[d]) {
          put_number(extent_, 1, slice->box.start[d]);
          append_varint(extent_, 2 << 3);  // the length is there also when it is 0
          append_varint(extent_, static_cast<std::uint64_t>(slice->box.extent[d]));
        }
        put_message(listed_, 1, extent_);
      }
      put_message(text_, 7, listed_);
    }
    return text_;
  }

  // Of bytes in a data file.
  const std::string& place(const StoredTensor& tensor, const StoredSlice& slice) {
    begin(tensor.dtype, slice.box.extent);
    put_number(text_, 3, slice.file);
    put_number(text_, 4, slice.offset);
    put_number(text_, 5, slice.size);
    const auto crc = crc_mask(slice.crc32c);
    text_.push_back(6 << 3 | 5);
    for (int i = 0; i < 4; ++i) text_.push_back(static_cast<char>(crc >> (8 * i)));
    return text_;
  }

 private:
  // Left out where it is 0, as proto3 does. None of them is negative: check() has seen to it.
  static void put_number(std::string& out, int field, std::int64_t value) {
    if (value == 0) return;
    out.push_back(static_cast<char>(field << 3));
    append_varint(out, static_cast<std::uint64_t>(value));
  }
  static void put_message(std::string& out, int field, const std::string& bytes) {
    out.push_back(static_cast<char>(field << 3 | 2));
    append_varint(out, bytes.size());
    out.append(bytes);
  }
  void begin(DType dtype, const Dims& shape) {
    text_.clear();
    put_number(text_, 1, static_cast<std::int64_t>(dtype));
    listed_.clear();
    for (const auto size : shape) {
      extent_.clear();
      put_number(extent_, 1, size);
      put_message(listed_, 2, extent_);
    }
    put_message(text_, 2, listed_);
  }

  std::vector<const StoredSlice*> ascending_;
  std::string text_, listed_, extent_;
};

// The keys of a tensor's slices, ascending. Makes one after the other in the same memory, since
// there are as many as slices in the index.
class SliceKeys {
 public:
  struct Key {
    std::string_view key;
    const StoredSlice* slice;
  };

  void make(const StoredTensor& tensor) {
    text_.clear();
    ends_.clear();
    std::string front;
    append_slice_front(front, tensor.key, tensor.shape.size());
    front_bytes_ = front.size();
    for (const auto& slice : tensor.slices) {
      text_.append(front);
      append_slice_extents(text_, slice.box, slice.dash);
      ends_.push_back(text_.size());
    }
    keys_.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      keys_.push_back({std::string_view(text_).substr(begin, ends_[i] - begin), &tensor.slices[i]});
      begin = ends_[i];
    }
    // Slices that are ascending as boxes often are as keys, in which lengths come between starts.
    const auto before = [&](const Key& a, const Key& b) {
      return a.key.substr(front.size()) < b.key.substr(front.size());
    };
    const auto out_of_order = [&](const Key& a, const Key& b) { return !before(a, b); };
    const auto ascends = [&] {
      return std::adjacent_find(keys_.begin(), keys_.end(), out_of_order) == keys_.end();
    };
    if (ascends()) return;
    std::sort(keys_.begin(), keys_.end(), before);
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end(), out_of_order);
    if (twice == keys_.end()) return;
    refuse(tensor, cat("the slice ", box_text(twice->slice->box), " comes twice"));
  }
  const std::vector<Key>& all() const { return keys_; }
  std::size_t front_bytes() const { return front_bytes_; }  ///< that all of them begin with

 private:
  std::size_t front_bytes_ = 0;
  std::string text_;
  std::vector<std::size_t> ends_;
  std::vector<Key> keys_;
};

IndexEntry encode_sliced(const StoredTensor& tensor) {
  IndexEntry entry;
  entry.key = tensor.key;
  for (const auto& slice : tensor.slices) entry.files = std::max(entry.files, slice.file + 1);
  EntryText text;
  SliceKeys keys;
  keys.make(tensor);
  EntryChain chain;
  for (const auto& [key, slice] : keys.all()) {
    chain.add(key, text.place(tensor, *slice), keys.front_bytes());
  }
  entry.slices = chain.take();
  entry.value = text.full(tensor, entry.head);
  return entry;
}

std::string header(int num_files) {
  pb::Header header;
  header.set_num_shards(num_files);
  header.mutable_version()->set_producer(1);
  return header.SerializeAsString();
}

}  // namespace

IndexEntry encode_entry(const StoredTensor& tensor) {
  check(tensor);
  if (!is_plain(tensor)) return encode_sliced(tensor);
  IndexEntry entry;
  entry.key = tensor.key;
  entry.files = tensor.slices[0].file + 1;
  entry.value = EntryText().place(tensor, tensor.slices[0]);
  return entry;
}

IndexEntry encode_part(const StoredTensor& tensor, int part) {
  check(tensor);
  auto entry = encode_sliced(tensor);
  entry.part = part;
  return entry;
}

EncodedIndex::EncodedIndex(int num_files, std::vector<IndexEntry> entries)
    : num_files_(num_files), entries_(std::move(entries)) {
  if (num_files < 1) {
    throw Error(Code::invalid_argument,
                cat("an index of ", num_files, " data files is impossible"));
  }
  const auto before = [](const auto& a, const auto& b) {
    const auto by_key = a.key.compare(b.key);
    return by_key != 0 ? by_key < 0 : a.part < b.part;
  };
  if (!std::is_sorted(entries_.begin(), entries_.end(), before)) {
    std::stable_sort(entries_.begin(), entries_.end(), before);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto& [key, value, slices, files, part, head] = entries_[i];
    if (i > 0 && !before(entries_[i - 1], entries_[i])) refuse(key, "its key comes twice");
    if (files > num_files) {
      refuse(key, cat("it lies in data file ", files - 1, ", but there are ", num_files));
    }
  }
}

void EncodedIndex::write(const TakeBytes& take) const {
  TableWriter table(take);
  table.add("", header(num_files_));
  // Keys of slices come before all others.
  for (const auto& entry : entries_) table.add_chain(entry.slices);
  for (std::size_t i = 0; i < entries_.size();) {
    const auto& first = entries_[i];
    std::vector<std::string_view> value{first.value};
    while (++i < entries_.size() && entries_[i].key == first.key) {
      value.push_back(
          std::string_view(entries_[i].value).substr(static_cast<std::size_t>(entries_[i].head)));
    }
    table.add(first.key, value);
  }
  table.finish();
}

std::string build_index(int num_files, const std::vector<StoredTensor>& tensors) {
  std::vector<IndexEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& tensor : tensors) entries.push_back(encode_entry(tensor));
  std::string bytes;
  EncodedIndex(num_files, std::move(entries)).write([&](auto piece) { bytes += piece; });
  return bytes;
}

}  // namespace cairn::bundle
