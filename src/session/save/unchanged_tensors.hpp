#pragma once
/// Finds the tensors that have not changed for some saves (FrozenOptions::automatic).
#include <cstdint>
#include <string>
#include <unordered_map>

#include "session/save/entry_list.hpp"

namespace cairn {

/// Each rank decides for what it writes itself: its frozen tensors have files of their own, and no
/// other rank need know which they are. Checksums tell what to try; whether a file is shared is for
/// a longer hash to say (frozen.hpp).
class UnchangedTensors {
 public:
  /// The checksums of one tensor that a rank has written in a save, as one number.
  struct Sum {
    std::uint64_t value = 0;
    std::int64_t bytes = 0;
  };
  using Sums = std::unordered_map<std::string, Sum>;  ///< by key
  static Sums sums_of(const EntryList&);

  /// A save was committed. `plan` is its number: with another plan a rank may have written other
  /// parts of a tensor, whose sums cannot be compared.
  void saved(const Sums&, std::int64_t plan);
  /// Whether the next save needs a plan in which other tensors are frozen.
  bool want_another_plan() const { return want_; }
  /// Called when a plan is made: from now on has() tells its frozen tensors.
  void choose();
  bool has(const std::string& key) const { return batch_of(key) > 0; }
  /// Tensors that became frozen with one plan. They share files, which no later plan writes anew
  /// for others. From 1; 0: the tensor is not frozen.
  int batch_of(const std::string& key) const {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? 0 : found->second.batch;
  }

 private:
  struct Tensor {
    std::uint64_t sum = 0;
    std::int64_t bytes = 0, plan = -1;
    int saves = 0;  // so many in a row left it as it was
    int needed = 3;
    int batch = 0;
  };
  static bool is_to_freeze(const Tensor&);
  static bool is_to_thaw(const Tensor& one) { return one.batch > 0 && one.saves == 0; }

  std::unordered_map<std::string, Tensor> tensors_;
  bool want_ = false;
};

}  // namespace cairn
