#pragma once
/// Is a checkpoint whole? Reads every byte of it and changes nothing.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "store/address.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// One thing that was found. Where a member does not apply it is empty, the offset -1.
struct Finding {
  enum class Kind {
    damage,   ///< bytes are not those that were written, or are missing
    unknown,  ///< something could not be read or checked
    note      ///< worth saying, but no fault
  };
  Kind kind = Kind::note;
  std::string what;          ///< in words
  std::string key;           ///< of the tensor, as stored
  std::string slice;         ///< of it, as TensorFlow's spec
  std::string file;          ///< path
  std::int64_t offset = -1;  ///< in the file, in bytes
};

enum class Verdict { whole = 0, damaged = 1, unknown = 2 };

struct Verification {
  std::string prefix;
  bool ours = false;  ///< Cairn saved it, so that every byte can be accounted for
  int files = 0;      ///< data files that were read
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< read and checked
  std::vector<Finding> findings;
  bool changed = false;  ///< it was removed or replaced meanwhile, so that this tells of no state

  /// Damage counts more than what is unknown.
  Verdict verdict() const;
};

/// The index, each tensor's slices against their checksums, and the bytes between and behind them:
/// in a checkpoint of ours, gaps must be zero, the spare copy of the index must equal it, no byte
/// may be unaccounted for, no file missing and no tensor stored in part; elsewhere these are notes.
/// Where it is there in two formats, both are looked at, and a note says which one is read. What is
/// damaged or cannot be read is in the findings: nothing of it throws. Takes a few MiB of memory
/// beyond the index and the largest string tensor.
Verification verify_checkpoint(const Address& prefix, const Progress& = {});
/// Of one format alone.
Verification verify_format(Format, const Address& prefix);

}  // namespace cairn
