#pragma once
/// Plans how rows with ids travel from the ranks that have them to *blocks* in the order of their
/// ids, one per rank, and back. A block is a run of rows of the tensor that is stored.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "exchange/sorted_ids.hpp"

namespace cairn {

/// What one rank knows of how the rows of one list of ids travel. The engine keeps it for later
/// saves and restores of the same ids, which it knows by a hash of 128 bits: to keep the ids
/// themselves would take as much memory again.
struct RowPlan {
  /// Rows that go to one rank, or come from one: a run of `order`, or of `places`.
  struct Part {
    int rank;
    std::int64_t first, count;
  };
  std::int64_t rows = 0;              ///< of the tensor
  std::int64_t begin = 0, count = 0;  ///< this rank's block
  std::int64_t held = 0;              ///< rows of this rank
  std::vector<plan::Place> order;     ///< this rank's rows, ascending by id
  std::vector<Part> holding;          ///< of these, the ranks whose blocks they are in; ascending
  std::vector<plan::Place> places;    ///< places in the block, of the rows that ranks have of it
  std::vector<Part> holders;          ///< of these, the ranks that have them; ascending
  bool is_proved = false;             ///< each row of the tensor is on exactly one rank
};

/// The ids of one list on this rank, and the name of the list in errors.
struct ListedIds {
  std::string name;  ///< a key
  std::span<const std::int64_t> ids;
};

/// All of these are collective. Errors of ids are invalid_argument, on all ranks alike, and name an
/// id and its ranks.

/// For a save with the ids first … first + rows - 1: throws if an id occurs twice, is missing, or
/// is another one. `rows` -1: as many as there are ids; throws if there is none.
RowPlan plan_all_rows(Group&, const ListedIds&, std::int64_t first, std::int64_t rows);

/// For a save with ids that may have gaps. Samples of all ranks' ids decide where they are cut, so
/// that blocks are about equally long wherever ids lie. Throws if an id occurs twice.
RowPlan plan_rows_with_gaps(Group&, const ListedIds&);

/// For a restore of so many rows, with ids from `first` on. Throws for ids outside of them.
RowPlan plan_wanted_rows(Group&, const ListedIds&, std::int64_t first, std::int64_t rows);

/// For a restore with ids that have gaps. `stored` are the ids of this rank's block, which begins
/// at row `begin` of `rows`. Throws for an id that is in no block.
RowPlan plan_found_rows(Group&, const ListedIds&, std::int64_t rows, std::int64_t begin,
                        std::span<const std::int64_t> stored);

/// The first row of each rank's block, with blocks of equal or nearly equal length.
std::vector<std::int64_t> even_blocks(std::int64_t rows, int ranks);

}  // namespace cairn
