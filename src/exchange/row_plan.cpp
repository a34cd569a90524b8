#include "exchange/row_plan.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/row_messages.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

using plan::Place;
using plan::SortedIds;

constexpr std::int64_t ids_a_message = std::int64_t{1} << 17;  // a mebibyte
// Blocks of large tensors begin at multiples of this, so that rows of any size begin on a page.
constexpr std::int64_t aligned_rows = 4096;

Error wrong(const std::string& name, std::int64_t id, const std::string& what, std::string reason,
            std::string way_out = "") {
  return Error(Code::invalid_argument, cat("ids of '", name, "': ", id, " ", what),
               std::move(reason), std::move(way_out))
      .of_tensor(name);
}

constexpr const char* once = "each row is stored once";
constexpr const char* owned_only = "Give each row on one rank: leave ghosts out.";

void require_places(const std::string& name, std::int64_t rows) {
  if (rows <= plan::most_places) return;
  throw Error(Code::unsupported, cat("'", name, "' has ", rows, " rows on one rank"),
              "there may be 2^32", "Use more ranks.")
      .of_tensor(name);
}

SortedIds sorted(const ListedIds& list) {
  require_places(list.name, static_cast<std::int64_t>(list.ids.size()));
  return plan::sort_ids(list.ids);
}

void require_distinct(const std::string& name, const SortedIds& mine, int rank) {
  const auto twice = std::adjacent_find(mine.ids.begin(), mine.ids.end());
  if (twice == mine.ids.end()) return;
  throw wrong(name, *twice, cat("is there twice on rank ", rank), once, owned_only);
}

void require_range(const std::string& name, const SortedIds& mine, std::int64_t first,
                   std::int64_t rows, int rank, const std::string& reason) {
  const auto refuse = [&](std::int64_t id) {
    const auto range = rows > 0 ? cat("is not one of ", first, "..", first + rows - 1)
                                : std::string("is not stored");
    throw wrong(name, id, cat("on rank ", rank, " ", range), reason,
                "Number rows without gaps, or set IdOptions::first, or ids_key for ids with gaps.");
  };
  if (mine.ids.empty()) return;
  if (mine.ids.front() < first) refuse(mine.ids.front());
  if (mine.ids.back() - first >= rows) refuse(mine.ids.back());
}

// The blocks that the ids are in. `firsts` has the least id of each rank's block.
std::vector<RowPlan::Part> deal(const std::vector<std::int64_t>& ids,
                                const std::vector<std::int64_t>& firsts) {
  std::vector<RowPlan::Part> parts;
  for (auto at = ids.begin(); at != ids.end();) {
    // A block without rows has the first id of the next block that has some, or the largest number.
    // upper_bound() takes the last of equal ones.
    const auto next = std::upper_bound(firsts.begin(), firsts.end(), *at);
    const auto end = next == firsts.end() ? ids.end() : std::lower_bound(at, ids.end(), *next);
    parts.push_back({static_cast<int>(next - firsts.begin()) - 1, at - ids.begin(), end - at});
    at = end;
  }
  return parts;
}

// Collective. Returns how many rows of this rank's block each rank has.
std::vector<RowPlan::Part> hear_parts(Group& group, const std::vector<RowPlan::Part>& holding) {
  Messages messages;
  for (const auto& part : holding) {
    messages.emplace_back(part.rank, pack(part.count));
  }
  messages = all_to_all(group, std::move(messages));
  std::vector<RowPlan::Part> holders;
  std::int64_t first = 0;
  for (const auto& [rank, message] : messages) {
    const auto count = unpack<std::int64_t>(message);
    holders.push_back({rank, first, count});
    first += count;
  }
  return holders;
}

std::int64_t rows_of(const std::vector<RowPlan::Part>& parts) {
  return parts.empty() ? 0 : parts.back().first + parts.back().count;
}

// The rank that has the row of this number among those that came.
int holder_of(const RowPlan& plan, std::int64_t row) {
  const auto after =
      std::upper_bound(plan.holders.begin(), plan.holders.end(), row,
                       [](std::int64_t at, const auto& part) { return at < part.first; });
  return (after - 1)->rank;
}

