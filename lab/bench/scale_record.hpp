#pragma once
/// What the ranks of a simulated job have done in one call, stage by stage.
#include <cstdint>
#include <string>
#include <vector>

#include "testing/machine.hpp"

namespace cairn::bench {

/// Numbers of a stage, or "all" for a call. Times are differences of clocks, so that those of the
/// stages add up; work behind the caller's back is only in its own stage.
struct ScaleRow {
  std::string stage;
  double seconds = 0;  ///< on the critical path, which `way` splits up
  std::array<double, Machine::Time::parts> way = {};
  double work_most = 0, work_root = 0;  ///< processor time of the busiest rank, and of rank 0
  std::int64_t messages_most = 0, messages_root = 0;  ///< that came for the busiest rank
  std::int64_t bytes_most = 0, bytes_root = 0;        ///< bytes of these messages
  io::OperationCounts paths_root;
  std::int64_t paths_most = 0, paths_sum = 0;
  std::int64_t memory_most = 0, memory_root = 0;  ///< taken since the call began
};

/// The ranks of one machine write their marks here, one call after the other.
class ScaleRecord {
 public:
  /// `take_most_memory` returns the most memory of a rank since it was last called; null: memory is
  /// not counted.
  explicit ScaleRecord(Machine&, std::int64_t (*take_most_memory)(int rank) = nullptr);
  ~ScaleRecord();
  ScaleRecord(const ScaleRecord&) = delete;
  ScaleRecord& operator=(const ScaleRecord&) = delete;

  void begin(int rank);  ///< all ranks are at the same place
  void end(int rank);
  /// To be called by one rank when all have ended.
  std::vector<ScaleRow> rows() const;

 private:
  struct Mark {
    const char* stage;
    bool behind;  ///< the caller's back
    Machine::Figures figures;
    std::int64_t memory;
  };
  struct Sums;
  void mark(int rank, const char* stage, bool behind);
  std::vector<std::string> stages() const;
  ScaleRow row_of(const std::string& stage, Machine::Time& reached) const;

  Machine& machine_;
  std::int64_t (*take_most_memory_)(int);
  std::vector<std::vector<Mark>> marks_;  // of each rank
};

}  // namespace cairn::bench
