#pragma once
/// Which number a save gets: one that no earlier owner has given away (store/commit/sequences.hpp).
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn {

/// The owner's; one thread.
class Sequences {
 public:
  /// `last`: the last number that was given away. Both outlive it.
  Sequences(const Location& place, std::int64_t& last) : place_(place), last_(last) {}

  /// When the directory has been recovered and the catalog read. `undecided`: entries that could
  /// not be read, and may hold any number; `within_reach`: steps that an earlier owner, should it
  /// live, may still commit.
  void begin(const std::vector<CatalogEntry>&, const std::vector<std::string>& undecided,
             std::set<std::int64_t> within_reach);

  /// Throws io if a save of this step may not be numbered now: what could not be read may be newer
  /// than all that could.
  void require(std::int64_t step) const;
  bool is_within_reach(std::int64_t step) const { return within_reach_.contains(step); }

  /// The next number, which is used up whether or not its save succeeds. Where the block of numbers
  /// is used up, the next one is reserved, durably.
  std::int64_t next();
  /// Whether next() would need no file.
  bool has_next() const { return last_ < reserved_; }
  std::int64_t last() const { return last_; }
  /// The number after last() was given by agreement of the ranks.
  void use(std::int64_t sequence) { last_ = sequence; }

 private:
  const Location& place_;
  std::int64_t& last_;
  std::int64_t reserved_ = 0;  // up to here they are this owner's
  std::string unknown_;        // what could not be read, so that none is safe to give
  std::set<std::int64_t> within_reach_;
};

}  // namespace cairn
