#pragma once
/// How much memory each rank of a simulation takes: for programs that link count_memory.cpp, which
/// replaces operator new.
#include <cstdint>

namespace cairn::bench {

/// From now on the memory that this thread takes is counted for Machine::owner, among so many
/// ranks; freed memory is subtracted from the rank that took it.
void count_memory(int ranks);
std::int64_t memory_now(int rank);
/// The most since the last call.
std::int64_t take_most_memory(int rank);

}  // namespace cairn::bench
