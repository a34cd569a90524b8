#pragma once
/// A checkpoint on the nodes on its way to the manager's directory.
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "io/paced.hpp"
#include "session/flights.hpp"
#include "session/job/job.hpp"
#include "session/nodes/tier.hpp"

namespace cairn {

/// One at a time, beside the saves in flight, and never together with one: whatever else goes to
/// the directory takes its place. While the flight's handle is not idle, a task in a queue of its
/// own works on it; else the thread that calls the manager does.
struct Flush {
  explicit Flush(const Job& home, double bytes_per_second);

  Job job;  ///< each rank writes what it has
  io::Pace pace;
  std::unique_ptr<tier::Gathered> from;  ///< what is written
  std::optional<State> resolved;         ///< nothing: as it was gathered
  std::unique_ptr<Flight> flight;
  Outgoing out;                  ///< slices, which are read from the nodes' files
  std::vector<std::byte> dense;  ///< what is to be one array, as it is to be written
  int saves_before = 0;          ///< on the nodes since the last one came home
};

}  // namespace cairn
