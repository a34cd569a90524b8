#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/checksum.hpp"
#include "base/merge_streams.hpp"
#include "base/text.hpp"
#include "bundle.pb.h"
#include "cairn/error.hpp"
#include "layout/bundle/entry.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/slice_key.hpp"
#include "layout/bundle/table_write.hpp"
#include "model/box_in_shape.hpp"

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

void check(const StoredTensor& tensor, const Piece& slice) {
  const auto& shape = tensor.shape;
  const auto& box = slice.box;
  if (!lies_inside(box, shape)) {
    refuse(tensor, cat("a slice lies outside its shape ", shape_text(shape)));
  }
  if (!tensor.sliced && !box.is_whole(shape))
    refuse(tensor, "it is plain, but its slice is not the whole");
  auto why = size_problem(tensor.dtype, box.count(), slice);
  if (!why.empty()) refuse(tensor, why);
  if (slice.file < 0) refuse(tensor, cat("it lies in data file ", slice.file));
  why = offset_problem(slice.offset, slice.stored_bytes);
  if (!why.empty()) refuse(tensor, why);
  if (!is_whole_where_dashed(box, slice.dash, shape)) {
    refuse(tensor, "a dimension of a slice is called whole, but is not");
  }
}

// Refuses what no reader would accept.
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
  for (const auto& slice : tensor.slices) check(tensor, slice);
}

// Whether the tensor has one entry, without entries of slices.
bool is_plain(const StoredTensor& tensor) {
  return !tensor.sliced ||
         (tensor.slices.size() == 1 && tensor.slices[0].box.is_whole(tensor.shape));
}

}  // namespace

// Makes values of keys: each is an Entry of bundle.proto in the encoding of protobuf. An index has
// one for each slice, and protobuf's own messages would take several times as long. The result of a
// call is valid until the next one. Numbers of fields are those of bundle.proto.
class EntryText {
 public:
  // The value of a sliced tensor's own key. `head`: the number of bytes before its slices.
  std::string_view full(const StoredTensor& tensor, std::int32_t& head) {
    ascending_.clear();
    for (const auto& slice : tensor.slices) ascending_.push_back(&slice);
    // TensorFlow registers slices in this order fastest.
    const auto by_box = [](auto a, auto b) { return a->box < b->box; };
    if (!std::is_sorted(ascending_.begin(), ascending_.end(), by_box)) {
      std::sort(ascending_.begin(), ascending_.end(), by_box);
    }
    const auto rank = tensor.shape.size();
    // Room for the longest possible value, so that nothing has to be checked while it is written.
    make_room((1 + ascending_.size()) * (most_front_bytes + rank * most_extent_bytes));
    auto* at = begin(tensor.dtype, tensor.shape);
    head = static_cast<std::int32_t>(at - text_.data());
    for (const auto* slice : ascending_) {
      const auto is_dash = [&](std::size_t d) { return d < slice->dash.size() && slice->dash[d]; };
      const auto& box = slice->box;
      std::size_t listed = 0;
      for (std::size_t d = 0; d < box.rank(); ++d) listed += 2 + extent_bytes(box, d, is_dash(d));
      at = put_head(at, 7, listed);
      for (std::size_t d = 0; d < box.rank(); ++d) {
        at = put_head(at, 1, extent_bytes(box, d, is_dash(d)));
        if (is_dash(d)) continue;
        at = put_number(at, 1, box.start[d]);
        *at++ = 2 << 3;  // the length is written even if it is 0
        at = put_varint(at, static_cast<std::uint64_t>(box.extent[d]));
      }
    }
    return up_to(at);
  }

  // The value for bytes in a data file. Notes in `entry` which file, and whether they are encoded.
  std::string_view place(const StoredTensor& tensor, const Piece& slice, IndexEntry& entry) {
    make_room(most_front_bytes + slice.box.rank() * most_extent_bytes + most_place_bytes);
    auto* at = begin(tensor.dtype, slice.box.extent);
    at = put_number(at, 3, slice.file);
    at = put_number(at, 4, slice.offset);
    at = put_number(at, 5, slice.stored_bytes);
    entry.files = std::max(entry.files, slice.file + 1);
    if (slice.codec != Codec::none) {
      entry.encoded = true;
      at = put_number(at, 14, static_cast<std::int64_t>(slice.codec));
      at = put_number(at, 15, slice.raw_bytes);
      at = put_crc(at, 13, slice.raw_crc32c);
    }
    return up_to(put_crc(at, 6, slice.crc32c));
  }

 private:
  // A tag is one byte.
  static constexpr std::size_t most_number_bytes = 1 + most_varint_bytes;
  static constexpr std::size_t most_front_bytes = 2 * most_number_bytes;
  static constexpr std::size_t most_extent_bytes = 2 + 2 * most_number_bytes;
  static constexpr std::size_t most_place_bytes = 5 * most_number_bytes + 10;

