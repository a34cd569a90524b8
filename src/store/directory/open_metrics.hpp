#pragma once
/// What monitors are told, by cairn stats and by a manager after each save, as OpenMetrics has it:
/// the text format that Prometheus reads, and the textfile collector of its node_exporter.
/// https://prometheus.io/docs/specs/om/open_metrics_spec/
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"
#include "store/directory/save_status.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of the checkpoints of one name.
struct Measured {
  std::int64_t checkpoints = 0;  ///< that can be restored
  /// What the newest of these tells of its save. Nothing: there is none, or others wrote it.
  std::optional<CheckpointMeta> newest = std::nullopt;
  std::optional<SaveStatus> failures = std::nullopt;  ///< nothing: no save has failed there
  /// Work at risk as this is told; -1: all of it. Nothing: what is read later would be wrong then.
  std::optional<double> since_save_seconds = std::nullopt, since_home_seconds = std::nullopt;
  std::optional<int> margin = std::nullopt;  ///< of the newest on the nodes
  /// Of one manager since it began.
  struct Counts {
    std::int64_t saves = 0, failures = 0, bytes = 0;
    double blocked_seconds = 0;
  };
  std::optional<Counts> counts = std::nullopt;
};

/// By name. Ends with "# EOF\n".
std::string open_metrics(const std::string& directory, const std::map<std::string, Measured>&);

/// The file ManagerOptions::metrics, which takes the place of the one before at once and is not
/// synced. An Error is a warning in the log, the first time.
class MetricsFile {
 public:
  void saved(const CheckpointMeta&);
  void failed() { ++counts_.failures; }
  /// `checkpoints`: that can be restored.
  void write(const Location&, const io::Path& file, std::int64_t checkpoints, const SaveStatus&);

 private:
  std::optional<CheckpointMeta> newest_;
  Measured::Counts counts_;
  bool has_failed_ = false;  // to be written
};

}  // namespace cairn
