#pragma once
/// Tensors that hardly ever change, such as a base model under adapters or a static mesh: the group
/// `frozen` of ManagerOptions.
#include <string>
#include <vector>

namespace cairn {

/// Each rank writes its part of these tensors into data files of their own. A later save with the
/// same bytes gives these files one more name in its checkpoint (a hard link) instead of writing
/// them again. Every checkpoint stays whole by itself, with the usual files; checkpoints that share
/// a file share its damage. A save reads all bytes in memory: the ranks whose bytes have changed
/// write them anew.
///
/// Only for bundles of Writer::posix in which every rank is an io rank, with renames, without a
/// tier, and for numeric tensors that are not stored dense. Otherwise tensors are written in full,
/// with a warning when a manager is made; so are those that the file system cannot link. save_async
/// writes changed frozen tensors before it returns. A manager knows the bytes of its own files
/// only: its first save reads the files of the newest checkpoint, and shares those that hold what
/// it would write.
struct FrozenOptions {
  /// Keys of tensors; `*` stands for any characters, `?` for one. One of these, or one that is
  /// marked in the state, that two saves in a row found changed is not frozen until three saves
  /// have left it as it was.
  std::vector<std::string> keys = {};
  /// A tensor that three saves in a row left as it was is frozen too, until it changes; each rank
  /// decides for the part that it writes, of 4 KiB and more. Freezing and its end take a new plan.
  bool automatic = false;
  /// One save in so many reads the bytes of a shared file before it shares the file again, and
  /// writes damaged bytes anew; 1: each save does, 0: only the first. Likewise blocks that a save
  /// leaves out (WriteOptions::skip_unchanged).
  int read_every = 20;
  /// A file that has so many names is not shared again but written anew, which limits how many
  /// checkpoints are lost with one file; 0: no limit. So many files share space at most.
  int most_names = 100;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [keys, automatic, read_every, most_names] = self;
    options.agreed("keys", keys);
    options.agreed("automatic", automatic);
    options.agreed("read_every", read_every);
    options.agreed("most_names", most_names);
  }
};

}  // namespace cairn
