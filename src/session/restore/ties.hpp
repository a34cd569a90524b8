#pragma once
/// Memory that a restore would fill from two places. That is an error, unless both have the same
/// bytes for it: tied weights.
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

/// Finds the ties of one rank. What is added outlives it, and stays as it is.
class TieFinder {
 public:
  explicit TieFinder(const CheckpointContents& contents) : contents_(contents) {}

  /// About so many slices will be added: lists that grow take twice their memory.
  void expect(std::size_t slices) { items_.reserve(slices), laid_.reserve(slices); }
  /// Throws invalid_argument where elements of one slice share memory.
  void add(const std::string& key, const LocalTensor& given, const WantedTensor&);
  void add(const std::string& key, const LocalTensor& given, const WantedFill&, int stored);
  /// Rows of which it is not known yet which ones they will be.
  void add_rows(const std::string& key, const LocalTensor& given, int stored);

  /// Throws invalid_argument for memory that is shared and cannot get the same bytes.
  std::vector<Tie> ties() const;

 private:
  struct Item {
    enum class Kind { slice, fill, strings, rows, memory_of_rows };
    Kind kind;
    const std::string* key;
    DType dtype;  // in memory
    int stored;
    const Box* box = nullptr;           // of the wanted slice, or of boxes_; null: not known yet
    const std::string* fill = nullptr;  // its element, of fills_
  };
  void add(Item, Footprint, Dims extent);
  void add_owner(Item, const LocalTensor& given);
  bool are_harmless(std::size_t, std::size_t) const;
  [[noreturn]] void refuse(std::size_t, std::size_t) const;

  const CheckpointContents& contents_;
  std::vector<Item> items_;
  std::deque<Box> boxes_;
  std::deque<std::string> fills_;
  std::vector<Laid> laid_;  // of each
};

/// What tied parts hold, without memory for it.
class TieProbe {
 public:
  /// The ties outlive it.
  TieProbe(const CheckpointContents&, const std::vector<Tie>& ties);
  /// Tensors whose slices keep a fingerprint of what is written to them. To be filled.
  const WantedState& wanted() const { return wanted_; }
  /// Afterwards. Throws invalid_argument for parts that have other bytes; of strings it asks.
  void require_equal(const std::function<bool(int stored, int other)>& are_equal_strings) const;

 private:
  class Fingerprint;
  std::shared_ptr<const Fingerprint> add(const FillSource&);

  const CheckpointContents& contents_;
  const std::vector<Tie>& ties_;
  WantedState wanted_;
  std::vector<std::pair<std::shared_ptr<const Fingerprint>, std::shared_ptr<const Fingerprint>>>
      prints_;  // of each tie
};

}  // namespace cairn
