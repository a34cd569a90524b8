// A restore of sparse tensors: wanted slices lose the parts that are gaps in the checkpoint. If the
// state's tensor is not sparse, a gap is an error.
#include "session/restore/sparse_wants.hpp"

#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "exchange/gaps.hpp"
#include "model/box_index.hpp"
#include "model/sparse.hpp"

namespace cairn {

void write_fills(const WantedState& wanted) {
  for (const auto& [memory, part, element] : wanted.fills) write_fill(*memory, part, element);
}

void refuse_gaps(const std::string& key, const StoredTensor& stored, const Box& gap) {
  throw Error(Code::not_found,
              cat("tensor '", key, "' ", shape_text(stored.shape), ": ", box_text(gap),
                  gap.rank() == 0 ? " was" : " were", " held by no rank"),
              "it was given as a sparse tensor, and is wanted as one that is whole",
              "Give its slices with cairn::sparse, which says what becomes of such elements.")
      .of_tensor(key);
}

void leave_gaps_out(const std::string& key, const StoredTensor& stored, const LocalTensor& given,
                    WantedState& wanted) {
  const auto& gaps = stored.gaps->boxes;
  if (given.unresolved) {  // it is not known yet which rows this rank gets
    if (!gaps.empty()) refuse_gaps(key, stored, gaps.front());
    return;
  }
  auto& tensor = wanted.tensors.back().change();
  const BoxIndex index(gaps);
  std::vector<LocalSlice> held;
  for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
    auto& slice = tensor.slices[s];
    std::vector<Box> here;
    for (const auto g : index.query(slice.box)) {
      if (auto common = intersect(gaps[g], slice.box)) here.push_back(std::move(*common));
    }
    if (here.empty()) {
      held.push_back(std::move(slice));
      continue;
    }
    if (!given.sparse) refuse_gaps(key, stored, here.front());
    // What remains of the slice without its gaps is stored.
    for (const auto& box : find_gaps(slice.box, here)) {
      held.push_back({box, part_of(slice.memory, box.relative_to(slice.box.start), slice.box.extent,
                                   dtype_size(tensor.dtype))});
    }
    for (const auto& box : here) {
      wanted.gap_elements += box.count();
      if (given.sparse->gaps == Gaps::keep) continue;
      wanted.fills.push_back(
          {given.slices[s].memory, box.relative_to(slice.box.start), fill_element(given)});
    }
  }
  tensor.slices = std::move(held);
}

}  // namespace cairn
