#pragma once
/// A state in which every element tells to which save it belongs.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::campaign {

/// What a state has besides its stamp; the same in all jobs of a directory.
struct Shape {
  std::int64_t rows = 0, columns = 0;  ///< of a tensor whose rows are dealt over the ranks
  bool sliced = false;                 ///< it is stored so; otherwise as the library chooses
  bool dense = false;                  ///< one that all ranks write together
  bool ragged = false;
  bool text = false;
  bool by_id = false;     ///< rows whose ids have gaps, on other ranks in each save
  bool lengths = false;   ///< vectors whose length is another in each save
  bool sparse = false;    ///< a tensor whose last row no rank holds
  bool frozen = false;    ///< "model", which most saves find as it was
  bool kept = false;      ///< "base": blocks of 64 KiB that stay for some saves
  bool backward = false;  ///< the last rank has the first rows
};

/// One rank's part. Not movable: the state refers to it.
class StampedState {
 public:
  StampedState(std::shared_ptr<Group> group, const Shape& shape);
  StampedState(const StampedState&) = delete;
  StampedState& operator=(const StampedState&) = delete;

  State& state() { return state_; }
  void fill(std::int64_t stamp);
  /// Makes all values wrong, and asks for the rows that this rank is to get.
  void spoil();
  std::int64_t stamp() const { return stamp_; }
  /// What differs, on any rank, from what fill(stamp()) sets; empty if nothing does.
  std::string problem() const;

 private:
  struct Piece {
    std::int64_t first = 0, count = 0;
  };
  Piece piece_of(std::int64_t total, std::int64_t rank) const;
  void fill_by_id(std::int64_t stamp);
  bool lengths_are_of(std::int64_t stamp) const;
  bool is_base_of(std::int64_t stamp) const;

  std::shared_ptr<Group> group_;
  Shape shape_;
  std::int64_t stamp_ = 0, writers_ = 0;
  Piece rows_;
  std::vector<double> sliced_, dense_, model_;
  std::array<double, 5> table_{};
  std::vector<std::array<std::int64_t, 3>> particles_;
  std::string text_;
  std::vector<std::int64_t> ids_;
  std::vector<double> by_id_, history_, sparse_;
  std::vector<std::string> words_;
  Piece kept_;
  std::vector<std::int64_t> base_;
  State state_;
};

}  // namespace cairn::campaign
