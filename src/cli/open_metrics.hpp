#pragma once
/// What cairn stats tells monitors, as OpenMetrics has it: the text format that Prometheus reads,
/// and the textfile collector of its node_exporter.
/// https://prometheus.io/docs/specs/om/open_metrics_spec/
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "store/directory/save_status.hpp"

namespace cairn::cli {

/// Of the checkpoints of one name.
struct Measured {
  std::int64_t checkpoints = 0;  ///< that can be restored
  /// What the newest of these tells of its save. Nothing: there is none, or others wrote it.
  std::optional<CheckpointMeta> newest = std::nullopt;
  std::optional<SaveStatus> failures = std::nullopt;        ///< nothing: no save has failed there
  double since_save_seconds = -1, since_home_seconds = -1;  ///< work at risk; -1: all of it
  std::optional<int> margin = std::nullopt;                 ///< of the newest on the nodes
};

/// By name. Ends with "# EOF\n".
std::string open_metrics(const std::string& directory, const std::map<std::string, Measured>&);

}  // namespace cairn::cli
