// Deals the index of a checkpoint to the ranks of a restore. Rank 0 reads the file, since other
// nodes may see an older one, and cuts it into parts without looking at the slices. The ranks
// together then check all that one reader of the whole index would check. If anything is wrong, all
// ranks drop what they have, and rank 0 reads the whole index and produces the error. So only one
// place makes errors, and the code for parts may be strict: it accepts only the layout that Cairn
// itself writes.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error_of.hpp"
#include "base/let_go.hpp"
#include "base/wire.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/overlap.hpp"
#include "layout/offsets.hpp"
#include "session/restore/restore.hpp"
#include "session/restore/shared_index.hpp"
#include "session/restore/tell_contents.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/whose.hpp"

namespace cairn {
namespace {

std::vector<Box> boxes_of(const std::vector<Piece>& slices) {
  std::vector<Box> boxes;
  boxes.reserve(slices.size());
  for (const auto& slice : slices) boxes.push_back(slice.box);
  return boxes;
}

// The bounds of the slices that have elements. If there are none, the result has no dimensions.
Box bounds_of(const std::vector<Piece>& slices) {
  Box bounds;
  for (const auto& slice : slices) {
    if (slice.box.empty()) continue;
    if (bounds.rank() == 0) bounds = slice.box;
    for (std::size_t d = 0; d < bounds.rank(); ++d) {
      const auto start = std::min(bounds.start[d], slice.box.start[d]);
      bounds.extent[d] = std::max(bounds.end(d), slice.box.end(d)) - start;
      bounds.start[d] = start;
    }
  }
  return bounds;
}

bool share_elements(const Box& a, const Box& b) {
  if (a.rank() == 0 || b.rank() == 0) return false;
  const auto common = intersect(a, b);
  return common && !common->empty();
}

// What rank 0 tells all ranks about the index.
struct ToldIndex {
  struct Part {
    std::int64_t slices = 0;
    std::string first_key;
  };
  IndexFile file;
  int num_files = 0;
  bool big_endian = false;
  std::vector<StoredTensor> tensors;
  std::vector<std::string> problems;  // one for each of `tensors`
  // Whether the index is dealt in parts; then `tensors` have no slices.
  bool is_split = false;
  std::vector<std::int64_t> slices;  // as in SplitIndex
  std::vector<Part> parts;
};
struct RangeBounds {
  std::size_t range = 0;
  Box box;
};
// Either a box that may overlap slices of `range`, or a `key` that is listed, without a range.
struct Question {
  std::size_t range = 0;
  std::string_view key;
  Box box;
};

}  // namespace

// Lives for one index. run() leaves behind, for the case that it returns nothing, the index as rank
// 0 has read it and the sizes of the data files, so that these are not read again.
class IndexDealer {
 public:
  IndexDealer(const Job& job, const io::Path& prefix, std::optional<Format> known)
      : job_(job), group_(*job.group), prefix_(prefix), known_(known) {}

  // Collective. Returns nothing, on all ranks, if rank 0 has to read the whole index.
  std::optional<SharedIndex> run() {
    std::optional<ToldIndex> told_all;
    std::string said;
    if (job_.root()) {
      try {
        told_all = describe();
        if (told_all && group_.size() > 1) said = pack(*told_all);
      } catch (...) {
        current_error();  // tell_whole() will run into this error again, and throw it
        told_all.reset();
        said.clear();
      }
    }
    if (group_.size() > 1) {
      group_.broadcast(said, 0);
      if (!job_.root() && !said.empty()) told_all = unpack<ToldIndex>(said);
      let_go(said);
    }
    // All ranks have the same text, so they return here together.
    if (!told_all || !hear(*std::exchange(told_all, std::nullopt))) return std::nullopt;
    const auto entries = hand_out();
    guard([&] { read_parts(entries); });
    const auto& contents = shared_->contents_;
    // The sum over sizes also tells whether any rank has failed.
    bool told = failed_;
    sizes_ = find_sizes(job_, prefix_, contents.format, contents.num_files, told);
    if (told || !all_fit()) return std::nullopt;  // the same on all ranks
    if (!shared_->is_dealt()) return std::move(shared_);
    tell_bounds();
    compare(all_to_all(group_, questions()));
    guard([&] { keep_slices(); });
    if (any_of(group_, failed_)) return std::nullopt;
    return std::move(shared_);
  }

