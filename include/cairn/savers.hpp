#pragma once
/// Code of the application that takes part in each save and restore.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cairn {

/// Called before a save looks at the state, in the order given, on all ranks, with the step (of
/// Checkpoint::save its number, of write() 0). It may change values. What it throws on any rank
/// stops the save, as one error on all ranks, which says which callback it was: so one that calls
/// collective operations of its own must fail on all ranks alike. An exception that is no Error
/// becomes one with Code::application. So does an Error with Code::busy, which would speak of the
/// checkpoint's directory; durability_unknown becomes io.
using BeforeSave = std::function<void(std::int64_t step)>;

/// Data that the application writes by itself, as part of a checkpoint.
struct RegisteredSaver {
  std::string name;  ///< kept in the checkpoint
  /// Called on all ranks before the state is written, with the same prefix. It may write bundles
  /// (BundleWriter) whose prefixes begin with this one and lie in its directory, and returns those
  /// that this rank has written; none is fine. They become part of the checkpoint: their data files
  /// are moved into it, with its commit. Several bundles may hold slices of one tensor, which
  /// together must cover it (else invalid_argument, naming the saver). Errors as of BeforeSave.
  std::function<std::vector<std::string>(const std::string& prefix)> save;
  /// Called on all ranks with the checkpoint's prefix (BundleReader reads it), after the state was
  /// restored, if a saver of this name took part in the save. Errors as of BeforeSave, but all with
  /// Code::application except data_loss, which counts as damage of the checkpoint.
  std::function<void(const std::string& prefix)> restore;
};

}  // namespace cairn