// Collective. Sends ids to the ranks of their blocks. `take` gets the ids of this rank's block in
// pieces, each with the number of its first id among all that come. An error of `take` is thrown on
// all ranks.
template <class Take>
void send_ids(Group& group, const SortedIds& mine, const RowPlan& plan, const Take& take) {
  const int rank = group.rank(), ranks = group.size();
  std::vector<RowMessage> out, in;
  std::vector<std::int64_t> come;
  run_and_agree(group, [&] {
    out = row_messages(plan.holding, Direction::to_peers, rank, ranks, ids_a_message);
    in = row_messages(plan.holders, Direction::from_peers, rank, ranks, ids_a_message);
    if (!in.empty()) come.resize(static_cast<std::size_t>(ids_a_message));
  });
  const auto of = [&](std::int64_t first, std::int64_t count) {
    return std::span(mine.ids).subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(count));
  };
  DeferredError error;
  // Ids that stay on this rank are in no message.
  for (const auto& to_me : plan.holding) {
    if (to_me.rank != rank) continue;
    for (const auto& from_me : plan.holders) {
      if (from_me.rank != rank) continue;
      error.guard([&] { take(of(to_me.first, to_me.count), from_me.first); });
    }
  }
  in_groups(out, in, ids_a_message, [&](auto going, auto coming) {
    std::vector<Group::Send> sends;
    std::vector<Group::Receive> receives;
    for (const auto& message : going) {
      sends.push_back({message.peer, std::as_bytes(of(message.first, message.count))});
    }
    std::size_t at = 0;
    const auto room = [&](const RowMessage& message) {
      const auto part = std::span(come).subspan(at, static_cast<std::size_t>(message.count));
      at += part.size();
      return part;
    };
    for (const auto& message : coming) {
      receives.push_back({message.peer, std::as_writable_bytes(room(message))});
    }
    group.exchange(sends, receives);
    at = 0;
    for (const auto& message : coming) {
      const auto part = room(message);
      error.guard([&] { take(std::span<const std::int64_t>(part), message.first); });
    }
  });
  agree(group, error.first());
}

// Collective. Begins the plan for both kinds of even blocks.
RowPlan with_even_blocks(Group& group, const SortedIds& mine, std::int64_t first,
                         std::int64_t rows) {
  RowPlan plan;
  plan.rows = rows;
  plan.held = static_cast<std::int64_t>(mine.ids.size());
  run_and_agree(group, [&] {
    auto firsts = even_blocks(rows, group.size());
    const auto rank = static_cast<std::size_t>(group.rank());
    plan.begin = firsts[rank];
    plan.count = (rank + 1 < firsts.size() ? firsts[rank + 1] : rows) - plan.begin;
    for (auto& one : firsts) one += first;
    plan.holding = deal(mine.ids, firsts);
  });
  plan.holders = hear_parts(group, plan.holding);
  return plan;
}

// Collective. A place is the id less that of the block's first row.
void place_by_id(Group& group, const std::string& name, const SortedIds& mine, std::int64_t first,
                 RowPlan& plan) {
  run_and_agree(group, [&] {
    require_places(name, rows_of(plan.holders));
    require_places(name, plan.count);
    plan.places.resize(static_cast<std::size_t>(rows_of(plan.holders)));
  });
  send_ids(group, mine, plan, [&](std::span<const std::int64_t> ids, std::int64_t at) {
    auto* place = plan.places.data() + at;
    for (const auto id : ids) *place++ = static_cast<Place>(id - first - plan.begin);
  });
}

// Throws if a row came twice.
void require_single(const std::string& name, std::int64_t first, const RowPlan& plan,
                    std::vector<bool>& seen) {
  seen.resize(static_cast<std::size_t>(plan.count));
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const auto place = plan.places[i];
    if (!seen[place]) {
      seen[place] = true;
      continue;
    }
    const auto before = std::find(plan.places.begin(), plan.places.end(), place);
    auto one = holder_of(plan, before - plan.places.begin());
    auto other = holder_of(plan, static_cast<std::int64_t>(i));
    if (one > other) std::swap(one, other);
    throw wrong(name, first + plan.begin + place, cat("is on rank ", one, " and on rank ", other),
                once, owned_only);
  }
}

// A sample of sorted ids, taken at regular distances; `weight` is the number of ids that it stands
// for.
struct Sample {
  std::int64_t id;
  double weight;
};