  std::optional<IndexFile> take_index() { return std::move(index_); }
  const FoundSizes& sizes() const { return sizes_; }

 private:
  struct Entries {
    std::size_t part;
    std::string head, copy;
    std::string_view entries;
  };

  // A rank that fails continues with empty messages, since other ranks wait for them.
  template <class F>
  void guard(F&& function) {
    DeferredError error;
    error.guard(function);
    failed_ |= bool(error);
  }

  // Rank 0 only. What all ranks are told. Returns nothing if the index needs tell_whole().
  // A small index, or one that a single rank reads, is parsed here. A large one is only cut into
  // parts.
  std::optional<ToldIndex> describe() {
    index_ = read_only_index(*job_.files, prefix_, known_);
    if (!index_) return std::nullopt;
    ToldIndex all;
    auto& told = all.file;
    told.format = index_->format;
    told.table_offset = index_->table_offset;
    told.table_room = index_->table_room;
    if (group_.size() > 1 && index_->bytes.size() >= index_sharing().least_bytes) {
      split_ = bundle::split_index(index_->bytes, index_sharing().slices_a_part);
    }
    told.parsed = split_ ? std::move(split_->contents) : bundle::parse_index(index_->bytes);
    auto& contents = *told.parsed;
    auto slices = slices_of(contents);
    all.is_split = split_.has_value();
    if (split_) {
      for (const auto count : split_->slices) slices += count;
      all.slices = split_->slices;
      for (const auto& part : split_->parts) all.parts.push_back({part.slices, part.first_key});
    }
    // A wrong number of files would make find_sizes() ask for very many files.
    if (!is_credible(contents.num_files, slices)) return std::nullopt;
    read_metadata(*job_.files, prefix_, told, Graph::read);
    all.num_files = contents.num_files;
    all.big_endian = contents.big_endian;
    for (const auto& tensor : contents.tensors) all.problems.push_back(tensor.problem);
    all.tensors = std::move(contents.tensors);
    return all;
  }

  // Returns false, on all ranks, if rank 0 has to look closer.
  bool hear(ToldIndex all) {
    auto& told = all.file;
    auto& contents = told.parsed.emplace();
    contents.num_files = all.num_files;
    contents.big_endian = all.big_endian;
    contents.tensors = std::move(all.tensors);
    for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
      contents.tensors[t].problem = std::move(all.problems.at(t));
    }
    shared_.emplace(parse_contents(told, prefix_));
    if (!told.foreign.empty() || !misplaced(shared_->contents_).empty()) return false;
    if (!all.is_split) return true;
    shared_->slices_of_ = std::move(all.slices);
    std::vector<std::int64_t> slices;
    for (auto& part : all.parts) {
      slices.push_back(part.slices);
      first_keys_.push_back(std::move(part.first_key));
    }
    return deal(slices);
  }

  // From the numbers of slices, every rank computes which range of which tensor is in which part,
  // and so who holds it. Returns false if they do not agree with the tensors.
  bool deal(const std::vector<std::int64_t>& slices_of_parts) {
    auto& shared = *shared_;
    std::int64_t dealt = 0;
    for (std::size_t t = 0; t < shared.contents_.tensors.size(); ++t) {
      const auto& tensor = shared.contents_.tensors[t];
      if (!tensor.sliced) continue;
      shared.dealt_of_[t] = dealt++;
      tensors_.push_back(&tensor);
    }
    if (dealt != static_cast<std::int64_t>(shared.slices_of_.size())) return false;
    const auto ranges = bundle::slice_ranges(shared.slices_of_, slices_of_parts);
    shared.ranges_.reserve(ranges.size());
    shared.first_range_.reserve(shared.slices_of_.size() + 1);
    for (const auto& one : ranges) {
      const bool whole = one.count == shared.slices_of_[one.tensor];
      while (shared.first_range_.size() <= one.tensor) {
        shared.first_range_.push_back(shared.ranges_.size());
      }
      shared.ranges_.push_back({one, holder_of(one.part), whole});
    }
    shared.first_range_.push_back(shared.ranges_.size());
    return true;
  }

