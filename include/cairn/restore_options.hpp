#pragma once
/// How a state that is not like the checkpoint is filled from it.
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cairn/application.hpp"
#include "cairn/box.hpp"
#include "cairn/write_options.hpp"

namespace cairn {

/// What may happen to a value when it is restored into another dtype. The rule: between booleans,
/// integers of 8 to 64 bits, float16, bfloat16, float32, float64, complex64 and complex128; others
/// are never converted.
///  - To integers and booleans: the value must be one of the new dtype. A number with a fraction,
///    out of range, NaN or infinite, and a boolean other than 0 and 1, is an error under either
///    rule: nothing wraps, is cut off or saturates. Negative zero becomes 0.
///  - To floating point: under `exact` the value must be the same number in the new dtype. Under
///    `round` it is rounded once, to nearest, ties to even; what is too large becomes an infinity,
///    what is too small a subnormal number or a zero with its sign. NaN stays NaN (which one is not
///    kept), infinities stay themselves.
///  - Complex to complex by parts; real to complex with imaginary part 0; complex to real only if
///    the imaginary part is 0.
enum class Conversion {
  refuse,  ///< a dtype that differs is an error
  exact,
  round,
};
constexpr std::array<const char*, 3> words(Conversion) { return {"refuse", "exact", "round"}; }

/// What a restore does about stored keys that no rank's state wants (RestoreReport::unused_keys).
/// A program that forgot to add a tensor would go on with what is in memory.
enum class Unused {
  /// A warning names them. Where a state takes the form of what was saved, as those of Python do,
  /// those that lie in a dict, list or object which the state has are an error.
  automatic,
  error,   ///< invalid_argument, before any array is touched
  warn,    ///< also of what lies in a dict, list or object
  silent,  ///< at the level `info` of the log
};
constexpr std::array<const char*, 4> words(Unused) {
  return {"automatic", "error", "warn", "silent"};
}

/// The same on all ranks. Keys are those of the state; one that no rank's state has is an error.
struct RestoreOptions {
  /// State key → the stored key that it is filled from, where that is another. Several state keys
  /// may be filled from one stored one.
  std::map<std::string, std::string> rename = {};
  /// The state's tensor is the box at this offset of a larger stored one: its shape is the box's.
  std::map<std::string, Dims> offset = {};
  /// Keys that the checkpoint may lack: they keep what is in memory (RestoreReport::kept_keys).
  /// With
  /// `*` at its end a name means all keys that begin so.
  std::set<std::string> may_be_missing = {};
  /// A warning names those that are missing. restore_latest takes no step for it that has lost them
  /// by a rule (KeyRule), but an older one that has them.
  bool all_may_be_missing = false;
  Unused unused = Unused::automatic;
  /// What to do where the stored dtype differs from the state's: by key, and for all other keys.
  /// What does not fit its new dtype is found while bytes move, also with verify_first.
  std::map<std::string, Conversion> convert_keys = {};
  Conversion convert = Conversion::refuse;
  Accept accept = {};  ///< versions of the application (cairn/application.hpp)
  /// How data files on a disk are read; not compared between ranks. `automatic` takes what is in
  /// the page cache from there and reads the rest past it; `off` lets the system read ahead into
  /// the page cache.
  DirectIo direct_io = DirectIo::automatic;
  /// Prove every byte before any array is touched, also where the object's options do not ask for
  /// it (RestartOptions::verify_first).
  bool verify_first = false;

  /// Members by name, as cairn/options.hpp says; the code that uses them compares them.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [rename, offset, may_be_missing, all_may_be_missing, unused, convert_keys, convert,
           accept, direct_io, verify_first] = self;
    options.validated("rename", rename);
    options.validated("offset", offset);
    options.validated("may_be_missing", may_be_missing);
    options.validated("all_may_be_missing", all_may_be_missing);
    options.validated("unused", unused);
    options.validated("convert_keys", convert_keys);
    options.validated("convert", convert);
    options.validated("accept", accept);
    options.own("direct_io", direct_io);
    options.validated("verify_first", verify_first);
  }
};

/// What a restore did.
struct RestoreReport {
  std::int64_t step = 0;
  std::string prefix;
  /// Keys in the checkpoint that no rank wants, except an object graph, TensorFlow's save_counter,
  /// and what ranks had for themselves that this job has not.
  std::vector<std::string> unused_keys;
  std::vector<std::string> kept_keys;  ///< keys not in it, as allowed: they keep what is in memory
  /// Newer checkpoints that were passed over, as damaged, marked bad or restored in vain: "step N:
  /// why".
  std::vector<std::string> skipped;
  std::int64_t bytes_read = 0;  ///< by all ranks
  /// Of sparse tensors, what all ranks want and no rank held at the save: filled, or left alone.
  std::int64_t gap_elements = 0;
  bool unchecked = false;  ///< true for files of other programs: no checksum proves the bytes
};

}  // namespace cairn
