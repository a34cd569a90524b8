#pragma once
/// Collects what a run's directory says of the run: its saves, including those whose checkpoints
/// are gone, what they cost, which line of checkpoints the run followed, what retention keeps, and
/// what is damaged.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/options.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// One save, from the metadata of its checkpoint or of a later one.
struct ReportedSave {
  PastSave save;
  /// Empty if the checkpoint is gone.
  std::optional<CatalogEntry> entry = std::nullopt;
  std::int64_t disk_bytes = 0;
  /// Empty if a recovery completed the save, or if it is of an older version.
  std::optional<SaveStatistics> statistics = std::nullopt;
  std::optional<RetentionDecision> decision = std::nullopt;
};

struct RunReport {
  std::string directory, name;  ///< directory: the whole path
  std::string host;             ///< where the report was made
  double made_at_seconds = 0;
  std::vector<ReportedSave> saves;  ///< in the order of commits; those without a number at the end
  /// The sequence from which a restart would continue; -1: none.
  std::int64_t newest = -1;
  std::optional<Retention> keep;  ///< as recorded in the newest checkpoint
  std::string failures;           ///< what is known of failed saves; empty: nothing
  std::string owner;              ///< who saves here, or did until it died; empty: nobody
  /// Directories of saves that are running, or whose job died.
  std::vector<std::string> unfinished;
  struct Coverage {
    std::string key, picture;  ///< picture: an SVG element, or why there is none
    bool drawn = false;
  };
  std::optional<Coverage> coverage;
};

/// Runs in one process, which does not own the directory; a job may go on saving meanwhile. Reads
/// each index but no tensor. `key` is the tensor whose slices are drawn; if empty, the largest
/// tensor of the newest checkpoint that can be drawn.
RunReport read_run(const Location&, const std::string& key);

/// Returns whether the page leaves out all but the newest saves.
bool is_long(const RunReport&);
/// One page of HTML that needs no network and no script. It is well-formed XML too. A long report
/// shows only the newest saves, and a link to `all_page`, a file beside it; with `all` it shows
/// every save.
std::string report_page(const RunReport&, const std::string& all_page = "", bool all = false);

}  // namespace cairn
