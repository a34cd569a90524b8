// The comparison of replicas: one checksum a slice from each holder; where they differ, one holder
// of each kind is asked for finer ones.
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "plan/exchange.hpp"
#include "save/replicas.hpp"

namespace cairn {
namespace {

// How much of what differs is said.
constexpr std::size_t told_slices = 4, told_sides = 8, told_boxes = 3, told_spans = 10;

// How finely: in as many parts, none of them larger.
constexpr std::int64_t detail_parts = 1024, most_detail_bytes = std::int64_t{1} << 20;

/// Holders with the same checksum.
struct Side {
  std::vector<int> ranks;    ///< ascending
  std::size_t position = 0;  ///< of the slice in the list of the first of them
  std::vector<std::uint32_t> details;
};

struct Divergence {
  const Comparison* what;
  std::vector<Side> sides;  ///< most ranks first, then lowest
};

std::int64_t item_bytes(DType dtype) {
  return dtype == DType::string ? 1 : static_cast<std::int64_t>(dtype_size(dtype));
}

// What is compared in detail; strings count as one byte each.
std::vector<plan::Chunk> detail_chunks(const Box& box, DType dtype) {
  const auto item = item_bytes(dtype);
  const auto size = (box.count() - 1) / detail_parts * item + item;
  return plan::cut_into_chunks(box, item, std::min(size, std::max(most_detail_bytes, item)));
}

std::vector<std::uint32_t> details_of(const State& state, const ReplicaPlan::Mine& one) {
  const auto& [key, tensor] = state.tensors()[one.tensor];
  std::vector<std::uint32_t> checksums;
  std::vector<std::byte> buffer;
  std::vector<std::string> values;
  if (tensor.strings) values = string_values(key, tensor);
  for (const auto& chunk : detail_chunks(one.box, tensor.dtype)) {
    if (tensor.strings) {
      const auto part = std::span<const std::string>(values).subspan(
          static_cast<std::size_t>(chunk.offset), static_cast<std::size_t>(chunk.bytes));
      checksums.push_back(bundle::encode_strings(part).crc32c);
    } else {
      const auto& slice = tensor.slices[static_cast<std::size_t>(one.slice)];
      checksums.push_back(checksum_of(slice, chunk.box, item_bytes(tensor.dtype), buffer));
    }
  }
  return checksums;
}

std::vector<Divergence> find_divergences(const std::vector<Comparison>& all,
                                         const std::vector<std::string>& messages) {
  std::vector<std::vector<std::uint32_t>> checksums;
  for (const auto& message : messages) {
    checksums.push_back(WireReader(message).get_all<std::uint32_t>());
  }
  std::vector<std::size_t> next(messages.size());
  std::vector<Divergence> found;
  for (const auto& one : all) {
    std::map<std::uint32_t, Side> sides;
    for (const auto& holder : one.holders) {
      const auto rank = static_cast<std::size_t>(holder.rank);
      const auto position = next[rank]++;
      auto& side = sides[checksums[rank].at(position)];
      if (side.ranks.empty()) side.position = position;
      side.ranks.push_back(holder.rank);
    }
    if (sides.size() == 1) continue;
    auto& divergence = found.emplace_back(Divergence{&one, {}});
    for (auto& [checksum, side] : sides) divergence.sides.push_back(std::move(side));
    std::sort(divergence.sides.begin(), divergence.sides.end(), [](const Side& a, const Side& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
    });
  }
  return found;
}

template <class F>
void each_told_side(std::vector<Divergence>& divergences, const F& visit) {
  for (std::size_t d = 0; d < std::min(divergences.size(), told_slices); ++d) {
    auto& sides = divergences[d].sides;
    for (std::size_t s = 0; s < std::min(sides.size(), told_sides); ++s) visit(sides[s]);
  }
}

// "rank 3", "ranks 0..2, 5"
std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t spans = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    if (spans++ == told_spans) return text + cat(" and ", ranks.size() - i, " more");
    auto last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += cat(i > 0 ? ", " : "", ranks[i]);
    if (last > i) text += cat(last > i + 1 ? ".." : ", ", ranks[last]);
    i = last + 1;
  }
  return text;
}

// The second box goes on where the first ends, in one dimension.
bool join(Box& box, const Box& next) {
  std::size_t differing = box.rank();
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (box.start[d] == next.start[d] && box.extent[d] == next.extent[d]) continue;
    if (differing != box.rank() || box.end(d) != next.start[d]) return false;
    differing = d;
  }
  if (differing == box.rank()) return false;
  box.extent[differing] += next.extent[differing];
  return true;
}

