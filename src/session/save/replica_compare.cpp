// Compares replicas. Each holder of a slice sends a checksum of it to the rank that has proved the
// tensor. For the first slices that differ, rank 0 then asks one holder of each version for
// checksums of smaller parts.
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "exchange/by_key.hpp"
#include "exchange/exchange.hpp"
#include "exchange/messages.hpp"
#include "session/save/replicas.hpp"

namespace cairn {
namespace {

// The most differences that an error message names.
constexpr std::size_t told_slices = 4, told_sides = 8, told_boxes = 3, told_spans = 10;

// For a message, a slice that differs is compared in about this many parts, none larger than this.
constexpr std::int64_t detail_parts = 1024, most_detail_bytes = std::int64_t{1} << 20;

using Checksums = std::vector<std::uint32_t>;

/// All holders of a slice that have the same checksum.
struct Side {
  std::vector<int> ranks;    ///< ascending
  std::size_t position = 0;  ///< of the slice among those that ranks[0] sent to the planner
  std::vector<std::uint32_t> details;
};

struct Divergence {
  int planner = 0;
  Comparison what;  ///< without the holders
  std::size_t holders = 0;
  std::vector<Side> sides;  ///< those with most ranks first, then those with the lowest rank
};

std::int64_t item_bytes(DType dtype) {
  return dtype == DType::string ? 1 : static_cast<std::int64_t>(dtype_size(dtype));
}

// The parts that are compared in detail. A string counts as one byte.
std::vector<plan::Chunk> detail_chunks(const Box& box, DType dtype) {
  const auto item = item_bytes(dtype);
  // At least one element in each part.
  const auto size = (box.count() - 1) / detail_parts * item + item;
  return plan::cut_into_chunks(box, item, std::min(size, std::max(most_detail_bytes, item)));
}

std::vector<std::uint32_t> details_of(const RefreshedState& state, const ReplicaPlan::Mine& one) {
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

// On a planner: the first slices whose checksums differ; adds to `count` how many differ.
// The checksums of a rank come in the order of this planner's comparisons, so a counter for each
// rank finds the next one.
std::vector<Divergence> find_divergences(const std::vector<Comparison>& all,
                                         const Messages& messages, int planner,
                                         std::int64_t& count) {
  std::map<int, std::vector<std::uint32_t>> checksums;
  for (const auto& [rank, message] : messages) {
    checksums[rank] = unpack<Checksums>(message);
  }
  std::map<int, std::size_t> next;
  std::vector<Divergence> found;
  for (const auto& one : all) {
    std::map<std::uint32_t, Side> sides;
    for (const auto& holder : one.holders) {
      const int rank = holder.rank;
      const auto position = next[rank]++;
      auto& side = sides[checksums.at(rank).at(position)];
      if (side.ranks.empty()) side.position = position;
      side.ranks.push_back(rank);
    }
    if (sides.size() == 1 || ++count > static_cast<std::int64_t>(told_slices)) continue;
    auto& divergence = found.emplace_back();
    divergence.planner = planner;
    divergence.what = {one.key, one.dtype, one.shape, one.box, {}, one.stored};
    divergence.holders = one.holders.size();
    for (auto& [checksum, side] : sides) divergence.sides.push_back(std::move(side));
    std::sort(divergence.sides.begin(), divergence.sides.end(), [](const Side& a, const Side& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
    });
  }
  return found;
}

// Collective. On rank 0: the first differences that all planners have found, ascending by tensor.
std::vector<Divergence> first_of_all(Group& group, const std::vector<Divergence>& mine) {
  std::vector<Divergence> all;
  to_root(group, pack_each(mine), [&](const std::string& message) {
    unpack_into(all, message);
    std::stable_sort(all.begin(), all.end(), [](const Divergence& a, const Divergence& b) {
      const auto by_key = a.what.key.compare(b.what.key);
      return by_key != 0 ? by_key < 0 : a.what.box < b.what.box;
    });
    if (all.size() > told_slices) all.resize(told_slices);
  });
  return all;
}

// Messages with this rank's checksums for the planners that compare them.
// `mine` ascends by planner, so each planner's checksums are neighbours.
Messages to_planners(const ReplicaPlan& plan, const std::vector<std::uint32_t>& checksums) {
  Messages messages;
  for (std::size_t i = 0; i < plan.mine.size();) {
    const int planner = plan.mine[i].planner;
    std::vector<std::uint32_t> some;
    for (; i < plan.mine.size() && plan.mine[i].planner == planner; ++i) {
      some.push_back(checksums.at(i));
    }
    messages.emplace_back(planner, pack(some));
  }
  return messages;
}

template <class F>
void each_told_side(std::vector<Divergence>& divergences, const F& visit) {
  for (auto& one : divergences) {
    for (std::size_t s = 0; s < std::min(one.sides.size(), told_sides); ++s) {
      visit(one, one.sides[s]);
    }
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

// Joins two boxes if the second begins where the first ends, in one dimension. Returns whether it
// did.
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
  const auto& [planner, what, holders, sides] = divergence;
  const auto& most = sides.front();
  std::string text;
  std::set<int> stored;
  for (std::size_t s = 1; s < std::min(sides.size(), told_sides); ++s) {
    const auto& ranks = sides[s].ranks;
    text += cat(s > 1 ? ", " : "", ranks_text(ranks));
    if (s == 1) {
      text += cat(ranks.size() == 1 ? " differs from " : " differ from ", ranks_text(most.ranks),
                  2 * most.ranks.size() > holders ? ", the majority," : "");
    }
    const auto boxes = differing_boxes(what, most, sides[s]);
    for (std::size_t b = 0; b < std::min(boxes.size(), told_boxes); ++b) {
      text += cat(b ? ", " : " in ", box_text(boxes[b]));
    }
    if (boxes.size() > told_boxes) text += cat(" and ", boxes.size() - told_boxes, " more ranges");
    for (const auto& box : boxes) {
      for (const auto& [piece, rank] : what.stored) {
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

// The error names ranks and ranges. It blames the lowest rank of the second-largest group.
Error error_of(const std::vector<Divergence>& divergences, std::int64_t count, bool say_stored) {
  const auto name = [](const Comparison& what) {
    return cat("tensor '", what.key, "' ", shape_text(what.shape));
  };
  const auto& first = divergences.front();
  std::string reason = differences_text(first, say_stored);
  for (std::size_t d = 1; d < divergences.size(); ++d) {
    reason +=
        cat("; ", name(divergences[d].what), ": ", differences_text(divergences[d], say_stored));
  }
  const auto more = count - static_cast<std::int64_t>(divergences.size());
  if (more > 0) reason += cat("; and so do ", more, " more slices");
  Error error(
      Code::disagreement, cat("replicas of ", name(first.what), " are not the same"),
      std::move(reason),
      "Nothing was committed. Look for a missing broadcast or reduction, for different tensors "
      "under one name, or for bad memory; "
      "ReplicaOptions::divergence_is_error = false makes this a warning.");
  error.of_tensor(first.what.key).on_rank(first.sides[1].ranks.front());
  return error;
}

// What rank 0 asks of a rank: details of one of the slices whose checksum it has sent to a planner.
struct Wanted {
  int rank = 0, planner = 0;
  std::size_t position = 0;
};
struct SentDetails {
  int rank = 0;
  Packed<Checksums> details;
};

}  // namespace

// If no slice differs, this takes one exchange and one sum. Only then rank 0 asks for details, and
// makes the error for all ranks.
void compare_replicas(const Job& job, const RefreshedState& state, const ReplicaPlan& plan,
                      const std::vector<std::uint32_t>& checksums, const std::string& prefix) {
  Group& group = *job.group;
  const int rank = group.rank();
  auto messages = run_and_agree(group, [&] { return to_planners(plan, checksums); });
  messages = all_to_all(group, std::move(messages));
  std::int64_t count = 0;
  auto divergences =
      run_and_agree(group, [&] { return find_divergences(plan.all, messages, rank, count); });
  count = all_reduce(group, count, Group::Op::sum);
  if (count == 0) return;

  divergences = first_of_all(group, divergences);
  const auto request = from_root(group, [&] {
    Packed<Wanted> wanted;
    each_told_side(divergences, [&](const Divergence& one, const Side& side) {
      wanted.add({side.ranks.front(), one.planner, side.position});
    });
    return std::move(wanted.bytes);
  });
  auto mine = run_and_agree(group, [&] {
    SentDetails sent{rank, {}};
    for (const auto& wanted : unpack_each<Wanted>(request)) {
      if (wanted.rank != rank) continue;
      const auto first = std::find_if(plan.mine.begin(), plan.mine.end(), [&](const auto& one) {
        return one.planner == wanted.planner;
      });
      const auto at = static_cast<std::size_t>(first - plan.mine.begin()) + wanted.position;
      sent.details.add(details_of(state, plan.mine.at(at)));
    }
    return sent.details.bytes.empty() ? "" : pack(sent);
  });
  std::map<int, std::string> details;
  to_root(group, std::move(mine), [&](const std::string& message) {
    auto sent = unpack<SentDetails>(message);
    details[sent.rank] = std::move(sent.details.bytes);
  });
  from_root(group, [&] {
    std::map<int, WireReader> readers;
    for (const auto& [from, bytes] : details) readers.emplace(from, bytes);
    each_told_side(divergences, [&](const Divergence&, Side& side) {
      side.details = readers.at(side.ranks.front()).get<Checksums>();
    });
    const bool is_error = job.options.store.replicas.divergence_is_error;
    const auto error = error_of(divergences, count, !is_error);
    if (is_error) throw error;
    log(LogLevel::warning, cat("in ", prefix, ": ", error.problem(), " (", error.reason(), ")"));
    return std::string();
  });
}

}  // namespace cairn
