#pragma once
/// What a run's directory tells of the run: its saves, also those whose checkpoints are gone, what
/// they cost, which line the run followed, what retention keeps, and what is damaged.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/options.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// One save, as its checkpoint tells of it, or a later one.
struct ReportedSave {
  PastSave save;
  /// Of one whose checkpoint is there:
  std::optional<CatalogEntry> entry = std::nullopt;
  std::int64_t disk_bytes = 0;
  /// None: a recovery completed the save, or it is of an older version.
  std::optional<SaveStatistics> statistics = std::nullopt;
  std::optional<RetentionDecision> decision = std::nullopt;
};

struct RunReport {
  std::string directory, name;  ///< the whole path
  std::string host;             ///< where the report was made
  double made_at_seconds = 0;
  std::vector<ReportedSave> saves;  ///< in the order of their commits; unnumbered ones at the end
  std::int64_t newest = -1;         ///< the sequence that a restart would go on from; -1: none
  std::optional<Retention> keep;    ///< as the newest checkpoint notes it
  std::string owner;                ///< who saves here, or did when it died; empty: nobody
  std::vector<std::string> unfinished;  ///< directories of saves on their way, or that died
  struct Coverage {
    std::string key, picture;  ///< an SVG element, or why there is none
    bool drawn = false;
  };
  std::optional<Coverage> coverage;
};

/// One process, which does not own the directory; a job may go on saving meanwhile. Reads each
/// index and no tensor. `key`: whose slices are drawn; empty: those of the largest tensor that can
/// be drawn, of the newest checkpoint.
RunReport read_run(const Location&, const std::string& key);

/// Whether a page leaves out all but the newest saves.
bool is_long(const RunReport&);
/// One page of HTML that needs nothing else: no network, no script. It is well-formed XML too. Where
/// the report is long, the newest saves, and a link to `all_page`, a file beside it; or `all`.
std::string report_page(const RunReport&, const std::string& all_page = "", bool all = false);

}  // namespace cairn
