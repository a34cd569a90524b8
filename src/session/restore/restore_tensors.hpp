#pragma once
/// What a restore reads: numbers, checked and placed through the exchange engine, and strings.
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

/// What one rank wants, of which stored slices.
struct Wants {
  struct Part {
    int tensor;  ///< index into contents.tensors
    int slice;
    int id;  ///< of the wanted slice
  };
  std::vector<const LocalSlice*> slices;  ///< by id
  std::vector<Part> parts;
  /// The slices among these that only some ranks know (SharedIndex), with their tensors.
  std::vector<std::pair<int, NumberedSlice>> found;

  /// The slices of a tensor, which outlive this. Throws not_found if what is stored does not cover
  /// them.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more);
  /// The same of a tensor that is dealt, of whose slices these have been found.
  void add(int tensor, const StoredTensor&, const std::vector<LocalSlice>& more,
           std::vector<NumberedSlice> there);
};

std::vector<Box> boxes_of(const std::vector<LocalSlice>&);

/// Collective. `wants` are this rank's. Without `place` the wanted slices are read and checked, and
/// no memory is touched. Returns the bytes that this rank read.
std::int64_t restore_tensors(const Job&, const SharedIndex&, const Wants& wants, bool place,
                             DirectIo);

/// Collective. The string tensors (indices into contents().tensors) that this rank wants, each as a
/// message of its elements. Adds the bytes that this rank has read. Throws data_loss for the least
/// tensor of all that is damaged.
std::map<int, std::string> restore_strings(const Job&, const SharedIndex&,
                                           const std::set<int>& wanted, std::int64_t& bytes_read);

}  // namespace cairn