// Collective. Returns the least id of each rank's block, so that blocks are about equally long.
std::vector<std::int64_t> split_by_samples(Group& group, const SortedIds& mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::string said;
  run_and_agree(group, [&] {
    // Enough samples for blocks of about equal length, and few enough for rank 0 to get those of
    // all ranks.
    const auto count = std::min(mine.ids.size(), std::clamp<std::size_t>(2 * ranks, 64, 256));
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < count; ++i) {
      samples.push_back({mine.ids[(2 * i + 1) * mine.ids.size() / (2 * count)],
                         static_cast<double>(mine.ids.size()) / static_cast<double>(count)});
    }
    said = pack(samples);
  });
  const auto all = gather(group, said);
  // Block r begins at the sample before which the samples stand for r/ranks of all ids. Blocks that
  // no sample begins have the largest number, and stay empty.
  const auto message = from_root(group, [&] {
    std::vector<Sample> samples;
    double weight = 0;
    for (const auto& one : all) {
      for (const auto& sample : unpack<std::vector<Sample>>(one)) {
        samples.push_back(sample);
        weight += sample.weight;
      }
    }
    std::sort(samples.begin(), samples.end(),
              [](const Sample& a, const Sample& b) { return a.id < b.id; });
    std::vector<std::int64_t> firsts(ranks, std::numeric_limits<std::int64_t>::max());
    firsts[0] = 0;
    double before = 0;
    std::size_t next = 1;
    for (const auto& sample : samples) {
      for (; next < ranks &&
             before >= weight * static_cast<double>(next) / static_cast<double>(ranks);
           ++next) {
        firsts[next] = sample.id;
      }
      before += sample.weight;
    }
    return pack(firsts);
  });
  return unpack<std::vector<std::int64_t>>(message);
}

}  // namespace

std::vector<std::int64_t> even_blocks(std::int64_t rows, int ranks) {
  // With fewer rows, rounding to a page would make blocks too unequal.
  const auto unit = rows / ranks >= 16 * aligned_rows ? aligned_rows : std::int64_t{1};
  const auto units = (rows + unit - 1) / unit;
  std::vector<std::int64_t> begins;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto begin = units / ranks * rank + std::min(rank, units % ranks);
    begins.push_back(std::min(begin * unit, rows));
  }
  return begins;
}

RowPlan plan_all_rows(Group& group, const ListedIds& list, std::int64_t first, std::int64_t rows) {
  const auto& name = list.name;
  const auto have = all_reduce(group, static_cast<std::int64_t>(list.ids.size()), Group::Op::sum);
  const bool as_many = rows < 0;
  if (as_many) rows = have;
  auto mine = run_and_agree(group, [&] {
    if (as_many && have == 0) {
      throw Error(Code::invalid_argument, cat("no rank has a row of '", name, "'"),
                  "its ids are to be all numbers from the first on, and there is none",
                  "Leave it out of the state, or set IdOptions::rows to 0.")
          .of_tensor(name);
    }
    auto ids = sorted(list);
    require_distinct(name, ids, group.rank());
    require_range(
        name, ids, first, rows, group.rank(),
        as_many ? cat("there are ", have, " ids on all ranks") : "IdOptions::rows says so");
    return ids;
  });
  auto plan = with_even_blocks(group, mine, first, rows);
  place_by_id(group, name, mine, first, plan);
  std::vector<bool> seen;
  run_and_agree(group, [&] { require_single(name, first, plan, seen); });
  // First duplicates are reported: with as many ids as rows, each duplicate also causes a gap,
  // which would be the less helpful error.
  run_and_agree(group, [&] {
    const auto gap = std::find(seen.begin(), seen.end(), false);
    if (gap == seen.end()) return;
    throw wrong(name, first + plan.begin + (gap - seen.begin()), "is on no rank",
                cat("the tensor has the ids ", first, "..", first + rows - 1),
                "Give all rows, or set IdOptions::ids_key for ids with gaps.");
  });
  plan.order = std::move(mine.places);
  plan.is_proved = true;
  return plan;
}

