#pragma once
/// The coverage proof is spread over ranks. This is what one rank does with the tensors that it
/// proves.
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

/// A slice, or a part of one, that the receiving rank holds.
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
/// What one rank is told to write, to bring to a dense tensor, to compare and to watch.
struct Order {
  Packed<OrderedSlice> to_write, to_bring, to_compare;
  Packed<OrderedWatch> to_watch;
};
using Orders = std::unordered_map<int, Order>;  // by the rank that they are for

bool is_dense(const CoveredTensor&, const SaveFormat&);
/// Adds to the orders which ranks write this tensor. If it is dense, adds which parts ranks bring,
/// and adds the tensor to the list.
void assign(const CoveredTensor&, std::span<const int> writers, const SaveFormat&, Orders&,
            std::vector<DenseTensor>&);

/// The tensors that this rank has proved. Those without replicas already have their writers. Who
/// writes the replicated ones depends on how many bytes each rank writes in all.
struct CoverShare {
  Orders orders;
  std::vector<DenseTensor> dense;
  std::vector<CoveredTensor> replicated;
  std::int64_t replicated_slices = 0;  ///< slices that several ranks hold
  std::vector<std::int64_t> load;      ///< by rank: the bytes of its orders and dense tensors
};
CoverShare share_of(std::vector<CoveredTensor>, int ranks, const SaveFormat&);

}  // namespace cairn
