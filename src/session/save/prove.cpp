// The proof of coverage in one exchange: each rank sends its declarations to the ranks that prove
// them. Tensors with very many slices are divided into regions, so that no rank has to prove them
// alone.
#include "session/save/prove.hpp"

#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/let_go.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/messages.hpp"
#include "session/save/cover_share.hpp"

namespace cairn {
namespace {

// By division and region.
using GivenByRegion = std::map<std::pair<int, int>, std::vector<GivenSlice>>;

// One slice of the sending rank, of a divided tensor.
struct DivisionSlice {
  int division = 0, region = 0, number = 0;
  bool fill = false;
  Box box;
};
struct ProofMessage {
  std::uint64_t declarations = 0;
  Packed<std::string> whole;  // PackedDeclarations
  Packed<DivisionSlice> parts;
};
// A view of the same message at its receiver.
struct ProofMessageView {
  std::uint64_t declarations = 0;
  std::string_view whole, parts;
};

// Sends each tensor's declaration to the rank that proves it. Of a divided tensor, sends each slice
// to all ranks whose regions it touches.
Messages to_planners(std::vector<Declaration>& mine, const KeyPlanners& planners,
                     const Divisions& divided) {
  std::map<int, ProofMessage> outgoing;
  for (auto& one : mine) {
    const int division = divided.find(one.key);
    if (division < 0) {
      auto& message = outgoing[planners.of(one.key)];
      ++message.declarations;
      message.whole.add(PackedDeclarations::pack_one(one));
      let_go(one);  // at once: there may be very many
      continue;
    }
    const auto& regions = divided[division].regions;
    // Fills are the last boxes of a declaration.
    const auto held = one.boxes.size() - one.fills;
    for (std::size_t number = 0; number < one.boxes.size(); ++number) {
      const auto& box = one.boxes[number];
      if (box.empty()) continue;
      regions.each_touched(box, [&](int region) {
        outgoing[divided[division].region_planner(region, planners.ranks)].parts.add(
            {division, region, static_cast<int>(number), number >= held, box});
      });
    }
  }
  return messages_of(std::move(outgoing));
}

// The messages must outlive the result.
PackedDeclarations take_declarations(const Messages& messages, GivenByRegion& given) {
  PackedDeclarations all;
  std::size_t count = 0;
  for (const auto& [rank, text] : messages) count += unpack<std::uint64_t>(text);
  all.expect(count);
  for (const auto& [rank, text] : messages) {
    const auto message = unpack<ProofMessageView>(text);
    for (const auto& one : unpack_each<std::string_view>(message.whole)) all.add(rank, one);
    for (auto& [division, region, number, fill, box] : unpack_each<DivisionSlice>(message.parts)) {
      given[{division, region}].push_back({std::move(box), {rank, number, fill}});
    }
  }
  return all;
}

// Proves this rank's regions. Returns the slices that begin in them. `found`: for each division,
// how many of its regions cannot be proved, and how many slices begin in the others.
std::vector<CoveredTensor> prove_regions(GivenByRegion given, const Divisions& divided, int rank,
                                         int ranks, std::vector<std::int64_t>& found) {
  std::vector<CoveredTensor> parts;
  for (int d = 0; d < static_cast<int>(divided.all().size()); ++d) {
    const auto& division = divided[d];
    for (int region = 0; region < division.regions.count(); ++region) {
      if (division.region_planner(region, ranks) != rank) continue;
      const auto at = 2 * static_cast<std::size_t>(d);
      auto slices =
          check_region(division.regions.box(region), std::exchange(given[{d, region}], {}));
      if (!slices) {
        ++found[at];
        continue;
      }
      std::erase_if(*slices,
                    [&](const auto& slice) { return division.regions.owner(slice.box) != region; });
      if (slices->empty()) continue;
      found[at + 1] += static_cast<std::int64_t>(slices->size());
      CoveredTensor part{division.key, division.dtype, division.shape, std::move(*slices),
                         division.storage};
      part.first_part = region == 0;
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

// Collective. Reports what is wrong with a divided tensor: one rank gets all declarations of the
// first such tensor, and checks it as if it were not divided. `error`: that of the tensors that are
// not divided.
void refuse(Group& group, std::vector<Declaration> mine, const KeyPlanners& planners,
            const std::string& key, DeferredError& error) {
  std::erase_if(mine, [&](const auto& one) { return one.key != key; });
  auto messages = all_to_all(group, to_planners(mine, planners, {}));
  DeferredError refused;
  refused.guard([&] {
    if (planners.of(key) != group.rank()) return;
    GivenByRegion none;
    take_declarations(messages, none).check();
    throw Error(Code::internal,
                cat("tensor '", key, "' is made up by its slices, but not all of its regions are"))
        .of_tensor(key);
  });
  if (error.first() && (!refused.first() || error.first()->tensor() <= key)) refused = error;
  agree_on_least(group, refused.first());
}

}  // namespace

// Counts slices over all ranks, decides which tensors are divided, sends the declarations to their
// planners, and lets these check. Errors are those that one rank with all declarations would find.
Proved prove_together(Group& group, std::vector<Declaration> mine, const SaveFormat& format) {
  SliceCounts counts(mine);
  group.all_reduce(counts.values(), Group::Op::sum);
  Proved proved;
  auto& [tensors, divided, planners] = proved;
  planners = key_planners_for(group, counts.all());
  divided = divide(group, mine, counts, planners);
  auto sent = to_planners(mine, planners, divided);
  // Otherwise they are needed once more if a proof fails, to make the error.
  if (divided.empty()) let_go(mine);
  auto messages = all_to_all(group, std::move(sent));
  std::vector<CoveredTensor> parts;
  // For each division two numbers, as prove_regions() fills them.
  std::vector<std::int64_t> found(2 * divided.all().size());
  DeferredError error;
  error.guard([&, &divided = divided, &tensors = tensors] {
    GivenByRegion given;
    const auto declarations = take_declarations(messages, given);
    parts = prove_regions(std::move(given), divided, group.rank(), group.size(), found);
    tensors = declarations.check();
    messages.clear();
  });
  if (!divided.empty()) {
    group.all_reduce(found, Group::Op::sum);
    for (std::size_t d = 0; d < divided.all().size(); ++d) {
      if (found[2 * d] == 0) continue;
      refuse(group, std::move(mine), planners, divided.all()[d].key, error);
      break;  // not reached: it throws, on all ranks
    }
  }
  agree_on_least(group, error.first());
  for (auto& part : parts) {
    // Whether the tensor is stored dense depends on the number of all its slices, which this rank
    // knows only from the sum.
    part.all_slices =
        static_cast<std::size_t>(found[2 * static_cast<std::size_t>(divided.find(part.key)) + 1]);
    tensors.push_back(std::move(part));
  }
  for (std::size_t d = 0; d < divided.all().size(); ++d) {
    auto& division = divided.all()[d];
    const CoveredTensor like{division.key, division.dtype, division.shape, {}, division.storage};
    division.dense = dtype_size(division.dtype) != 0 &&
                     format.stores_dense(like, static_cast<std::size_t>(found[2 * d + 1]));
  }
  return proved;
}

}  // namespace cairn
