#include "layout/bundle/index_split.hpp"

#include <algorithm>
#include <utility>

#include "base/wire.hpp"
#include "bundle.pb.h"
#include "layout/bundle/entry_read.hpp"
#include "layout/bundle/index_walk.hpp"
#include "layout/bundle/numbers.hpp"
#include "layout/bundle/table.hpp"

namespace cairn::bundle {
namespace {

using split::each_entry;
using split::entries_a_restart;
using split::require;
using split::take;

/// Calls visit(begin, end) for each slice that the entry of a tensor lists. Returns the other
/// fields of the entry.
template <class Visit>
std::string each_listed(std::string_view value, Visit visit) {
  require(value.size() <= 0x7fffffff);
  constexpr std::uint64_t listed = 7 << 3 | 2;
  std::string others;
  for (auto rest = value; !rest.empty();) {
    const auto begin = value.size() - rest.size();
    const auto tag = take(rest);
    const auto kind = tag & 7;
    // The tag is the number of a field and its wire type: 0 a varint, 1 eight bytes, 2 a length and
    // so many bytes, 5 four bytes. 3 and 4 are groups, which proto3 does not have.
    require(tag >> 3 != 0 && kind != 3 && kind != 4 && kind < 6);
    std::uint64_t skip = kind == 1 ? 8 : kind == 5 ? 4 : 0;
    if (kind == 0) require(take_varint(rest).has_value());
    if (kind == 2) skip = take(rest);
    require(skip <= rest.size());
    rest.remove_prefix(skip);
    const auto end = value.size() - rest.size();
    if (tag == listed) {
      visit(begin, end);
    } else {
      others.append(value.substr(begin, end - begin));
    }
  }
  return others;
}

bool is_slice_key(std::string_view key) { return !key.empty() && key[0] == '\0'; }

/// A data block of the table.
class Block {
 public:
  explicit Block(const TableBlock& block) : separator_(block.separator) {
    const auto bytes = block.bytes;
    // A block ends with the offsets of its restart points, and their number.
    require(bytes.size() >= 4);
    const std::uint64_t count = load_u32(&bytes[bytes.size() - 4]);
    require(count > 0 && count <= (bytes.size() - 4) / 4);
    entries_ = bytes.substr(0, bytes.size() - 4 - 4 * count);
    restarts_ = bytes.substr(entries_.size(), 4 * count);
    require(!entries_.empty() && start(0) == 0);
  }
  std::size_t restarts() const { return restarts_.size() / 4; }
  const std::string& separator() const { return separator_; }
  std::size_t start(std::size_t restart) const {
    return restart == restarts() ? entries_.size() : load_u32(&restarts_[4 * restart]);
  }
  /// The entries from restart point `first` up to restart point `end`.
  std::string_view entries(std::size_t first, std::size_t end) const {
    require(start(first) < start(end) && start(end) <= entries_.size());
    return entries_.substr(start(first), start(end) - start(first));
  }
  /// The offsets of the restart points in entries(first, end).
  std::vector<std::uint32_t> starts(std::size_t first, std::size_t end) const {
    std::vector<std::uint32_t> all;
    for (auto i = first; i < end; ++i) {
      all.push_back(static_cast<std::uint32_t>(start(i) - start(first)));
    }
    return all;
  }
  // The key at a restart point is whole: it shares nothing with the one before.
  std::string_view key(std::size_t restart) const {
    auto rest = entries(restart, restart + 1);
    require(take(rest) == 0);
    const auto bytes = take(rest);
    take(rest);
    require(bytes <= rest.size());
    return rest.substr(0, bytes);
  }

 private:
  std::string_view entries_, restarts_;
  std::string separator_;
};

// Finds by binary search where the entries of slices end, cuts them into parts at restart points,
// and reads only the entries of tensors. What it assumes of the entries of slices is checked by
// those who read the parts.
class Splitter {
 public:
  Splitter(std::string_view bytes, std::int64_t slices_a_part, const Limits& limits)
      : limits_(limits), restarts_a_part_(restarts_for(slices_a_part)) {
    auto layout = read_blocks(bytes, limits);
    split_.unpacked = std::move(layout.unpacked);
    for (const auto& block : layout.blocks) blocks_.emplace_back(block);
    require(!blocks_.empty());
  }

  SplitIndex run() {
    // The first entry is the header.
    require(blocks_[0].key(0).empty());
    find_end();
    std::vector<std::int64_t> counts = cut_parts();
    read_tensors();
    std::int64_t listed = 0, found = 0;
    for (const auto count : split_.slices) listed += count;
    for (const auto count : counts) found += count;
    // As many slices have entries as tensors list.
    require(listed == found);
    add_lists(counts);
    if (found == 0) split_.parts.clear();
    return std::move(split_);
  }

