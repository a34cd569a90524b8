#pragma once
/// Rows with ids: from wherever ranks have them to *blocks* in the order of their ids, one a rank,
/// and back. A block is a run of rows of the tensor that is stored.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "exchange/sorted_ids.hpp"

namespace cairn {

/// What one rank knows of how the rows of one list of ids travel. The engine keeps it for later
/// saves and restores of the same ids, which a hash of 128 bits tells: to keep the ids themselves
/// would take as much memory again.
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
  std::vector<Part> holding;          ///< of these, whose block they are in; ascending
  std::vector<plan::Place> places;    ///< in the block, of the rows that others and this rank have
  std::vector<Part> holders;          ///< of these, who has them; ascending
  bool is_proved = false;             ///< each row of the tensor is on one rank
};

/// The ids of one list on this rank, and what to call them in errors.
struct ListedIds {
  std::string name;  ///< a key
  std::span<const std::int64_t> ids;
};

/// All are collective, throw invalid_argument on all ranks alike, and in that name an id and its
/// ranks.

/// Of a save, where the ids are first … first + rows - 1: throws for one that is doubled, missing
/// or another. `rows` -1: as many as there are ids; throws if there is none.
RowPlan plan_all_rows(Group&, const ListedIds&, std::int64_t first, std::int64_t rows);

/// Of a save, where ids may have gaps. Samples of all ranks' ids cut them, so that blocks are about
/// equally long however ids lie. Throws for one that is doubled.
RowPlan plan_rows_with_gaps(Group&, const ListedIds&);

/// Of a restore of so many rows, with ids from `first` on. Throws for ids beyond.
RowPlan plan_wanted_rows(Group&, const ListedIds&, std::int64_t first, std::int64_t rows);

/// Of a restore where ids have gaps: `stored` are those of this rank's block, which begins at row
/// `begin` of `rows`. Throws for an id that is not among those of all blocks.
RowPlan plan_found_rows(Group&, const ListedIds&, std::int64_t rows, std::int64_t begin,
                        std::span<const std::int64_t> stored);

/// The first row of the block of each rank, where all are equally long, or nearly.
std::vector<std::int64_t> even_blocks(std::int64_t rows, int ranks);

}  // namespace cairn