std::vector<Box> differing_boxes(const Comparison& what, const Side& a, const Side& b) {
  std::vector<Box> boxes;
  const auto chunks = detail_chunks(what.box, what.dtype);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (a.details.at(i) == b.details.at(i)) continue;
    boxes.push_back(chunks[i].box);
    while (boxes.size() > 1 && join(boxes[boxes.size() - 2], boxes.back())) boxes.pop_back();
  }
  return boxes;
}

// "rank 2 differs from ranks 0, 1, which are the most, in rows 5..5"
std::string differences_text(const Divergence& divergence, bool say_stored) {
  const auto& [what, sides] = divergence;
  const auto& most = sides.front();
  std::string text;
  std::set<int> stored;
  for (std::size_t s = 1; s < std::min(sides.size(), told_sides); ++s) {
    const auto& ranks = sides[s].ranks;
    text += cat(s > 1 ? ", " : "", ranks_text(ranks));
    if (s == 1) {
      text += cat(ranks.size() == 1 ? " differs from " : " differ from ", ranks_text(most.ranks),
                  2 * most.ranks.size() > what->holders.size() ? ", the majority," : "");
    }
    const auto boxes = differing_boxes(*what, most, sides[s]);
    for (std::size_t b = 0; b < std::min(boxes.size(), told_boxes); ++b) {
      text += cat(b ? ", " : " in ", box_text(boxes[b]));
    }
    if (boxes.size() > told_boxes) text += cat(" and ", boxes.size() - told_boxes, " more ranges");
    for (const auto& box : boxes) {
      for (const auto& [piece, rank] : what->stored) {
        if (overlaps(piece, box)) stored.insert(rank);
      }
    }
  }
  if (sides.size() > told_sides) {
    text += cat(", and ", sides.size() - told_sides, " more groups of ranks differ");
  }
  if (say_stored) {
    const std::vector<int> ranks(stored.begin(), stored.end());
    text += cat("; stored is what ", ranks_text(ranks), ranks.size() == 1 ? " has" : " have");
  }
  return text;
}

Error error_of(const std::vector<Divergence>& divergences, bool say_stored) {
  const auto name = [](const Comparison& what) {
    return cat("tensor '", what.key, "' ", shape_text(what.shape));
  };
  const auto& first = divergences.front();
  std::string reason = differences_text(first, say_stored);
  for (std::size_t d = 1; d < std::min(divergences.size(), told_slices); ++d) {
    reason +=
        cat("; ", name(*divergences[d].what), ": ", differences_text(divergences[d], say_stored));
  }
  if (divergences.size() > told_slices) {
    reason += cat("; and so do ", divergences.size() - told_slices, " more slices");
  }
  Error error(
      Code::disagreement, cat("replicas of ", name(*first.what), " are not the same"),
      std::move(reason),
      "Nothing was committed. Look for a missing broadcast or reduction, or for bad memory; "
      "ReplicaOptions can make this a warning.");
  error.of_tensor(first.what->key).on_rank(first.sides[1].ranks.front());
  return error;
}

}  // namespace

void compare_replicas(const Job& job, const State& state, const ReplicaPlan& plan,
                      const std::vector<std::uint32_t>& checksums, const std::string& prefix) {
  Group& group = *job.group;
  const auto messages = gather(group, WireWriter().put(checksums).take());
  std::vector<Divergence> divergences;
  const auto request = from_root(group, [&] {
    divergences = find_divergences(plan.all, messages);
    WireWriter wanted;
    each_told_side(divergences, [&](const Side& side) {
      wanted.put(side.ranks.front()).put(std::uint64_t{side.position});
    });
    return wanted.take();
  });
  if (request.empty()) return;

  const auto mine = together(group, [&] {
    WireWriter details;
    for (WireReader wanted(request); !wanted.empty();) {
      const auto rank = wanted.get<int>();
      const auto position = wanted.get<std::uint64_t>();
      if (rank == group.rank()) details.put(details_of(state, plan.mine.at(position)));
    }
    return details.take();
  });
  const auto details = gather(group, mine);
  from_root(group, [&] {
    std::vector<WireReader> readers(details.begin(), details.end());
    each_told_side(divergences, [&](Side& side) {
      side.details = readers[static_cast<std::size_t>(side.ranks.front())].get_all<std::uint32_t>();
    });
    const bool is_error = job.options.store.replicas.divergence_is_error;
    const auto error = error_of(divergences, !is_error);
    if (is_error) throw error;
    log(LogLevel::warning, cat("in ", prefix, ": ", error.problem(), " (", error.reason(), ")"));
    return std::string();
  });
}

}  // namespace cairn
