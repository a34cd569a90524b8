#pragma once
/// Finds memory that a restore would fill from two places. That is an error, unless both have the
/// same bytes for it, as with tied weights.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/state.hpp"
#include "model/shared_memory.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// Finds the ties of one rank. What is added must outlive this object and must not change.
class TieFinder {
 public:
  explicit TieFinder(const CheckpointContents& contents) : contents_(contents) {}

  /// Reserves memory for about so many slices: a list that grows needs twice its memory for a
  /// while.
  void expect(std::size_t slices) { items_.reserve(slices), laid_.reserve(slices); }
  /// Throws invalid_argument if elements of one slice share memory.
  void add(const std::string& key, const LocalTensor& given, const WantedTensor&);
  void add(const std::string& key, const LocalTensor& given, const WantedFill&, int stored);
  /// Adds rows of which it is not known yet which ones this rank gets.
  void add_rows(const std::string& key, const LocalTensor& given, int stored);

  /// Throws invalid_argument if memory is shared by parts that cannot have the same bytes.
  std::vector<Tie> ties() const;

 private:
  struct Item {
    enum class Kind { slice, fill, strings, rows, memory_of_rows };
    Kind kind;
    const std::string* key;
    DType dtype;  // of the memory
    int stored;
    const Box* box = nullptr;           // the wanted slice, or one of boxes_; null if not known yet
    const std::string* fill = nullptr;  // the element to fill with, one of fills_
  };
  void add(Item, Footprint, Dims extent);
  void add_owner(Item, const LocalTensor& given);
  bool are_harmless(std::size_t, std::size_t) const;
  [[noreturn]] void refuse(std::size_t, std::size_t) const;

  const CheckpointContents& contents_;
  std::vector<Item> items_;
  std::deque<Box> boxes_;
  std::deque<std::string> fills_;
  std::vector<Laid> laid_;  // one for each of items_
};

/// Compares the bytes of tied parts without memory for them: it keeps only fingerprints.
class TieProbe {
 public:
  /// The ties must outlive this object.
  TieProbe(const CheckpointContents&, const std::vector<Tie>& ties);
  /// Tensors to restore, whose slices keep only a fingerprint of what is written to them.
  const WantedState& wanted() const { return wanted_; }
  /// Call it when wanted() is filled. Throws invalid_argument for parts whose bytes differ. It
  /// calls the function to compare strings.
  void require_equal(const std::function<bool(int stored, int other)>& are_equal_strings) const;

 private:
  class Fingerprint;
  std::shared_ptr<const Fingerprint> add(const FillSource&);

  const CheckpointContents& contents_;
  const std::vector<Tie>& ties_;
  WantedState wanted_;
  std::vector<std::pair<std::shared_ptr<const Fingerprint>, std::shared_ptr<const Fingerprint>>>
      prints_;  // of both parts of each tie
};

}  // namespace cairn