  // If there are more than 8 ranks, rank 0 holds no part: it already has the most to do.
  int holder_of(std::size_t part) const {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const std::size_t spared = ranks > 8 ? 1 : 0;
    return static_cast<int>(spared + part * (ranks - spared) / first_keys_.size());
  }

  // Collective. Rank 0 sends each holder its parts.
  // Parts go to their holders in order, each in two messages. Rank 0's own parts are not copied.
  std::vector<Entries> hand_out() {
    std::vector<Entries> mine;
    for (std::size_t part = 0; part < first_keys_.size(); ++part) {
      const int holder = holder_of(part);
      if (job_.root()) {
        auto& one = split_->parts[part];
        if (holder == 0) {
          mine.push_back({part, std::move(one.head), "", one.entries});
        } else {
          group_.send(holder, one.head);
          group_.send(holder, one.entries);
        }
      } else if (holder == job_.rank()) {
        auto head = group_.receive(0);
        mine.push_back({part, std::move(head), group_.receive(0), {}});
      }
    }
    for (auto& one : mine) {
      if (!job_.root()) one.entries = one.copy;
    }
    return mine;
  }

  // Parses this rank's parts. A part that has not the layout which Cairn writes counts as a
  // failure.
  void read_parts(const std::vector<Entries>& mine) {
    const auto& ranges = shared_->ranges_;
    for (const auto& [part, head, copy, entries] : mine) {
      auto range = std::lower_bound(ranges.begin(), ranges.end(), part,
                                    [](const auto& a, std::size_t b) { return a.part < b; });
      std::vector<bundle::RangeOf> of;
      const auto first = static_cast<std::size_t>(range - ranges.begin());
      for (; range != ranges.end() && range->part == part; ++range) {
        of.push_back({tensors_[range->tensor], shared_->slices_of_[range->tensor], range->count});
      }
      auto read = bundle::read_part(head, entries, of, shared_->contents_.num_files);
      if (!read || __builtin_add_overflow(bytes_, read->bytes, &bytes_)) {
        failed_ = true;
        return;
      }
      if (held_.empty()) held_.reserve(of.size() * mine.size());  // about so many
      for (std::size_t i = 0; i < of.size(); ++i) {
        held_.emplace_back(first + i, std::move(read->slices[i]));
      }
      unlisted_.insert(unlisted_.end(), read->unlisted.begin(), read->unlisted.end());
      displaced_.insert(displaced_.end(), read->displaced.begin(), read->displaced.end());
    }
  }

  bool fits(const Piece& slice) const {
    const auto size = sizes_[static_cast<std::size_t>(slice.file)];
    return size >= 0 && lies_within(slice, size);
  }

  // Returns whether the slices that all ranks know lie within existing data files; the result is
  // the same on all ranks. Sets `failed_` if slices that only this rank holds do not; the ranks
  // agree on that later.
  bool all_fit() {
    std::int64_t bytes = 0;
    const auto& contents = shared_->contents_;
    for (const auto* tensors : {&contents.tensors, &contents.own}) {
      for (const auto& tensor : *tensors) {
        for (const auto& slice : tensor.slices) {
          if (!fits(slice) || __builtin_add_overflow(bytes, most_bytes(slice), &bytes))
            return false;
        }
      }
    }
    // No rank knows the sum of all. If each rank's bytes are below this share, the sum does not
    // overflow.
    const auto share = std::numeric_limits<std::int64_t>::max() / (group_.size() + 1);
    failed_ |= bytes_ > share;
    for (const auto& [range, slices] : held_) {
      failed_ |= !std::all_of(slices.begin(), slices.end(), [&](const auto& s) { return fits(s); });
    }
    return !shared_->is_dealt() || bytes <= share;
  }

  // Collective. Tells all ranks the bounds of each range that has only a part of its tensor's
  // slices.
  void tell_bounds() {
    const auto& ranges = shared_->ranges_;
    Packed<RangeBounds> mine;
    for (const auto& [range, slices] : held_) {
      if (!ranges[range].whole) mine.add({range, bounds_of(slices)});
    }
    auto all = reduce_to_root(group_, std::move(mine.bytes),
                              [](std::string low, std::string high) { return low += high; });
    group_.broadcast(all, 0);
    for (auto& [range, box] : unpack_each<RangeBounds>(all))
      shared_->bounds_[range] = std::move(box);
  }

