#pragma once
/// Checks whether a checkpoint is whole. Reads every byte of it and changes nothing.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "store/address.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// One finding. Members that do not apply are empty; the offset is -1 then.
struct Finding {
  enum class Kind {
    damage,   ///< bytes are missing, or not those that were written
    unknown,  ///< something could not be read or checked
    note      ///< worth knowing, but no fault
  };
  Kind kind = Kind::note;
  std::string what;          ///< in words
  std::string key;           ///< key of the tensor, as stored
  std::string slice;         ///< slice of the tensor, in TensorFlow's notation
  std::string file;          ///< path
  std::int64_t offset = -1;  ///< in the file, in bytes
};

enum class Verdict { whole = 0, damaged = 1, unknown = 2 };

struct Verification {
  std::string prefix;
  bool ours = false;  ///< Cairn saved it, so every byte can be accounted for
  int files = 0;      ///< data files that were read
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< read and checked
  std::vector<Finding> findings;
  /// It was removed or replaced meanwhile, so the findings are not of one state.
  bool changed = false;

  /// Damage counts more than something that could not be checked.
  Verdict verdict() const;
};

/// Checks the index, the checksums of each tensor's slices, and the bytes between and after them.
/// In Cairn's own checkpoints gaps must be zero, the spare copy of the index must be equal to it,
/// every byte must be accounted for, no file may be missing and no tensor may be stored in part; in
/// other checkpoints these are only notes. If the checkpoint exists in two formats, both are
/// checked, and a note says which one is read. Damaged and unreadable things become findings and
/// throw nothing. Needs a few MiB of memory besides the index and the largest string tensor.
Verification verify_checkpoint(const Address& prefix, const Progress& = {});
/// The same for one format alone.
Verification verify_format(Format, const Address& prefix);

}  // namespace cairn
