#pragma once
/// From memory to memory: gives the tensors of a job to other ranks without a disk in between, for
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
  /// asked for). `unused` is an error or nothing: the report has the keys. `direct_io` says nothing
  /// here.
  RestoreOptions restore = {};
  /// A rank packs and unpacks so much at a time, and takes memory for at most five times as much:
  /// two such parts of each direction, and a piece that stays (an element that is larger travels
  /// alone). 4 KiB to 64 MiB. What fits the processors' caches is quickest.
  std::int64_t chunk_bytes = std::int64_t{1} << 20;
};

/// What was moved. The same on all ranks.
struct RedistributeReport {
  /// Written to `to`, of all ranks. Strings are not counted, rows by global id once each.
  std::int64_t bytes = 0;
  std::int64_t bytes_sent = 0;      ///< of these, what went from one rank to another
  std::int64_t buffer_bytes = 0;    ///< the most memory that a rank took for what was on its way
  std::set<std::string> kept_keys;  ///< not in `from`, as allowed: they keep what is in memory
  std::vector<std::string> unused_keys;  ///< in `from`, and in no rank's `to`
};

/// Fills `to`, which says what each rank wants, from `from`, which says what each rank has.
///
/// The slices of `from` are proved to make up each tensor, as at a save: each element is held, by
/// one slice or by replicas of it. `to` may want less: no part of some tensors, boxes with halos,
/// the same box on several ranks; its keys are in `from`. Of replicas one is read, a rank's own if
/// it has one, and they are not compared. Ragged rows are dealt anew, as at a restore, and `to`'s
/// memory is resized; a rank-private item goes from a rank to itself. Strings are copied whole.
/// Rows by global id go to the ranks that have their ids in `to`, as at a save and a restore of
/// them; each rank takes memory for its share of these rows, twice, beside what is below.
///
/// Memory of `from` and `to` may not overlap: addresses are compared before anything is written,
/// those of rows before they are resized, and what is shared is an error. Two things are allowed:
/// slices that interleave with fixed strides and share no byte, such as two fields of an array of
/// structs; and a slice that is the same on both sides, key, box, address and strides, which stays
/// as it is. Rows by id are copied before anything is written: those of `to` may lie where those of
/// `from` do. Memory whose addresses are not known (SliceMemory::footprint) is the caller's care.
///
/// Collective. Throws, on all ranks alike and before anything of `to` is touched: coverage and
/// disagreement as a save does; not_found for keys that are not in `from`, and invalid_argument for
/// dtypes and shapes that do not fit, as a restore does; invalid_argument for shared memory and for
/// options out of range. Afterwards only what reading and writing the application's memory throws,
/// such as a value that its new dtype cannot hold, and of rows whose ids are looked up under an
/// ids_key that one is not there: then the contents of `to` are unspecified.
RedistributeReport redistribute(const std::shared_ptr<Group>& group, const State& from, State& to,
                                const RedistributeOptions& options = {});

/// The same again and again: what is found out about who sends what to whom is kept while all ranks
/// have and want the same boxes. The states must outlive it. Not thread-safe.
class Redistribution {
 public:
  /// Collective. Plans, and throws what redistribute() throws before anything is touched.
  Redistribution(const std::shared_ptr<Group>& group, const State& from, State& to,
                 RedistributeOptions options = {});
  ~Redistribution();
  Redistribution(Redistribution&&) noexcept;
  Redistribution& operator=(Redistribution&&) noexcept;

  /// Collective. Moves what memory holds now. Both states are looked at anew: what was given by
  /// reference may have moved, and if boxes, dtypes or keys are others on any rank, or numbers of
  /// rows, all ranks plan again. Throws what redistribute() throws; it may be called again then.
  RedistributeReport run();
  /// How often ranks have planned so far: 1 while nothing has changed.
  int plans() const;

 private:
  std::unique_ptr<Redistributor> work_;
};

}  // namespace cairn
