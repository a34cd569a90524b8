// Merge: the entries of all ranks become one index.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/let_go.hpp"
#include "base/merge_streams.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/box_check.hpp"
#include "exchange/by_key.hpp"
#include "exchange/messages.hpp"
#include "session/save/save_steps.hpp"
#include "store/contents/seal.hpp"

namespace cairn {
namespace {

// Figures of neighbouring ranks, on their way to rank 0.
struct ToldFigures {
  RankFigures figures;
  int first_share = 0;
  std::vector<RankShare> shares;  // of consecutive groups of ranks

  void fold(const ToldFigures& of_higher_ranks) {
    figures.fold(of_higher_ranks.figures);
    const auto& more = of_higher_ranks.shares;
    const auto place = static_cast<std::size_t>(of_higher_ranks.first_share - first_share);
    shares.resize(std::max(shares.size(), place + more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) {
      auto& share = shares[place + i];
      share.bytes += more[i].bytes;
      share.write_seconds = std::max(share.write_seconds, more[i].write_seconds);
    }
  }
};

// Combines the ranks' figures on the way to rank 0: one message travels with the merge, without
// another collective. Part records do not have figures, so a save that is rolled forward has none.
void fold_figures(Group& group, SaveStatistics& measured) {
  const ToldFigures mine{RankFigures::of(measured, group.rank()),
                         group.rank() / ranks_a_share(group.size()),
                         {{measured.bytes, measured.seconds.write}}};
  const auto all =
      reduce_to_root(group, pack(mine), [](const std::string& low, const std::string& high) {
        auto figures = unpack<ToldFigures>(low);
        figures.fold(unpack<ToldFigures>(high));
        return pack(figures);
      });
  if (group.rank() != 0) {
    measured.replica_bytes = 0;  // a summand, which may be negative
    return;
  }
  auto told = unpack<ToldFigures>(all);
  told.figures.give(measured);
  measured.shares = std::move(told.shares);
}

// For a divided tensor: a rank's slices of one run, and a box that the rank writes in one region.
struct RunShare {
  int division = 0, run = 0;
  StoredTensor entry;
};
struct BoxOfRegion {
  int division = 0, region = 0;
  Box box;
};
// What is sent to one rank: entries of whole tensors, entries of runs of divided tensors, and boxes
// that are written in their regions.
struct EntryMessage {
  Packed<StoredTensor> whole;  // ascending by key
  Packed<RunShare> runs;
  Packed<BoxOfRegion> boxes;
};
// A view of the same message at its receiver.
struct EntryMessageView {
  std::string_view whole, runs, boxes;
};

// Each slice goes to the rank that encodes its run of the index. Its box also goes to the ranks
// that prove the regions which it touches.
void add_divided(std::map<int, EntryMessage>& outgoing, StoredTensor& tensor,
                 const Divisions& divided, int number, int ranks) {
  const auto& division = divided[number];
  std::map<int, std::vector<Piece>> runs;
  for (auto& slice : tensor.slices) {
    division.regions.each_touched(slice.box, [&](int region) {
      outgoing[division.region_planner(region, ranks)].boxes.add({number, region, slice.box});
    });
    runs[division.runs.of(slice.box, slice.dash)].push_back(std::move(slice));
  }
  for (auto& [run, slices] : runs) {
    outgoing[division.run_planner(run, ranks)].runs.add(
        {number, run, {tensor.key, tensor.dtype, tensor.shape, true, std::move(slices), ""}});
  }
}

// Regions and runs are computed from boxes, which must lie inside the tensor for that.
bool fits(const StoredTensor& tensor, const Division& division) {
  return tensor.dtype == division.dtype && tensor.shape == division.shape &&
         std::all_of(tensor.slices.begin(), tensor.slices.end(), [&](const auto& slice) {
           return !slice.box.empty() && lies_inside(slice.box, division.shape);
         });
}

// The entries of one rank, ascending by key. They are unpacked one at a time, since they take three
// times the memory of their message.
class EntryStream {
 public:
  explicit EntryStream(std::string_view packed) : in_(packed) { next(); }

  bool ended() const { return ended_; }
  const std::string& key() const { return front_.key; }
  StoredTensor take() {
    auto taken = std::move(front_);
    next();
    return taken;
  }

 private:
  void next() {
    ended_ = in_.empty();
    if (!ended_) front_ = in_.get<StoredTensor>();
  }