 private:
  struct Place {
    std::size_t block = 0, restart = 0;
  };
  struct Sliced {
    std::string_view value;
    std::size_t begin = 0, end = 0;  // of the list of slices in it
  };
  static std::size_t restarts_for(std::int64_t slices) {
    return std::max<std::size_t>(static_cast<std::size_t>(slices) / entries_a_restart, 1);
  }

  // Finds the last restart point with the key of a slice or of the header, and where the entries of
  // slices after it end. The entries of tensors follow these.
  void find_end() {
    // Searches for the first block that begins with a tensor's key. Keys ascend: first the
    // header's, then those of slices, then those of tensors.
    std::size_t low = 0, high = blocks_.size();
    while (low < high) {
      const auto middle = (low + high) / 2;
      const auto key = blocks_[middle].key(0);
      const bool before = key.empty() || is_slice_key(key);
      (before ? low : high) = before ? middle + 1 : middle;
    }
    require(low > 0);
    last_.block = low - 1;
    const auto& block = blocks_[last_.block];
    std::size_t first = 1, end = block.restarts();
    while (first < end) {
      const auto middle = (first + end) / 2;
      const bool before = is_slice_key(block.key(middle));
      (before ? first : end) = before ? middle + 1 : middle;
    }
    last_.restart = first - 1;
    const auto entries = block.entries(last_.restart, last_.restart + 1);
    in_last_ = 0;
    each_entry(entries, {0}, limits_, [&](const std::string& key, auto, std::size_t next) {
      if (!key.empty() && !is_slice_key(key)) return;
      ++in_last_;
      end_ = next;
    });
  }

  // Cuts the header and the entries of slices into parts. Returns the number of slices in each.
  std::vector<std::int64_t> cut_parts() {
    for (std::size_t b = 0; b <= last_.block; ++b) {
      const auto& block = blocks_[b];
      const auto end = b == last_.block ? last_.restart + 1 : block.restarts();
      for (std::size_t first = 0; first < end; first += restarts_a_part_) {
        add_part(block, first, std::min(first + restarts_a_part_, end), b == last_.block, end);
      }
      check_separator(b);
    }
    std::vector<std::int64_t> counts;
    for (const auto& part : split_.parts) counts.push_back(part.slices);
    return counts;
  }

  void add_part(const Block& block, std::size_t first, std::size_t end, bool in_last,
                std::size_t end_of_block) {
    auto entries = block.entries(first, end);
    std::int64_t in_end = entries_a_restart;  // entries from the last restart point on
    if (end == end_of_block && in_last) {
      entries = entries.substr(0, block.start(end - 1) - block.start(first) + end_);
      in_end = in_last_;
    } else if (end == end_of_block) {
      in_end = 0;
      each_entry(block.entries(end - 1, end), {0}, limits_, [&](auto&, auto, auto) { ++in_end; });
    }
    const bool with_header = split_.parts.empty();
    SplitIndex::Part part;
    // TableWriter makes a restart point at each sixteenth entry, so entries need not be read to be
    // counted. read_part() checks the number.
    part.slices = static_cast<std::int64_t>((end - first - 1) * entries_a_restart) + in_end;
    part.slices -= with_header;
    part.first_key = block.key(first);
    part.entries = entries;
    heads_.push_back({with_header, false, part.slices, block.starts(first, end), {}, {}});
    split_.parts.push_back(std::move(part));
  }

  // Requires that the separator of a block is no less than the block's last key, and less than the
  // first key of the next.
  void check_separator(std::size_t b) {
    const auto& block = blocks_[b];
    std::string last;
    const auto restart = block.restarts() - 1;
    each_entry(block.entries(restart, restart + 1), {0}, limits_,
               [&](const std::string& key, auto, auto) { last = key; });
    require(last <= block.separator());
    if (b + 1 < blocks_.size()) require(block.separator() < blocks_[b + 1].key(0));
  }

