// Reads a part of an index, of which several ranks read parts.
#include "base/wire.hpp"
#include "bundle.pb.h"
#include "layout/bundle/entry_read.hpp"
#include "layout/bundle/index_split.hpp"
#include "layout/bundle/index_walk.hpp"
#include "layout/bundle/overlap.hpp"
#include "layout/bundle/slice_key.hpp"
#include "layout/offsets.hpp"

namespace cairn::bundle {
namespace {

using split::require;

// Reads the entries of one tensor's slices in one part.
class RangeReader {
 public:
  RangeReader(const RangeOf& range, std::string_view list, int num_files, bool has_codecs,
              IndexRanges& part)
      : range_(range), num_files_(num_files), has_codecs_(has_codecs), part_(part) {
    scratch_.key = range.tensor->key;
    scratch_.dtype = range.tensor->dtype;
    scratch_.shape = range.tensor->shape;
    // All keys of the tensor's slices begin with this.
    append_slice_front(front_, scratch_.key, scratch_.shape.size());
    // `list` is cut out of the tensor's entry: it may hold slices only, and as many as the range
    // has.
    require(parse(listed_, list) && listed_.slices_size() == range.count);
    const bool only_slices = listed_.dtype() == 0 && !listed_.has_shape() &&
                             listed_.shard_id() == 0 && listed_.offset() == 0 &&
                             listed_.size() == 0 && !listed_.has_crc32c();
    require(only_slices);
  }
  bool is_full() const { return next_ == range_.count; }

  void take(const std::string& key, std::string_view value) {
    read_extents(listed_.slices(static_cast<int>(next_++)), extents_);
    listed_key_ = front_;
    for (const auto& extent : extents_) {
      append_ordered(listed_key_, extent.start);
      append_ordered(listed_key_, extent.length);
    }
    // The tensor lists another slice at this place. Whether it lists this one elsewhere shows when
    // all parts are compared.
    if (listed_key_ != key) {
      part_.displaced.push_back(listed_key_);
      part_.unlisted.push_back(key);
      auto own = decode_slice_key(key);
      require(own && own->tensor == scratch_.key);
      extents_ = std::move(own->extents);
    }
    auto slice = read_box(scratch_, extents_, range_.all == 1);
    require(slice.has_value());
    place_ = {};
    require(parse(entry_, value) && entry_.slices_size() == 0);
    const auto count = read_type(entry_, place_);
    require(count.has_value());
    read_place(entry_, *count, num_files_, has_codecs_, place_);
    take_part(scratch_, *slice, place_, extents_);
    require(scratch_.problem.empty());
  }

  void finish() {
    // Overlaps within this range; those with other ranges are the caller's to find.
    std::vector<Box> boxes;
    boxes.reserve(scratch_.slices.size());
    for (const auto& slice : scratch_.slices) {
      boxes.push_back(slice.box);
      require(!__builtin_add_overflow(part_.bytes, most_bytes(slice), &part_.bytes));
    }
    require(!find_overlap(boxes));
    part_.slices.push_back(std::move(scratch_.slices));
  }

 private:
  const RangeOf range_;
  const int num_files_;
  const bool has_codecs_;
  IndexRanges& part_;
  std::string front_, listed_key_;
  pb::Entry listed_, entry_;
  std::vector<KeyExtent> extents_;
  StoredTensor scratch_, place_;
  // How many of the range's slices have been read.
  std::int64_t next_ = 0;
};

}  // namespace

// Each range takes its slices from the entries, in the order of their keys.
std::optional<IndexRanges> read_part(std::string_view head, std::string_view entries,
                                     const std::vector<RangeOf>& ranges, int num_files,
                                     const Limits& limits) {
  return split::if_simple([&] {
    const auto told = unpack<split::PartHead>(head);
    WireReader lists(told.lists.bytes);
    IndexRanges part;
    std::optional<RangeReader> range;
    auto next = ranges.begin();
    // The first part begins with the header, which is no slice.
    std::int64_t number = -static_cast<std::int64_t>(told.with_header);
    std::string last;
    split::each_entry(
        entries, told.restarts, limits, [&](const std::string& key, std::string_view value, auto) {
          last = key;
          if (number++ < 0) return;
          if (!range) {
            require(next != ranges.end());
            range.emplace(*next++, lists.get<std::string>(), num_files, told.has_codecs, part);
          }
          range->take(key, value);
          if (!range->is_full()) return;
          range->finish();
          range.reset();
        });
    // So keys ascend from part to part, too, and no entry is left over.
    require(number == told.slices && !range && next == ranges.end() && last < told.next_key);
    return part;
  });
}

}  // namespace cairn::bundle
