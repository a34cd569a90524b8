#pragma once
/// Finds the tensors that have not changed for some saves (FrozenOptions::automatic), and those of
/// the options that change all the same.
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "session/save/entry_list.hpp"

namespace cairn {

/// Each rank decides for what it writes itself: its frozen tensors have files of their own, and no
/// other rank need know which they are. Checksums tell what to try; whether a file is shared is for
/// a longer hash to say (frozen.hpp).
class UnchangedTensors {
 public:
  /// What a rank has written of one tensor in a save.
  struct Sum {
    std::uint64_t value = 0;  ///< of the checksums
    std::uint64_t form = 0;   ///< of dtype and shape
    std::uint64_t boxes = 0;  ///< in the order in which they were written
    std::int64_t bytes = 0;
    bool is_marked = false;  ///< the options freeze it
  };
  using Sums = std::unordered_map<std::string, Sum>;  ///< by key
  /// Of the tensors of which `watches` is true.
  static Sums sums_of(const EntryList&, const std::function<bool(const std::string&)>& watches);

  /// A save was committed. Its plan may be another one than before: a state that grows has one for
  /// each save. Where a rank has written other boxes of a tensor, sums cannot be compared, and it
  /// counts from the start.
  void saved(const Sums&);
  /// Whether the next save needs a plan in which other tensors are frozen.
  bool want_another_plan() const { return want_; }
  /// Called when a plan is made: from now on has() tells its frozen tensors.
  void choose();
  bool has(const std::string& key) const { return batch_of(key) > 0; }
  /// The options freeze it, but two saves in a row have found it changed, as an average of weights
  /// does: the file that it shares would be written anew each time. It is as any other tensor now.
  bool is_thawed(const std::string& key) const {
    const auto found = tensors_.find(key);
    return found != tensors_.end() && found->second.is_thawed;
  }
  /// Tensors that became frozen with one plan. They share files, which no later plan writes anew
  /// for others. From 1; 0: the tensor is not frozen.
  int batch_of(const std::string& key) const {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? 0 : found->second.batch;
  }

 private:
  struct Tensor {
    Sum sum = {};
    int saves = 0;  // so many in a row left it as it was
    int moves = 0;  // so many in a row wrote other boxes
    bool has_changed = false;
    int changes = 0;  // in a row
    int needed = 3;
    int batch = 0;
    bool is_thawed = false;  // of one that the options freeze
  };
  static bool is_frozen_by_mark(const Tensor& one) { return one.sum.is_marked && !one.is_thawed; }
  static bool is_to_freeze(const Tensor&);
  static bool is_to_thaw(const Tensor&);

  std::unordered_map<std::string, Tensor> tensors_;
  bool want_ = false;
};

}  // namespace cairn
