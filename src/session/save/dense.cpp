// Plans who writes which run of a dense tensor: an exchange plan in which tensors are the sources,
// cut into runs, and slices are what ranks want of them.
#include "session/save/dense.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "exchange/plan_together.hpp"
#include "group/collectives.hpp"
#include "layout/codec.hpp"
#include "layout/offsets.hpp"
#include "session/save/dense_parts.hpp"

namespace cairn {
namespace {

// A smaller run is not worth another file operation.
constexpr std::int64_t small_bytes = std::int64_t{64} << 10;
// A smaller tensor is not worth a chunk index, of 2 KiB and more.
constexpr std::int64_t least_in_chunks = std::int64_t{16} << 10;
// A chunk that is encoded by itself; as large as the chunk cache of libhdf5.
constexpr std::int64_t most_encoded_bytes = std::int64_t{1} << 20;
// With so many runs per rank, a rank writes about one run's worth of another rank's bytes.
constexpr std::int64_t runs_a_rank = 8;

// Computes where each tensor begins in its file.
void lay_out_files(DensePlan& plan) {
  int file = -1;
  std::int64_t end = 0;  // of the last tensor, in its file
  const auto close = [&] {
    if (file >= 0) plan.file_bytes.push_back(end);
    plan.bytes += end;
    end = 0;
  };
  for (const auto& tensor : plan.tensors) {
    const auto bytes =
        element_count(tensor.shape) * static_cast<std::int64_t>(dtype_size(tensor.dtype));
    if (tensor.file != file) {
      close();
      file = tensor.file;
    }
    plan.begins.push_back(entry_begin(end, bytes));
    end = plan.begins.back() + bytes;
  }
  close();
}

// Ranks that write together must all go through the same rounds, so each learns what the others do
// in them.
std::vector<DensePlan::Round> rounds_of_all(Group& group, const DensePlan& plan) {
  std::vector<std::int64_t> counts(plan.file_bytes.size());
  for (const auto& round : plan.exchange.rounds) {
    if (round.first == round.end) continue;
    counts[static_cast<std::size_t>(round.group)] = round.number + 1;
  }
  group.all_reduce(counts, Group::Op::max);
  std::vector<DensePlan::Round> rounds;
  for (std::size_t file = 0; file < counts.size(); ++file) {
    for (int number = 0; number < static_cast<int>(counts[file]); ++number) {
      rounds.push_back({static_cast<int>(file), number, 0, 0, 0});
    }
  }
  enum { runs, minus_first, last, slots };
  std::vector<std::int64_t> most(rounds.size() * slots, std::numeric_limits<std::int64_t>::min());
  std::size_t at = 0;
  for (const auto& round : plan.exchange.rounds) {
    if (round.first == round.end) continue;
    while (rounds[at].file != round.group || rounds[at].number != round.number) ++at;
    auto* slot = &most[at * slots];
    slot[runs] = static_cast<std::int64_t>(round.end - round.first);
    slot[minus_first] = -plan.exchange.chunks[round.first].source;
    slot[last] = plan.exchange.chunks[round.end - 1].source;
  }
  group.all_reduce(most, Group::Op::max);
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const auto* slot = &most[r * slots];
    rounds[r].most_runs = static_cast<int>(slot[runs]);
    rounds[r].first_tensor = static_cast<int>(-slot[minus_first]);
    rounds[r].last_tensor = static_cast<int>(slot[last]);
  }
  return rounds;
}

}  // namespace

