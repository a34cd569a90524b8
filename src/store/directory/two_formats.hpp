#pragma once
/// Steps that are there in two formats.
///
/// A save that replaces a step in another format leaves both for a moment, and for longer if it
/// dies then. Its temp directory, which goes last, is the only evidence of that. Sequences are
/// none, since a conversion has that of its source; times are none either. By such a rule a
/// converted copy that somebody put beside its source would look like a conversion that died, and
/// the source would be removed. So without that directory both stay. The older one also stays until
/// every byte of the newer that a restore reads is proved; and so does a step that is pinned.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "store/location.hpp"

namespace cairn {

/// On rank 0.
struct TwoFormats {
  struct Replaced {
    Format format;     ///< that goes
    std::string temp;  ///< of the save that replaced it
  };
  std::map<std::int64_t, Replaced> replaced;  ///< by step
  /// Temp directories that tell of others, of which nothing is removed now: something cannot be
  /// read at the moment, or is pinned. The next owner looks again.
  std::set<std::string> kept;

  /// What is pinned is not replaced; nothing is, where nobody can be kept from pinning it.
  void leave_pinned(const Location&, bool locked);
};

/// Collective; the reading is shared by the ranks. Rank 0 has listed the directory.
TwoFormats find_two_formats(const Location&, const Readers&,
                            const std::vector<std::string>& listing);

}  // namespace cairn
