#pragma once
/// Coverage, spread over ranks: what one of those does that prove some of the tensors.
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/wire.hpp"
#include "exchange/coverage.hpp"
#include "session/save/dense.hpp"
#include "session/save/formats/save_format.hpp"

namespace cairn {

/// A slice of the rank that is told so, or a part of it.
struct OrderedSlice {
  std::string_view key;
  int slice = 0;
  Box box;
};
struct OrderedWatch {
  OrderedSlice of;
  std::int64_t ordinal = 0;
  std::uint64_t weight = 0;
};
/// For one rank: what it writes, brings to a dense tensor, and compares.
struct Order {
  Packed<OrderedSlice> to_write, to_bring, to_compare;
  Packed<OrderedWatch> to_watch;
};
using Orders = std::unordered_map<int, Order>;  // by rank

bool is_dense(const CoveredTensor&, const SaveFormat&);
/// Who writes this tensor, or brings what of it if it is dense; then it is one of the list, too.
void assign(const CoveredTensor&, std::span<const int> writers, const SaveFormat&, Orders&,
            std::vector<DenseTensor>&);

/// Some of the tensors. Those that no two ranks hold a slice of are dealt with; who writes the
/// others depends on what each rank writes of all.
struct CoverShare {
  Orders orders;
  std::vector<DenseTensor> dense;
  std::vector<CoveredTensor> replicated;
  std::int64_t replicated_slices = 0;  ///< those that several ranks hold
  std::vector<std::int64_t> load;      ///< bytes of the orders and dense tensors, by rank
};
CoverShare share_of(std::vector<CoveredTensor>, int ranks, const SaveFormat&);

}  // namespace cairn
