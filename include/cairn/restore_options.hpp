#pragma once
/// How a restore fills a state that differs from the checkpoint.
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

/// How values are converted when they are restored into another dtype. Conversions exist between
/// booleans, integers of 8 to 64 bits, float16, bfloat16, float32, float64, complex64 and
/// complex128; other dtypes are never converted.
///  - To integers and booleans: the new dtype must have the value. A number with a fraction, out
///    of range, NaN or infinite, and a boolean other than 0 and 1, is an error under `exact` and
///    `round`: nothing wraps, is cut off or saturates. Negative zero becomes 0.
///  - To floating point: under `exact` the value must be the same number in the new dtype. Under
///    `round` it is rounded once, to nearest, ties to even; a number that is too large becomes an
///    infinity, one that is too small a subnormal number or a zero with its sign. NaN stays NaN
///    (its payload may change), infinities stay infinities.
///  - Complex to complex by parts; real to complex with imaginary part 0; complex to real only if
///    the imaginary part is 0.
enum class Conversion {
  refuse,  ///< a dtype that differs is an error
  exact,
  round,
};
constexpr std::array<const char*, 3> words(Conversion) { return {"refuse", "exact", "round"}; }

/// What a restore does about stored keys that no rank's state wants (RestoreReport::unused_keys). A
/// program that forgot to add a tensor would go on with the values that are in memory.
enum class Unused {
  /// A warning names them. In a state that takes the form of the saved one, as in Python, keys in a
  /// dict, list or object that the state has are an error.
  automatic,
  error,   ///< invalid_argument, before any array is touched
  warn,    ///< also for keys in a dict, list or object
  silent,  ///< the log has them at level `info`
};
constexpr std::array<const char*, 4> words(Unused) {
  return {"automatic", "error", "warn", "silent"};
}

/// Options of one restore, the same on all ranks. Keys are keys of the state; one that no rank's
/// state has is an error.
struct RestoreOptions {
  /// State key → the stored key that it is filled from, if that is another. Several state keys may
  /// be filled from one stored key.
  std::map<std::string, std::string> rename = {};
  /// The state's tensor is the box at this offset of a larger stored one: its shape is the box's.
  std::map<std::string, Dims> offset = {};
  /// Keys that the checkpoint may lack: their memory stays as it is (RestoreReport::kept_keys). A
  /// name with `*` at its end means all keys that begin so.
  std::set<std::string> may_be_missing = {};
  /// All keys may be missing; a warning names those that are. restore_latest does not take a step
  /// for it that lacks keys by a rule (KeyRule), but an older one that has them.
  bool all_may_be_missing = false;
  Unused unused = Unused::automatic;
  /// What to do if the stored dtype differs from the state's: by key, and for all other keys. A
  /// value that does not fit its new dtype is found while arrays are written, also with
  /// verify_first.
  std::map<std::string, Conversion> convert_keys = {};
  Conversion convert = Conversion::refuse;
  Accept accept = {};  ///< versions of the application (cairn/application.hpp)
  /// How data files on a disk are read; not compared between ranks. `automatic` reads pages that
  /// are in the page cache from there, and the rest past it; `off` lets the system read ahead into
  /// the page cache.
  DirectIo direct_io = DirectIo::automatic;
  /// Check every byte before any array is touched, even if the manager's options do not ask for it
  /// (RestartOptions::verify_first).
  bool verify_first = false;

  /// Members by name, as cairn/options.hpp says; the restore compares them between ranks.
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
  /// and rank-private items of ranks that this job does not have.
  std::vector<std::string> unused_keys;
  std::vector<std::string> kept_keys;  ///< keys not in it, as allowed: memory stays as it was
  /// Newer checkpoints that were skipped because they are damaged, marked bad or restored in vain:
  /// "step N: why".
  std::vector<std::string> skipped;
  std::int64_t bytes_read = 0;  ///< by all ranks
  /// The number of elements of sparse tensors, over all ranks, that no rank held at the save: they
  /// were filled, or kept.
  std::int64_t gap_elements = 0;
  bool unchecked = false;  ///< true for files of other programs: no checksum proves the bytes
};

}  // namespace cairn