  // Boxes that may overlap slices of another range go to the holder of that range. Listed keys go
  // to the holder that should have their slice.
  Messages questions() {
    Messages messages;
    guard([&] {
      std::map<int, Packed<Question>> outgoing;
      const auto& ranges = shared_->ranges_;
      std::size_t sent = 0, mine = 0;
      for (const auto& [range, slices] : held_) {
        mine += slices.size();
        for (auto r = range + 1; r < ranges.size() && ranges[r].tensor == ranges[range].tensor;
             ++r) {
          const auto& there = shared_->bounds(r);
          if (!share_elements(shared_->bounds(range), there)) continue;
          for (const auto& slice : slices) {
            if (slice.box.empty() || !share_elements(slice.box, there)) continue;
            outgoing[ranges[r].holder].add({r, "", slice.box});
            // A limit on the messages. No writer cuts tensors so that a slice is near many slices
            // whose keys are far from its own.
            failed_ |= ++sent > 8 * mine + 4096;
            if (failed_) return;
          }
        }
      }
      for (const auto& key : displaced_) {
        const auto after = std::upper_bound(first_keys_.begin(), first_keys_.end(), key);
        const auto part = static_cast<std::size_t>(after - first_keys_.begin());
        outgoing[holder_of(part - std::min<std::size_t>(part, 1))].add({~std::size_t{0}, key, {}});
      }
      messages = messages_of(std::move(outgoing));
    });
    return messages;
  }

  // Slices of different ranges must not overlap, and the slices that the index lists must be those
  // whose entries ranks have found.
  void compare(const Messages& asked) {
    guard([&] {
      std::map<std::size_t, std::vector<Box>> others;
      std::vector<std::string> listed;
      for (const auto& [rank, message] : asked) {
        for (auto& [range, key, box] : unpack_each<Question>(message)) {
          if (key.empty()) {
            others[range].push_back(std::move(box));
          } else {
            listed.emplace_back(key);
          }
        }
      }
      for (const auto& [range, slices] : held_) {
        const auto near = others.find(range);
        if (near == others.end()) continue;
        auto boxes = boxes_of(slices);
        boxes.insert(boxes.end(), near->second.begin(), near->second.end());
        failed_ |= bundle::find_overlap(boxes).has_value();
      }
      std::sort(listed.begin(), listed.end());
      std::sort(unlisted_.begin(), unlisted_.end());
      failed_ |= listed != unlisted_;
    });
  }

  void keep_slices() {
    shared_->held_.reserve(held_.size());
    for (auto& [range, slices] : held_) {
      shared_->held_.push_back({range, std::move(slices), nullptr});
      shared_->held_.back().index_boxes();
    }
  }

  const Job& job_;
  Group& group_;
  const io::Path prefix_;
  const std::optional<Format> known_;
  std::optional<IndexFile> index_;           // index_, split_: only on rank 0
  std::optional<bundle::SplitIndex> split_;  // refers to the bytes of index_
  std::optional<SharedIndex> shared_;
  std::vector<const StoredTensor*> tensors_;  // the dealt ones
  std::vector<std::string> first_keys_;       // of each part
  FoundSizes sizes_;
  // Ranges with their slices, ascending.
  std::vector<std::pair<std::size_t, std::vector<Piece>>> held_;
  // Keys of slices that their tensor's list does not have at their place, and keys that it has
  // there instead (IndexRanges). Over all ranks they must be the same.
  std::vector<std::string> unlisted_, displaced_;
  // Of the slices that this rank holds.
  std::int64_t bytes_ = 0;
  // This rank has found something that rank 0 must look at. Ranks agree on it at two places in
  // run().
  bool failed_ = false;
};

SharedIndex share_index(const Job& job, const io::Path& prefix, std::optional<Format> format,
                        std::optional<Format> known) {
  if (format) return SharedIndex(tell_format(job, prefix, *format));
  std::optional<IndexFile> index;
  FoundSizes sizes;
  {
    IndexDealer dealer(job, prefix, known);
    if (auto shared = dealer.run()) return *std::move(shared);
    index = dealer.take_index();
    sizes = dealer.sizes();
  }
  return SharedIndex(tell_whole(job, prefix, std::move(index), sizes));
}

}  // namespace cairn