// A run has at least small_bytes, and otherwise an eighth of a rank's fair share of its tensor, but
// never more than chunk_bytes.
DensePlan plan_dense(Group& group, std::vector<DenseTensor> tensors, std::int64_t chunk_bytes,
                     const std::vector<int>& served_by, const InChunks& in_chunks,
                     std::int64_t part_bytes, bool enclosed) {
  DensePlan plan;
  plan.enclosed = enclosed;
  plan.tensors = std::move(tensors);
  if (plan.tensors.empty()) return plan;
  lay_out_files(plan);
  plan.encoding = in_chunks.encoding;
  std::vector<Box> wholes;
  const auto runs_of = [&](int source) {
    const auto t = static_cast<std::size_t>(source);
    const auto item = static_cast<std::int64_t>(dtype_size(plan.tensors[t].dtype));
    const auto bytes = wholes[t].count() * item;
    auto most = std::max(small_bytes, bytes / group.size() / runs_a_rank);
    const bool encoded = !plan.chunks[t].empty();
    if (encoded) most = std::min(most, most_encoded_bytes);
    const auto file = static_cast<std::size_t>(plan.tensors[t].file);
    if (part_bytes > 0) most = std::min(most, most_in_run(plan.file_bytes[file], part_bytes));
    return plan::Spread::SourceBox{&wholes[t], item,    most,
                                   page_bytes, encoded, plan.tensors[t].file};
  };
  const auto cut_of = [&](std::size_t t) {
    const auto of = runs_of(static_cast<int>(t));
    return plan::ChunkCut(*of.box, of.element_bytes, std::min(of.chunk_bytes, chunk_bytes),
                          of.align_bytes, of.equal);
  };
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const auto& tensor = plan.tensors[t];
    wholes.push_back(Box::whole(tensor.shape));
    auto& chunk = plan.chunks.emplace_back();
    const auto bytes = wholes[t].count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
    if (!plan.encoding || tensor.shape.empty() || bytes < least_in_chunks ||
        in_chunks.leaves_out(tensor.key)) {
      continue;
    }
    chunk = tensor.shape;  // until the cut is known
    chunk = cut_of(t).chunk(0).box.extent;
  }
  std::optional<PartWriters> of_parts;
  if (part_bytes > 0) of_parts.emplace(group, plan, part_bytes, cut_of);
  const auto writer = [&](int tensor, std::int64_t offset) {
    const auto rank = (*of_parts)(plan, tensor, offset);
    return served_by.empty() ? rank : served_by[static_cast<std::size_t>(rank)];
  };
  plan::Spread spread({.rank = group.rank(),
                       .ranks = group.size(),
                       .chunk_bytes = chunk_bytes,
                       .served_by = served_by,
                       .source = runs_of,
                       .before = [](int a, int b) { return a < b; },
                       .only_wanted = true,
                       .writer = writer});
  run_and_agree(group, [&] {
    std::size_t parts = 0;
    for (const auto& tensor : plan.tensors) parts += tensor.parts.size();
    spread.expect(parts);
    plan.slices.reserve(parts);
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      for (const auto& part : plan.tensors[t].parts) {
        spread.want(static_cast<int>(t), static_cast<int>(plan.slices.size()), part.box);
        plan.slices.push_back({static_cast<int>(t), part.box, part.slice});
      }
    }
  });
  plan.exchange = of_parts ? order_together(group, spread) : plan_together(group, spread);
  plan.rounds = rounds_of_all(group, plan);
  return plan;
}

void place_dense(DensePlan& plan, const std::vector<std::int64_t>& begins, std::int64_t region) {
  plan.region = region;
  for (std::size_t t = 0; t < plan.begins.size(); ++t) plan.begins[t] = begins.at(t);
}

// A chunk at an edge is encoded with what fills it up, even if that makes it longer.
std::int64_t deal_ranges(Group& group, DensePlan& plan) {
  std::int64_t bytes = 0;
  for (const auto& run : plan.exchange.chunks) {
    if (!plan.in_chunks(run)) continue;
    const auto whole = plan.chunk_bytes(run);
    bytes += whole + (run.bytes < whole ? encoded_excess(whole) : 0);
  }
  // Each rank fills its own element.
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  all[static_cast<std::size_t>(group.rank())] = next_page(bytes);
  group.all_reduce(all, Group::Op::sum);
  const auto mine = all.begin() + group.rank();
  plan.range = {std::accumulate(all.begin(), mine, std::int64_t{0}), *mine};
  return std::accumulate(mine, all.end(), plan.range.begin);
}

}  // namespace cairn
