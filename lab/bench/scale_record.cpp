#include "lab/bench/scale_record.hpp"

#include <algorithm>
#include <utility>

#include "session/save/save_log.hpp"

namespace cairn::bench {
namespace {

ScaleRecord* listening = nullptr;

}  // namespace

/// Sums of a rank over a stage, or over all stages.
struct ScaleRecord::Sums {
  double work = 0;
  std::int64_t messages = 0, bytes = 0, memory = 0;
  io::OperationCounts paths;

  void add(const Mark& before, const Mark& after, const Mark& first) {
    work += after.figures.work - before.figures.work;
    messages += after.figures.messages_in - before.figures.messages_in;
    bytes += after.figures.bytes_in - before.figures.bytes_in;
    for (std::size_t kind = 0; kind < paths.of.size(); ++kind) {
      paths.of[kind] += after.figures.paths.of[kind] - before.figures.paths.of[kind];
    }
    memory = std::max(memory, after.memory - first.memory);
  }
};

ScaleRecord::ScaleRecord(Machine& machine, std::int64_t (*take_most_memory)(int))
    : machine_(machine),
      take_most_memory_(take_most_memory),
      marks_(static_cast<std::size_t>(machine.ranks())) {
  listening = this;
  StageTimer::listener = [](const char* stage, Trace::Thread thread) {
    if (listening && Machine::owner >= 0) {
      listening->mark(Machine::owner, stage, thread == Trace::Thread::writer);
    }
  };
}

ScaleRecord::~ScaleRecord() {
  StageTimer::listener = nullptr;
  listening = nullptr;
}

void ScaleRecord::mark(int rank, const char* stage, bool behind) {
  const auto figures = machine_.figures(rank);
  const Machine::Pause pause(&machine_, rank);
  const auto owner = std::exchange(Machine::owner, -1);
  auto& marks = marks_[static_cast<std::size_t>(rank)];
  marks.push_back({stage, behind && machine_.is_behind(rank), figures,
                   take_most_memory_ ? take_most_memory_(rank) : 0});
  Machine::owner = owner;
}

void ScaleRecord::begin(int rank) {
  marks_[static_cast<std::size_t>(rank)].clear();
  if (take_most_memory_) take_most_memory_(rank);
  mark(rank, "", false);
}

void ScaleRecord::end(int rank) { mark(rank, "rest", false); }

std::vector<std::string> ScaleRecord::stages() const {
  std::vector<std::string> stages;
  for (const auto& marks : marks_) {
    for (const auto& mark : marks) {
      if (std::find(stages.begin(), stages.end(), mark.stage) == stages.end()) {
        stages.emplace_back(mark.stage);
      }
    }
  }
  return stages;
}

// `reached` is the time at which the last rank ended the stage before; it becomes that of this
// stage.
ScaleRow ScaleRecord::row_of(const std::string& stage, Machine::Time& reached) const {
  ScaleRow row;
  row.stage = stage;
  auto until = reached;
  double behind = 0;
  for (std::size_t rank = 0; rank < marks_.size(); ++rank) {
    const auto& marks = marks_[rank];
    Sums sums;
    for (std::size_t i = 1; i < marks.size(); ++i) {
      if (stage != "all" && stage != marks[i].stage) continue;
      sums.add(marks[i - 1], marks[i], marks.front());
      if (marks[i].behind && stage == "all") continue;
      if (marks[i].behind) {
        behind = std::max(behind, marks[i].figures.time.at - marks[i - 1].figures.time.at);
      } else {
        until.follow(marks[i].figures.time);
      }
    }
    const auto paths = sums.paths.total();
    row.work_most = std::max(row.work_most, sums.work);
    row.messages_most = std::max(row.messages_most, sums.messages);
    row.bytes_most = std::max(row.bytes_most, sums.bytes);
    row.memory_most = std::max(row.memory_most, sums.memory);
    row.paths_most = std::max(row.paths_most, paths);
    row.paths_sum += paths;
    if (rank > 0) continue;
    row.work_root = sums.work;
    row.messages_root = sums.messages;
    row.bytes_root = sums.bytes;
    row.memory_root = sums.memory;
    row.paths_root = sums.paths;
  }
  row.seconds = until.at - reached.at + behind;
  for (std::size_t part = 0; part < row.way.size(); ++part) {
    row.way[part] = until.of[part] - reached.of[part];
  }
  reached = until;
  return row;
}

std::vector<ScaleRow> ScaleRecord::rows() const {
  Machine::Time begun;
  for (const auto& marks : marks_) begun.follow(marks.front().figures.time);
  std::vector<ScaleRow> rows;
  auto reached = begun;
  for (const auto& stage : stages()) {
    if (!stage.empty()) rows.push_back(row_of(stage, reached));
  }
  reached = begun;
  rows.push_back(row_of("all", reached));
  return rows;
}

}  // namespace cairn::bench
