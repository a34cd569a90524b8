#pragma once
/// The tensors of a table such as tensors.txt: what ranks give to a save and to a restore of them.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/group.hpp"
#include "cairn/state.hpp"

namespace cairn::test {

struct TableLine {
  std::string key, kind;
  DType dtype{};
  Dims shape;
  std::int64_t number = 0;
  std::int64_t row_elements() const {
    return shape.empty() ? 1 : element_count({shape.begin() + 1, shape.end()});
  }
};
/// Throws unless the file has lines.
std::vector<TableLine> read_table(const std::filesystem::path&);

/// What one rank gives to a save of a step, or to a restore if the step is -1. The table stays
/// where it is.
class TableState {
 public:
  TableState(const Group&, const std::vector<TableLine>&, std::int64_t step);
  ~TableState();
  TableState(const TableState&) = delete;
  TableState& operator=(const TableState&) = delete;
  State& state() { return state_; }

  /// Collective. Returns "" or which tensor a restore has not set as it was in this step.
  std::string check(Group& group, std::int64_t step) const;

 private:
  struct Held;
  Box block(const TableLine&, std::size_t dimension) const;
  void add_boxes(const TableLine&, Held&);
  void add(const TableLine&, Held&);

  const std::vector<TableLine>& lines_;
  std::int64_t r_, n_, step_;
  std::vector<Held> held_;
  State state_;
};

}  // namespace cairn::test
