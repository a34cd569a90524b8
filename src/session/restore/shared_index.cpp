// Questions and answers about the slices of a large index: a rank asks the holders of those ranges
// whose bounds its boxes touch.
#include "session/restore/shared_index.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/wire.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"

namespace cairn {

IndexSharing& index_sharing() {
  static IndexSharing sharing;
  return sharing;
}

SharedIndex::SharedIndex(CheckpointContents contents)
    : contents_(std::move(contents)), dealt_of_(contents_.tensors.size(), -1) {}

std::int64_t SharedIndex::slices(int tensor) const {
  const auto at = static_cast<std::size_t>(tensor);
  if (dealt_of_[at] < 0) return static_cast<std::int64_t>(contents_.tensors[at].slices.size());
  return slices_of_[static_cast<std::size_t>(dealt_of_[at])];
}

const Box& SharedIndex::bounds(std::size_t range) const {
  static const Box none;
  const auto found = bounds_.find(range);
  return found == bounds_.end() ? none : found->second;
}

// A range that has all slices of its tensor covers the whole tensor, so no bounds are needed.
bool SharedIndex::may_have(std::size_t range, const Box& box) const {
  if (ranges_[range].whole) return true;
  const auto& all = bounds(range);
  if (all.rank() == 0) return false;
  const auto common = intersect(all, box);
  return common && !common->empty();
}

void SharedIndex::Held::index_boxes() {
  constexpr std::size_t few_slices = 8;  // an index of these takes as much memory as they do
  if (slices.size() <= few_slices) return;
  std::vector<Box> all;
  all.reserve(slices.size());
  for (const auto& slice : slices) all.push_back(slice.box);
  boxes = std::make_unique<const BoxIndex>(all);
}

void SharedIndex::Held::each_touched(const Box& box,
                                     const std::function<void(std::size_t)>& visit) const {
  if (boxes) {
    return boxes->query(box, [&](std::size_t i) {
      visit(i);
      return true;
    });
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto common = intersect(slices[i].box, box);
    if (common && !common->empty()) visit(i);
  }
}

namespace {

struct SliceQuestion {
  std::size_t range = 0, wish = 0;
  std::vector<Box> boxes;
};
struct SliceAnswer {
  std::size_t number = 0;  // index of the wish; in an answer to all ranks, of the range
  std::vector<NumberedSlice> slices;
};

}  // namespace

// Two deliveries, one of questions and one of answers; all ranks take part, also those without a
// wish.
std::vector<std::vector<NumberedSlice>> SharedIndex::find(Group& group,
                                                          const std::vector<Wish>& wishes) const {
  std::vector<std::vector<NumberedSlice>> found(wishes.size());
  if (!is_dealt()) return found;
  Delivery questions, answers;
  std::map<std::size_t, std::vector<std::size_t>> asked;  // indices of wishes, by range
  for (std::size_t w = 0; w < wishes.size(); ++w) {
    const auto& [tensor, wanted] = wishes[w];
    const auto dealt = static_cast<std::size_t>(dealt_of_[static_cast<std::size_t>(tensor)]);
    for (auto r = first_range_[dealt]; r < first_range_[dealt + 1]; ++r) {
      SliceQuestion question{r, w, {}};
      for (const auto& box : wanted) {
        if (may_have(r, box)) question.boxes.push_back(box);
      }
      if (question.boxes.empty()) continue;
      asked[r].push_back(w);
      pack_into(questions.to(ranges_[r].holder), question);
    }
  }
  answer(questions.deliver(group).messages, group.size(), answers);
  const auto come = answers.deliver(group);
  for (const auto& [holder, message] : come.messages) {
    for (auto& [w, slices] : unpack_each<SliceAnswer>(message)) {
      auto& all = found.at(w);
      std::move(slices.begin(), slices.end(), std::back_inserter(all));
    }
  }
  for (const auto& [range, slices] : unpack_each<SliceAnswer>(come.for_all)) {
    // An answer to all has the whole range. Each wish of this rank gets it, with slices that it did
    // not ask for.
    for (const auto w : asked[range]) {
      found[w].insert(found[w].end(), slices.begin(), slices.end());
    }
  }
  for (auto& slices : found) {
    std::sort(slices.begin(), slices.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
  }
  return found;
}

// Each rank gets the slices that it asked for. If these are together more than half of what it
// takes to send the whole range to all ranks, all ranks get the range.
void SharedIndex::answer(const Messages& asked, int ranks, Delivery& answers) const {
  struct Asked {
    int rank;
    std::uint64_t wish;
    std::vector<std::size_t> slices;
  };
  std::map<std::size_t, std::vector<Asked>> by_range;
  const auto held = [&](std::size_t range) -> const Held& {
    return *std::lower_bound(held_.begin(), held_.end(), range,
                             [](const Held& a, std::size_t b) { return a.range < b; });
  };
  for (const auto& [rank, message] : asked) {
    for (const auto& [range, wish, boxes] : unpack_each<SliceQuestion>(message)) {
      auto& one = by_range[range].emplace_back(Asked{rank, wish, {}});
      for (const auto& box : boxes) {
        held(range).each_touched(box, [&](std::size_t slice) { one.slices.push_back(slice); });
      }
      std::sort(one.slices.begin(), one.slices.end());
      one.slices.erase(std::unique(one.slices.begin(), one.slices.end()), one.slices.end());
    }
  }
  for (const auto& [range, all] : by_range) {
    const auto& have = held(range);
    const auto add = [&, first = ranges_[range].first](SliceAnswer& to, std::size_t slice) {
      to.slices.push_back({first + static_cast<std::int64_t>(slice), have.slices[slice]});
    };
    std::size_t wanted = 0;
    for (const auto& one : all) wanted += one.slices.size();
    if (is_for_all(wanted / std::max<std::size_t>(have.slices.size(), 1), ranks)) {
      SliceAnswer found{range, {}};
      found.slices.reserve(have.slices.size());
      for (std::size_t slice = 0; slice < have.slices.size(); ++slice) add(found, slice);
      pack_into(answers.to_all(), found);
      continue;
    }
    for (const auto& one : all) {
      SliceAnswer found{one.wish, {}};
      found.slices.reserve(one.slices.size());
      for (const auto slice : one.slices) add(found, slice);
      pack_into(answers.to(one.rank), found);
    }
  }
}

}  // namespace cairn
