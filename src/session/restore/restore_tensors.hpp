#pragma once
/// Reads what a restore wants: numbers, which are checked and placed through the exchange, and
/// strings.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cairn/state.hpp"
#include "session/job/job.hpp"
#include "session/restore/shared_index.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// The parts of stored slices that one rank wants.
struct Wants {
  struct Part {
    int tensor;  ///< index into contents.tensors
    int slice;
    int id;  ///< of the wanted slice
  };
  struct Batch {
    std::vector<Part> parts;
    /// Those of the stored slices that only some ranks know (SharedIndex), with their tensors.
    std::vector<std::pair<int, NumberedSlice>> found;
  };
  std::vector<const LocalSlice*> slices;  ///< by id
  std::vector<Batch> batches;             ///< as many on all ranks, with the same tensors

  /// Adds slices of a tensor to the last batch. They must outlive this object. Throws not_found if
  /// the stored slices do not cover them.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more);
  /// The same for a dealt tensor. The last argument has the stored slices that find() returned for
  /// it.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more,
           std::vector<NumberedSlice> there);
};

/// A restore asks for slices, plans, reads and passes on a batch of tensors before the next, so
/// that very many small tensors take little memory. A batch has at most `slices` stored slices, or
/// `slices_a_rank` for each rank of the job if that is more; a tensor is never divided. Tests make
/// the numbers smaller.
struct RestoreBatches {
  std::int64_t slices = 16384, slices_a_rank = 4096;
};
RestoreBatches& restore_batches();

/// Tensors that follow each other in contents().tensors.
struct TensorBatch {
  int first = 0, end = 0;
};
/// All tensors; the same on all ranks.
std::vector<TensorBatch> batches_of(const SharedIndex&, int ranks);
/// The part of a list that belongs to a batch. The list ascends by tensor.
template <class T, class TensorOf>
std::span<const T> in_batch(const std::vector<T>& all, const TensorBatch& batch,
                            const TensorOf& tensor_of) {
  const auto begin_of = [&](int tensor) {
    return std::partition_point(all.begin(), all.end(),
                                [&](const T& one) { return tensor_of(one) < tensor; });
  };
  return {begin_of(batch.first), begin_of(batch.end)};
}

std::vector<Box> boxes_of(const std::vector<LocalSlice>&);

/// Collective. `wants` are this rank's. Without `place` the wanted slices are read and checked, but
/// no memory is changed. Returns the bytes that this rank has read.
std::int64_t restore_tensors(const Job&, const SharedIndex&, const Wants& wants, bool place,
                             DirectIo);

/// Collective. Returns the string tensors (indices into contents().tensors) that this rank wants,
/// each as a message with its elements. Adds the bytes that this rank has read. If tensors are
/// damaged, throws data_loss for the one with the lowest index on any rank.
std::map<int, std::string> restore_strings(const Job&, const SharedIndex&,
                                           const std::set<int>& wanted, std::int64_t& bytes_read);

}  // namespace cairn