  void make_room(std::size_t bytes) {
    if (text_.size() < bytes) text_.resize(bytes);
  }
  std::string_view up_to(const char* end) const {
    return std::string_view(text_).substr(0, static_cast<std::size_t>(end - text_.data()));
  }
  // A number that is 0 is left out, as proto3 does. None is negative: check() has refused those.
  static std::size_t number_bytes(std::int64_t value) {
    return value == 0 ? 0 : 1 + varint_bytes(static_cast<std::uint64_t>(value));
  }
  static char* put_number(char* at, int field, std::int64_t value) {
    if (value == 0) return at;
    *at++ = static_cast<char>(field << 3);
    return put_varint(at, static_cast<std::uint64_t>(value));
  }
  static char* put_crc(char* at, int field, std::uint32_t checksum) {
    const auto crc = crc_mask(checksum);
    *at++ = static_cast<char>(field << 3 | 5);
    for (int i = 0; i < 4; ++i) *at++ = static_cast<char>(crc >> (8 * i));
    return at;
  }
  // Writes the tag and the length of a message.
  static char* put_head(char* at, int field, std::size_t bytes) {
    *at++ = static_cast<char>(field << 3 | 2);
    return put_varint(at, bytes);
  }
  // Less than 128, so its own length is one byte.
  static std::size_t extent_bytes(const Box& box, std::size_t d, bool is_dash) {
    return is_dash ? 0
                   : number_bytes(box.start[d]) + 1 +
                         varint_bytes(static_cast<std::uint64_t>(box.extent[d]));
  }
  char* begin(DType dtype, const Dims& shape) {
    auto* at = put_number(text_.data(), 1, static_cast<std::int64_t>(dtype));
    std::size_t listed = 0;
    for (const auto size : shape) listed += 2 + number_bytes(size);
    at = put_head(at, 2, listed);
    for (const auto size : shape) {
      at = put_head(at, 2, number_bytes(size));
      at = put_number(at, 1, size);
    }
    return at;
  }

  // Both are reused by the next call.
  std::vector<const Piece*> ascending_;
  std::string text_;
};

// Makes the keys of a tensor's slices, ascending. The next tensor reuses the memory, since an index
// has as many keys as slices.
class SliceKeys {
 public:
  struct Key {
    std::string_view key;
    const Piece* slice;
  };

  void make(const StoredTensor& tensor) {
    text_.clear();
    ends_.clear();
    front_.clear();
    append_slice_front(front_, tensor.key, tensor.shape.size());
    for (const auto& slice : tensor.slices) {
      text_.append(front_);
      append_slice_extents(text_, slice.box, slice.dash);
      ends_.push_back(text_.size());
    }
    keys_.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      keys_.push_back({std::string_view(text_).substr(begin, ends_[i] - begin), &tensor.slices[i]});
      begin = ends_[i];
    }
    // Slices that ascend as boxes often ascend as keys, too, in which lengths come between starts.
    const auto before = [&](const Key& a, const Key& b) {
      return a.key.substr(front_.size()) < b.key.substr(front_.size());
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
  std::size_t front_bytes() const { return front_.size(); }  ///< with which all keys begin

 private:
  std::string front_, text_;
  std::vector<std::size_t> ends_;
  std::vector<Key> keys_;
};

namespace {

// Old readers must refuse an index with encoded pieces, so only such an index asks for another
// reader.
std::string header(int num_files, bool encoded) {
  pb::Header header;
  header.set_num_shards(num_files);
  header.mutable_version()->set_producer(1);
  if (encoded) header.mutable_version()->set_min_consumer(codec_consumer);
  return header.SerializeAsString();
}

}  // namespace

struct EntryEncoder::Memory {
  EntryText text;
  SliceKeys keys;
  EntryChain chain;
};

EntryEncoder::EntryEncoder() : memory_(std::make_unique<Memory>()) {}
EntryEncoder::~EntryEncoder() = default;

IndexEntry EntryEncoder::sliced(const StoredTensor& tensor) {
  auto& [text, keys, chain] = *memory_;
  IndexEntry entry;
  entry.key = tensor.key;
  keys.make(tensor);
  // Memory for a few slices is taken at once.
  constexpr std::size_t most_reserved = 4096, slice_bytes = 64;
  chain.reserve(std::min(keys.front_bytes() + tensor.slices.size() * slice_bytes, most_reserved));
  for (const auto& [key, slice] : keys.all()) {
    chain.add(key, text.place(tensor, *slice, entry), keys.front_bytes());
  }
  entry.slices = chain.take();
  entry.value = text.full(tensor, entry.head);
  return entry;
}

IndexEntry EntryEncoder::encode(const StoredTensor& tensor) {
  check(tensor);
  if (!is_plain(tensor)) return sliced(tensor);
  IndexEntry entry;
  entry.key = tensor.key;
  entry.value = memory_->text.place(tensor, tensor.slices[0], entry);
  return entry;
}

IndexEntry EntryEncoder::encode_part(const StoredTensor& tensor, int part) {
  check(tensor);
  auto entry = sliced(tensor);
  entry.part = part;
  return entry;
}

IndexEntry encode_entry(const StoredTensor& tensor) { return EntryEncoder().encode(tensor); }

bool comes_before(const IndexEntry& a, const IndexEntry& b) {
  const auto by_key = a.key.compare(b.key);
  return by_key != 0 ? by_key < 0 : a.part < b.part;
}

namespace {

bool is_before(const IndexEntryView& a, const IndexEntryView& b) {
  const auto by_key = a.key.compare(b.key);
  return by_key != 0 ? by_key < 0 : a.part < b.part;
}

// Reads a list of entries, or a packed one.
class EntryReader {
 public:
  explicit EntryReader(std::span<const IndexEntry> list) : list_(list), in_({}) { next(); }
  explicit EntryReader(std::string_view packed) : in_(packed) { next(); }