RowPlan plan_rows_with_gaps(Group& group, const ListedIds& list) {
  auto mine = run_and_agree(group, [&] {
    auto ids = sorted(list);
    require_distinct(list.name, ids, group.rank());
    return ids;
  });
  const auto firsts = split_by_samples(group, mine);
  RowPlan plan;
  plan.held = static_cast<std::int64_t>(mine.ids.size());
  run_and_agree(group, [&] { plan.holding = deal(mine.ids, firsts); });
  plan.holders = hear_parts(group, plan.holding);
  // The ids of this rank's block, in the order in which ranks send them.
  std::vector<std::int64_t> come;
  run_and_agree(group, [&] {
    require_places(list.name, rows_of(plan.holders));
    come.resize(static_cast<std::size_t>(rows_of(plan.holders)));
  });
  send_ids(group, mine, plan, [&](std::span<const std::int64_t> ids, std::int64_t at) {
    std::copy(ids.begin(), ids.end(), come.begin() + at);
  });
  // A place is the position of the id among all ids of the block, since rows are stored in their
  // order.
  run_and_agree(group, [&] {
    const auto all = plan::sort_ids(come);
    plan.places.resize(come.size());
    for (std::size_t i = 0; i < all.places.size(); ++i) {
      plan.places[all.places[i]] = static_cast<Place>(i);
    }
    const auto twice = std::adjacent_find(all.ids.begin(), all.ids.end());
    if (twice == all.ids.end()) return;
    const auto at = static_cast<std::size_t>(twice - all.ids.begin());
    throw wrong(list.name, *twice,
                cat("is on rank ", holder_of(plan, all.places[at]), " and on rank ",
                    holder_of(plan, all.places[at + 1])),
                once, owned_only);
  });
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()));
  // Blocks follow each other in the order of ranks; only now is their length known.
  plan.count = static_cast<std::int64_t>(come.size());
  counts[static_cast<std::size_t>(group.rank())] = plan.count;
  group.all_reduce(counts, Group::Op::sum);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto count = counts[static_cast<std::size_t>(rank)];
    if (rank < group.rank()) plan.begin += count;
    plan.rows += count;
  }
  plan.order = std::move(mine.places);
  plan.is_proved = true;
  return plan;
}

RowPlan plan_wanted_rows(Group& group, const ListedIds& list, std::int64_t first,
                         std::int64_t rows) {
  auto mine = run_and_agree(group, [&] {
    auto ids = sorted(list);
    require_range(list.name, ids, first, rows, group.rank(), cat("there are ", rows, " rows"));
    return ids;
  });
  auto plan = with_even_blocks(group, mine, first, rows);
  place_by_id(group, list.name, mine, first, plan);
  plan.order = std::move(mine.places);
  // If each row is on one rank only, the plan serves a save, too.
  const bool single = run_and_agree(group, [&] {
    if (rows_of(plan.holders) != plan.count) return false;
    std::vector<bool> seen(static_cast<std::size_t>(plan.count));
    for (const auto place : plan.places) {
      if (seen[place]) return false;
      seen[place] = true;
    }
    return true;
  });
  plan.is_proved = all_of(group, single);
  return plan;
}

RowPlan plan_found_rows(Group& group, const ListedIds& list, std::int64_t rows, std::int64_t begin,
                        std::span<const std::int64_t> stored) {
  auto mine = run_and_agree(group, [&] { return sorted(list); });
  RowPlan plan;
  plan.rows = rows;
  plan.begin = begin;
  plan.count = static_cast<std::int64_t>(stored.size());
  plan.held = static_cast<std::int64_t>(mine.ids.size());
  // A block without rows has no first id; it is given that of the next block.
  std::vector<std::int64_t> firsts(static_cast<std::size_t>(group.size()));
  const auto none = std::numeric_limits<std::int64_t>::max();
  firsts[static_cast<std::size_t>(group.rank())] = stored.empty() ? none : stored.front();
  group.all_reduce(firsts, Group::Op::sum);
  run_and_agree(group, [&] {
    for (auto r = firsts.size() - 1; r-- > 0;) firsts[r] = std::min(firsts[r], firsts[r + 1]);
    firsts[0] = 0;  // ids below all stored ones are looked for, too
    plan.holding = deal(mine.ids, firsts);
  });
  plan.holders = hear_parts(group, plan.holding);
  run_and_agree(group, [&] {
    require_places(list.name, rows_of(plan.holders));
    plan.places.resize(static_cast<std::size_t>(rows_of(plan.holders)));
  });
  send_ids(group, mine, plan, [&](std::span<const std::int64_t> ids, std::int64_t at) {
    auto* place = plan.places.data() + at;
    // Both lists ascend, so each search begins where the last one ended.
    auto found = stored.begin();
    for (const auto id : ids) {
      found = std::lower_bound(found, stored.end(), id);
      if (found == stored.end() || *found != id) {
        throw wrong(list.name, id,
                    cat("of rank ", holder_of(plan, place - plan.places.data()), " is not there"),
                    "the rows are those of other ids", "Ask for ids that there are.");
      }
      *place++ = static_cast<Place>(found - stored.begin());
    }
  });
  plan.order = std::move(mine.places);
  return plan;
}

}  // namespace cairn