  WireReader in_;
  StoredTensor front_;
  bool ended_ = false;
};

// What this rank has received.
struct Received {
  Messages messages;          // which the streams read
  Packed<StoredTensor> mine;  // of a rank that is alone: nothing goes into a message
  std::vector<EntryStream> whole;
  std::map<std::pair<int, int>, StoredTensor> runs;       // by division and run
  std::map<std::pair<int, int>, std::vector<Box>> boxes;  // by division and region
};

// Stable, so that the slices of one key keep the order in which they were written.
EntryList sorted_by_key(EntryList list) {
  if (list.ascends()) return list;
  auto entries = list.unpacked();
  let_go(list);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  return entries;
}

// Entries of tensors that are not divided, or are stored as one array, go whole to the rank of
// their key.
Messages to_planners(EntryList mine, const KeyPlanners& planners, const Divisions& divided) {
  std::map<int, EntryMessage> outgoing;
  for (auto& one : mine.each()) {
    const int division = divided.find(one.key);
    if (division < 0 || divided[division].dense) {
      auto& message = outgoing[planners.of(one.key)];
      message.whole.add(one);
      continue;
    }
    if (!fits(one, divided[division])) {
      throw Error(Code::internal, cat("an entry of tensor '", one.key, "' lies outside of it"))
          .of_tensor(one.key);
    }
    add_divided(outgoing, one, divided, division, planners.ranks);
  }
  let_go(mine);
  return messages_of(std::move(outgoing));
}

// Divided entries are unpacked, since several ranks have slices of one run; whole ones stay packed.
void read(Messages messages, Received& received) {
  received.messages = std::move(messages);
  for (const auto& [rank, bytes] : received.messages) {
    const auto message = unpack<EntryMessageView>(bytes);
    received.whole.emplace_back(message.whole);
    for (auto& [division, run, entry] : unpack_each<RunShare>(message.runs)) {
      const auto [at, is_new] = received.runs.try_emplace({division, run});
      if (is_new) {
        at->second = std::move(entry);
      } else {
        std::move(entry.slices.begin(), entry.slices.end(), std::back_inserter(at->second.slices));
      }
    }
    for (auto& [division, region, box] : unpack_each<BoxOfRegion>(message.boxes)) {
      received.boxes[{division, region}].push_back(std::move(box));
    }
  }
}

// Adds the gaps of divided tensors to the boxes in this rank's regions.
void add_gaps(std::map<std::pair<int, int>, std::vector<Box>>& boxes, const Divisions& divided,
              const GapsByKey& gaps, int rank, int ranks) {
  for (int d = 0; d < static_cast<int>(divided.all().size()); ++d) {
    const auto& division = divided[d];
    const auto found = gaps.find(division.key);
    if (division.dense || found == gaps.end()) continue;
    for (const auto& box : found->second->boxes) {
      division.regions.each_touched(box, [&, d = d](int region) {
        if (division.region_planner(region, ranks) == rank) boxes[{d, region}].push_back(box);
      });
    }
  }
}

// Checks that the boxes cover each region of this rank exactly once.
void prove_regions(std::map<std::pair<int, int>, std::vector<Box>> boxes, const Divisions& divided,
                   int rank, int ranks) {
  for (int d = 0; d < static_cast<int>(divided.all().size()); ++d) {
    const auto& division = divided[d];
    if (division.dense) continue;
    for (int region = 0; region < division.regions.count(); ++region) {
      if (division.region_planner(region, ranks) != rank) continue;
      const auto& whole = division.regions.box(region);
      std::vector<GivenSlice> given;
      for (auto& box : boxes[{d, region}]) {
        given.push_back({std::move(box), {static_cast<int>(given.size()), 0}});
      }
      // Each box counts as a holder of its own: a slice with two holders was written twice.
      const auto slices = check_region(whole, std::move(given));
      if (slices && std::all_of(slices->begin(), slices->end(),
                                [](const auto& slice) { return slice.holders.size() == 1; })) {
        continue;
      }
      throw Error(Code::internal, cat("entries of tensor '", division.key,
                                      "' overlap or leave out something in ", box_text(whole)))
          .of_tensor(division.key);
    }
  }
}

// Joins the entries of each tensor, in ascending order of keys. Entries of one key are taken in the
// order of their ranks.
template <class Take>
void join_streams(std::vector<EntryStream>& streams, const GapsByKey& gaps, const Take& take) {
  std::optional<StoredTensor> tensor;
  const auto end = [&] {
    if (!tensor) return;
    complete_entry(*tensor, gaps);
    take(*std::exchange(tensor, std::nullopt));
  };
  merge_streams(
      streams, [](const auto& a, const auto& b) { return a.key() < b.key(); },
      [&](EntryStream& stream) {
        if (tensor && tensor->key == stream.key()) return add_entry(*tensor, stream.take());
        end();
        tensor = stream.take();
      });
  end();
}

// The entries that a rank has encoded, for rank 0: each list ascends.
struct EncodedMessage {
  Packed<bundle::IndexEntry> runs, whole;
};

EncodedMessage encode(Received received, const GapsByKey& gaps) {
  EncodedMessage message;
  bundle::EntryEncoder encoder;
  for (auto& [where, tensor] : received.runs) {
    // In the same order as the slices of a whole tensor.
    std::sort(tensor.slices.begin(), tensor.slices.end(),
              [](const auto& a, const auto& b) { return a.box < b.box; });
    message.runs.add(encoder.encode_part(tensor, where.second));
    let_go(tensor);
  }
  join_streams(received.whole, gaps,
               [&](const StoredTensor& tensor) { message.whole.add(encoder.encode(tensor)); });
  return message;
}

void keep_lists(EncodedMessage message, std::vector<Packed<bundle::IndexEntry>>& lists) {
  for (auto* list : {&message.runs, &message.whole}) {
    if (!list->bytes.empty()) lists.push_back(std::move(*list));
  }
}

// Joins what this rank has received. Rank 0 keeps the result in `all`; another rank returns it as
// its message to rank 0, which is empty if there is nothing.
std::string join(Received received, const GapsByKey& gaps, bool encode_them, bool root,
                 JoinedEntries& all) {
  std::string report;
  if (!encode_them) {
    join_streams(received.whole, gaps, [&](StoredTensor tensor) {
      if (root) return all.tensors.push_back(std::move(tensor));
      pack_into(report, tensor);
    });
    return report;
  }
  auto mine = encode(std::move(received), gaps);
  if (root) {
    keep_lists(std::move(mine), all.encoded);
  } else if (!mine.runs.bytes.empty() || !mine.whole.bytes.empty()) {
    report = pack(std::exchange(mine, {}));
  }
  return report;
}

}  // namespace

// First the ranks find out whether the cached index serves. If not, each entry goes to the rank
// that its key chooses, which joins and encodes the entries of the key; rank 0 gets the results. So
// rank 0 has little work for each tensor, however many ranks hold it.
JoinedEntries merge_entries(Group& group, EntryList mine, bool encode_them,
                            SaveStatistics* measured, const Divisions& divided,
                            const GapsByKey& gaps, CachedMerge* kept) {
  if (measured) fold_figures(group, *measured);
  JoinedEntries all;
  std::array<std::int64_t, 2> sum = {mine.slices(), 0};  // slices; ranks that miss the cache
  if (kept) sum[1] = kept->misses(group, mine, all.kept);
  group.all_reduce(sum, Group::Op::sum);
  if (kept && sum[1] == 0) return all;
  all.kept = nullptr;
  if (kept) kept->forget();
  const bool keeps = kept && sum[0] <= CachedMerge::most_slices;
  const auto planners = key_planners_for(group, sum[0]);
  std::vector<StoredTensor> copy;
  DeferredError error;
  Messages messages;
  Received received;
  error.guard([&] {
    if (keeps) copy = mine.unpacked();
    mine = sorted_by_key(std::move(mine));
    // A rank that is alone needs no second copy as a message.
    if (group.size() == 1 && divided.empty()) {
      received.mine = std::move(mine).take_packed();
      received.whole.emplace_back(received.mine.bytes);
    } else {
      messages = to_planners(std::move(mine), planners, divided);
    }
  });
  messages = all_to_all(group, std::move(messages));
  std::string report;  // for rank 0, which keeps its own part here
  error.guard([&] {
    read(std::move(messages), received);
    add_gaps(received.boxes, divided, gaps, group.rank(), group.size());
    prove_regions(std::move(received.boxes), divided, group.rank(), group.size());
    report = join(std::move(received), gaps, encode_them, group.rank() == 0, all);
  });
  // As if one rank had merged all keys in ascending order.
  agree_on_least(group, error.first());
  to_root(group, std::move(report), [&](const std::string& message) {
    if (!encode_them) return unpack_into(all.tensors, message);
    keep_lists(unpack<EncodedMessage>(message), all.encoded);
  });
  std::sort(all.tensors.begin(), all.tensors.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  if (keeps) kept->keep(group, std::move(copy), all.encoded);
  return all;
}

}  // namespace cairn