  // Reads the header and the entries of tensors.
  void read_tensors() {
    bool header = false;
    const auto read_first = [&](const std::string& key, std::string_view value, auto) {
      if (std::exchange(header, true)) return;
      require(key.empty());
      has_codecs_ = read_header(value, split_.contents);
    };
    each_entry(blocks_[0].entries(0, 1), {0}, limits_, read_first);
    std::string before;  // the last tensor's key
    for (auto b = last_.block; b < blocks_.size(); ++b) {
      const auto& block = blocks_[b];
      const auto first = b == last_.block ? last_.restart : 0;
      const auto end = block.restarts();
      each_entry(block.entries(first, end), block.starts(first, end), limits_,
                 [&](const std::string& key, std::string_view value, auto) {
                   const bool is_tensor = !key.empty() && !is_slice_key(key);
                   // Entries of slices may only come before those of tensors.
                   if (!is_tensor) return require(before.empty());
                   require(before < key);
                   if (before.empty()) first_tensor_ = key;
                   before = key;
                   read_tensor(key, value);
                 });
      if (b > last_.block) check_separator(b);
    }
  }

  void read_tensor(const std::string& key, std::string_view value) {
    Sliced list{value, value.size(), 0};
    std::int64_t slices = 0;
    const auto others = each_listed(value, [&](std::size_t begin, std::size_t end) {
      list.begin = std::min(list.begin, begin);
      list.end = end;
      ++slices;
    });
    auto& tensor = split_.contents.tensors.emplace_back();
    tensor.key = key;
    // Without the list of slices, which may be long: it goes to the parts unread.
    require(parse(entry_, others));
    const auto count = read_type(entry_, tensor);
    require(count.has_value());
    if (slices == 0) {
      read_place(entry_, *count, split_.contents.num_files, has_codecs_, tensor);
      require(tensor.problem.empty());
      return;
    }
    tensor.sliced = true;
    split_.slices.push_back(slices);
    sliced_.push_back(list);
  }

  // Gives each part the lists of its slices from the tensors' entries, and the key that must
  // follow.
  void add_lists(const std::vector<std::int64_t>& counts) {
    // A tensor whose slices are in one part gives its whole list; another list is cut where the
    // parts change.
    const auto ranges = slice_ranges(split_.slices, counts);
    for (std::size_t r = 0; r < ranges.size();) {
      const auto tensor = ranges[r].tensor;
      auto last = r;
      while (last + 1 < ranges.size() && ranges[last + 1].tensor == tensor) ++last;
      const auto& list = sliced_[tensor];
      auto begin = list.begin;
      std::int64_t number = 0;
      if (r < last) {
        each_listed(list.value, [&](std::size_t, std::size_t end) {
          if (++number < ranges[r].first + ranges[r].count || r == last) return;
          heads_[ranges[r].part].lists.add(list.value.substr(begin, end - begin));
          begin = end;
          ++r;
        });
      }
      heads_[ranges[r].part].lists.add(list.value.substr(begin, list.end - begin));
      ++r;
    }
    for (std::size_t p = 0; p < counts.size(); ++p) {
      const bool is_last = p + 1 == counts.size();
      heads_[p].has_codecs = has_codecs_;
      heads_[p].next_key = is_last ? first_tensor_ : split_.parts[p + 1].first_key;
      split_.parts[p].head = pack(heads_[p]);
    }
  }

  const Limits limits_;
  const std::size_t restarts_a_part_;
  SplitIndex split_;
  std::vector<split::PartHead> heads_;
  std::vector<Block> blocks_;
  Place last_;                // the last restart point with the key of a slice or the header
  std::int64_t in_last_ = 0;  // how many entries from it on are of slices or the header
  std::size_t end_ = 0;       // where these end, counted from it
  pb::Entry entry_;           // reused
  bool has_codecs_ = false;   // the header says so
  // One for each of the sliced tensors.
  std::vector<Sliced> sliced_;
  std::string first_tensor_;  // key
};

}  // namespace

std::optional<SplitIndex> split_index(std::string_view bytes, std::int64_t slices_a_part,
                                      const Limits& limits) {
  return split::if_simple([&] { return Splitter(bytes, slices_a_part, limits).run(); });
}

std::vector<SliceRange> slice_ranges(const std::vector<std::int64_t>& slices_of_tensors,
                                     const std::vector<std::int64_t>& slices_of_parts) {
  std::vector<SliceRange> ranges;
  std::size_t tensor = 0;
  std::int64_t first = 0;
  for (std::size_t part = 0; part < slices_of_parts.size(); ++part) {
    for (auto left = slices_of_parts[part]; left > 0 && tensor < slices_of_tensors.size();) {
      const auto count = std::min(left, slices_of_tensors[tensor] - first);
      ranges.push_back({part, tensor, first, count});
      left -= count;
      first += count;
      if (first == slices_of_tensors[tensor]) ++tensor, first = 0;
    }
  }
  return ranges;
}

}  // namespace cairn::bundle