  bool ended() const { return ended_; }
  const IndexEntryView& front() const { return front_; }
  void next() {
    if (!list_.empty()) {
      const auto& [key, value, slices, files, part, head, encoded] = list_.front();
      front_ = {key, value, slices, files, part, head, encoded};
      list_ = list_.subspan(1);
    } else if (!in_.empty()) {
      front_ = in_.get<IndexEntryView>();
    } else {
      ended_ = true;
    }
  }

 private:
  std::span<const IndexEntry> list_;
  WireReader in_;
  IndexEntryView front_;
  bool ended_ = false;
};

}  // namespace

EncodedIndex::EncodedIndex(int num_files, std::vector<IndexEntry> entries,
                           const std::vector<IndexEntry>* more,
                           std::vector<Packed<IndexEntry>> packed)
    : num_files_(num_files), entries_(std::move(entries)), more_(more), packed_(std::move(packed)) {
  if (num_files < 1) {
    throw Error(Code::invalid_argument,
                cat("an index of ", num_files, " data files is impossible"));
  }
  // Mostly they ascend but for a few at the end.
  const auto rest = std::is_sorted_until(entries_.begin(), entries_.end(), comes_before);
  std::stable_sort(rest, entries_.end(), comes_before);
  std::inplace_merge(entries_.begin(), rest, entries_.end(), comes_before);
  // All entries ascend as merged from their lists, so equal keys are neighbours. Parts of one
  // tensor have one key and ascending numbers.
  std::optional<IndexEntryView> last;
  each_entry([&](const IndexEntryView& entry) {
    if (last && !is_before(*last, entry)) refuse(std::string(entry.key), "its key comes twice");
    last = entry;
    if (entry.files > num_files) {
      refuse(std::string(entry.key),
             cat("it lies in data file ", entry.files - 1, ", but there are ", num_files));
    }
  });
}

template <class Visit>
void EncodedIndex::each_entry(Visit visit) const {
  std::vector<EntryReader> readers{EntryReader(entries_)};
  if (more_) readers.emplace_back(*more_);
  for (const auto& list : packed_) readers.emplace_back(list.bytes);
  merge_streams(
      readers, [](const auto& a, const auto& b) { return is_before(a.front(), b.front()); },
      [&](EntryReader& reader) {
        visit(reader.front());
        reader.next();
      });
}

// Without the header, restart points and lengths.
std::size_t EncodedIndex::about_bytes() const {
  std::size_t bytes = 0;
  each_entry([&](const IndexEntryView& entry) {
    bytes += entry.key.size() + entry.value.size() + entry.slices.size();
  });
  return bytes;
}

void EncodedIndex::write(const TakeBytes& take) const {
  TableWriter table(take);
  // The header comes first, so all entries are looked at before anything is written.
  bool encoded = false;
  each_entry([&](const IndexEntryView& entry) { encoded |= entry.encoded; });
  table.add("", header(num_files_, encoded));
  // Keys of slices come before all others.
  each_entry([&](const IndexEntryView& entry) { table.add_chain(entry.slices); });
  // Parts of one tensor make one value: the first part as it is, then the slices of the others.
  std::optional<std::string_view> key;
  std::vector<std::string_view> value;  // of it, in parts
  each_entry([&](const IndexEntryView& entry) {
    if (key && entry.key == *key) {
      value.push_back(entry.value.substr(static_cast<std::size_t>(entry.head)));
      return;
    }
    if (key) table.add(*key, value);
    key = entry.key;
    value.assign(1, entry.value);
  });
  if (key) table.add(*key, value);
  table.finish();
}

std::string build_index(int num_files, const std::vector<StoredTensor>& tensors) {
  std::vector<IndexEntry> entries;
  entries.reserve(tensors.size());
  EntryEncoder encoder;
  for (const auto& tensor : tensors) entries.push_back(encoder.encode(tensor));
  std::string bytes;
  EncodedIndex(num_files, std::move(entries)).write([&](auto piece) { bytes += piece; });
  return bytes;
}

}  // namespace cairn::bundle
