#pragma once
/// How a state that is not like the checkpoint is filled from it.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/conversion.hpp"
#include "cairn/direct_io.hpp"

namespace cairn {

/// The same on all ranks. Keys are those of the state; one that no rank's state has is an error.
struct RestoreOptions {
  /// State key → the stored key that it is filled from, where that is another. Several state keys
  /// may be filled from one stored one.
  std::map<std::string, std::string> rename = {};
  /// The state's tensor is the box at this offset of a larger stored one: its shape is the box's.
  std::map<std::string, Dims> offset = {};
  /// Keys that the checkpoint may lack: they keep what is in memory (RestoreReport::kept_keys).
  std::set<std::string> may_be_missing = {};
  bool all_may_be_missing = false;
  /// What to do where the stored dtype differs from the state's: by key, and for all other keys.
  /// What does not fit its new dtype is found while bytes move, also with
  /// ManagerOptions::verify_first.
  std::map<std::string, Conversion> convert_keys = {};
  Conversion convert = Conversion::refuse;
  /// How data files on a disk are read; not compared between ranks. `automatic` takes what is in
  /// the page cache from there and reads the rest past it; `off` lets the system read ahead into
  /// the page cache.
  DirectIo direct_io = DirectIo::automatic;
};

/// What a restore did.
struct RestoreReport {
  std::int64_t step = 0;
  std::string prefix;
  /// Keys in the checkpoint that no rank wants, except an object graph and TensorFlow's
  /// save_counter.
  std::vector<std::string> unused_keys;
  std::vector<std::string> kept_keys;  ///< keys not in it, as allowed: they keep what is in memory
  std::vector<std::string> skipped;    ///< newer checkpoints passed over as damaged: "step: why"
  std::int64_t bytes_read = 0;         ///< by all ranks
  bool unchecked = false;  ///< true for files of other programs: no checksum proves the bytes
};

}  // namespace cairn
