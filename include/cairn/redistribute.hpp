#pragma once
/// Moves the tensors of a job from memory to memory of other ranks, without a disk in between: for
/// load balancing, a new mesh of ranks, Views of another layout.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"

namespace cairn {

class Redistributor;

/// The same on all ranks.
struct RedistributeOptions {
  /// How `to` is filled from `from`, as a restore fills a state from a checkpoint: other names, an
  /// offset in a larger tensor, keys that may be missing, conversion of dtypes (none unless it is
  /// asked for). `unused` is either an error or ignored: the report has the keys. `direct_io` has
  /// no meaning here.
  RestoreOptions restore = {};
  /// A rank packs and unpacks so many bytes at a time, and takes memory for at most five times as
  /// much: two such parts for each direction, and one for a piece that stays on the rank (an
  /// element that is larger travels alone). 4 KiB to 64 MiB. A size that fits the processors'
  /// caches is fastest.
  std::int64_t chunk_bytes = std::int64_t{1} << 20;
};

/// What a redistribution has moved. The same on all ranks.
struct RedistributeReport {
  /// Bytes written to `to` on all ranks. Strings do not count; each row by global id counts once.
  std::int64_t bytes = 0;
  std::int64_t bytes_sent = 0;           ///< of these, bytes that went from one rank to another
  std::int64_t buffer_bytes = 0;         ///< the most memory that a rank took for messages
  std::set<std::string> kept_keys;       ///< not in `from`, as allowed: memory stays as it was
  std::vector<std::string> unused_keys;  ///< in `from`, and in no rank's `to`
};

/// Fills `to`, which says what each rank wants, from `from`, which says what each rank has.
///
/// It proves, as a save does, that the slices of `from` cover each tensor: each element is in one
/// slice or in replicas of it. `to` may want anything of this: no part of some tensors, boxes with
/// halos, the same box on several ranks; its keys must be in `from`. Of replicas one is read, a
/// rank's own if it has one; they are not compared. Ragged rows are dealt anew, as in a restore,
/// and `to`'s memory is resized; a rank-private item goes from a rank to itself. Strings are copied
/// whole. Rows by global id go to the ranks that have their ids in `to`, as in a save and a
/// restore; each rank takes memory for its share of these rows, twice, besides the parts of
/// chunk_bytes.
///
/// Memory of `from` and `to` may not overlap: addresses are compared before anything is written,
/// those of rows before they are resized, and shared memory is an error. Two cases are allowed:
/// slices that interleave with fixed strides and share no byte, such as two fields of an array of
/// structs; and a slice with the same key, box, address and strides on both sides, which stays as
/// it is. Rows by id are copied before anything is written, so those of `to` may share memory with
/// those of `from`. If the addresses of memory are not known (SliceMemory::footprint), the caller
/// must see to it that nothing overlaps.
///
/// Collective. Throws, on all ranks alike and before anything of `to` is touched: coverage and
/// disagreement as a save does; not_found for keys that are not in `from`, and invalid_argument for
/// dtypes and shapes that do not fit, as a restore does; invalid_argument for shared memory and for
/// options out of range. Later it throws only errors of reading and writing the application's
/// memory, such as a value that its new dtype cannot hold, and, for rows with an ids_key, an id
/// that is not there: then the contents of `to` are unspecified.
RedistributeReport redistribute(const std::shared_ptr<Group>& group, const State& from, State& to,
                                const RedistributeOptions& options = {});

/// A redistribution that is repeated: the plan (who sends what to whom) is kept while all ranks
/// have and want the same boxes. The states must outlive it. Not thread-safe.
class Redistribution {
 public:
  /// Collective. Plans, and throws what redistribute() throws before anything is touched.
  Redistribution(const std::shared_ptr<Group>& group, const State& from, State& to,
                 RedistributeOptions options = {});
  ~Redistribution();
  Redistribution(Redistribution&&) noexcept;
  Redistribution& operator=(Redistribution&&) noexcept;

  /// Collective. Moves the values that memory holds at this call. Both states are refreshed:
  /// tensors given by reference may have moved, and if boxes, dtypes, keys or numbers of rows have
  /// changed on any rank, all ranks plan again. Throws what redistribute() throws; it may be called
  /// again then.
  RedistributeReport run();
  /// How often ranks have planned so far: 1 while nothing has changed.
  int plans() const;

 private:
  std::unique_ptr<Redistributor> work_;
};

}  // namespace cairn
