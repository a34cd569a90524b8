#pragma once
/// Checkpoint directories, damage to their files, and its effects.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lab/campaigns/programs/random.hpp"
#include "lab/campaigns/programs/stamped_state.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// /run on a disk in memory, as one or two jobs have left it.
struct Home {
  struct Range {  ///< of bytes
    std::string file;
    std::int64_t begin = 0, end = 0;
  };
  std::shared_ptr<io::MemoryFileSystem> disk;
  std::uint64_t seed = 0;
  Shape shape;
  bool direct = false;                         ///< the disk has no renames
  bool clones = false;                         ///< its files share space
  bool encodes = false;                        ///< HDF5 files have codecs
  std::map<std::int64_t, std::int64_t> saved;  ///< the stamp of each step that exists
  std::set<std::int64_t> pinned;               ///< of these
  std::int64_t newest = 0;                     ///< a step: the last one that is committed
  /// The bytes of this step are durable, and its job died before the commit: a restart completes
  /// it.
  std::int64_t pending = -1;
  std::int64_t unchanged_bytes = 0;  ///< that all its saves have left out
  std::vector<Range> left_out = {};  ///< not written, since the file had them
  std::vector<Range> encoded = {};   ///< encoded chunks
  std::string text;                  ///< in words
};

Home make_home(std::uint64_t seed, bool hdf5);

/// Ascending, including those of the private directory and of saves in progress.
std::vector<std::string> files_of(io::FileSystem&, const io::Path& directory);

struct Damage {
  enum class Kind { bit, burst, zeros, cut, growth, exchange };
  static constexpr int kinds = 6;
  Kind kind = Kind::bit;
  std::string file, other;  ///< other: of an exchange
  std::int64_t begin = 0;   ///< the first byte that differs
  std::string text;         ///< in words
};

/// Changes the bytes of a file, often where the home has them left out or encoded, or exchanges
/// those of two that differ.
Damage do_damage(const Home&, io::MemoryFileSystem&, Random&);

struct Outcome {
  bool named = false;         ///< by verify
  std::int64_t restores = 0;  ///< that succeeded, with the right values
  std::int64_t refused = 0;   ///< restores that ended with an error
  std::string wrong;          ///< what may not be; empty: all is well
};

/// Looks at the damaged disk, with `cairn verify` and with restarts. Blind: as if verify had found
/// nothing.
Outcome look_at_damage(const Home&, std::shared_ptr<io::MemoryFileSystem>, const Damage&, Random&,
                       bool hdf5, bool blind);

}  // namespace cairn::campaign
