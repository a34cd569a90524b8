#pragma once
/// Tensors that hardly ever change, such as a base model under adapters or a static mesh: the group
/// `frozen` of ManagerOptions.
#include <string>
#include <vector>

namespace cairn {

/// Each rank writes its part of these tensors into data files of their own, and a later save whose
/// bytes are the same gives them one more name in its checkpoint (a hard link) instead of writing
/// them again. Every checkpoint stays whole by itself and has the files that any other has; those
/// that share a file share its damage. A save looks at all of the bytes in memory: what has changed
/// is written anew, by the ranks that have it.
///
/// Bundles of Writer::posix, where every rank is an io rank, with renames, without a tier, and of
/// numeric tensors that are not stored dense. All else is written in full, with a warning when a
/// manager is made; so is what a file system cannot link. The frozen part of save_async that is to
/// be written is written before it returns. What the manager knows of the bytes ends with it: the
/// first save of the next one reads the files of the newest checkpoint, and shares those that hold
/// what it would write.
struct FrozenOptions {
  /// Keys of tensors; `*` stands for any characters, `?` for one.
  std::vector<std::string> keys = {};
  /// Each so many saves read the bytes of a shared file before they share it again, and write anew
  /// what is damaged; 1: each save does, 0: none but the first.
  int read_every = 20;
  /// A file that has so many names is not shared again but written anew, so that no more
  /// checkpoints are lost with one file; 0: no limit.
  int most_names = 100;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [keys, read_every, most_names] = self;
    options.agreed("keys", keys);
    options.agreed("read_every", read_every);
    options.agreed("most_names", most_names);
  }
};

}  // namespace cairn
