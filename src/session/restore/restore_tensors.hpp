#pragma once
/// Reads what a restore wants: numbers, which are checked and placed through the exchange, and
/// strings.
#include <cstdint>
#include <map>
#include <set>
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
  std::vector<const LocalSlice*> slices;  ///< by id
  std::vector<Part> parts;
  /// Those of the stored slices that only some ranks know (SharedIndex), with their tensors.
  std::vector<std::pair<int, NumberedSlice>> found;

  /// Adds slices of a tensor, which must outlive this object. Throws not_found if the stored slices
  /// do not cover them.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more);
  /// The same for a dealt tensor. The last argument has the stored slices that find() returned for
  /// it.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more,
           std::vector<NumberedSlice> there);
  /// Sorts parts and found slices by tensor. To be called when all have been added.
  void sort();
};

/// A restore plans, reads and passes on a batch of tensors before the next, so that plans of very
/// many small tensors take little memory. A batch has at most `slices` stored slices, or
/// `slices_a_rank` for each rank of the job if that is more; a tensor is never divided. Tests make
/// the numbers smaller.
struct RestoreBatches {
  std::int64_t slices = 32768, slices_a_rank = 4096;
};
RestoreBatches& restore_batches();

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
