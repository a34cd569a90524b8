#include "lab/bench/count_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "testing/machine.hpp"

namespace cairn::bench {
namespace {

struct Count {
  std::int64_t now, most;
};
Count* counts = nullptr;
int counted_ranks = 0;
thread_local bool is_counted = false;

/// Placed before each block of memory.
struct Note {
  std::size_t bytes;
  int owner;
};
constexpr std::size_t note_bytes = 16;
static_assert(sizeof(Note) <= note_bytes);

std::size_t room_for_note(std::size_t alignment) { return std::max(alignment, note_bytes); }

void* take(std::size_t bytes, std::size_t alignment) {
  const auto room = room_for_note(alignment);
  const auto all = (bytes + room + alignment - 1) / alignment * alignment;
  auto* const begin = static_cast<char*>(
      alignment <= note_bytes ? std::malloc(all) : std::aligned_alloc(alignment, all));
  if (!begin) return nullptr;
  int owner = is_counted ? Machine::owner : -1;
  if (owner >= counted_ranks) owner = -1;
  *reinterpret_cast<Note*>(begin + room - note_bytes) = {bytes, owner};
  if (owner >= 0) {
    auto& count = counts[owner];
    count.now += static_cast<std::int64_t>(bytes);
    count.most = std::max(count.most, count.now);
  }
  return begin + room;
}

void give_back(void* memory, std::size_t alignment) {
  if (!memory) return;
  auto* const end = static_cast<char*>(memory);
  const auto& note = *reinterpret_cast<const Note*>(end - note_bytes);
  if (is_counted && note.owner >= 0 && note.owner < counted_ranks) {
    counts[note.owner].now -= static_cast<std::int64_t>(note.bytes);
  }
  std::free(end - room_for_note(alignment));
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* const memory = take(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void count_memory(int ranks) {
  is_counted = false;
  std::free(counts);
  counts = static_cast<Count*>(std::calloc(static_cast<std::size_t>(ranks), sizeof(Count)));
  counted_ranks = counts ? ranks : 0;
  is_counted = true;
}

std::int64_t memory_now(int rank) { return rank < counted_ranks ? counts[rank].now : 0; }

std::int64_t take_most_memory(int rank) {
  if (rank >= counted_ranks) return 0;
  const auto most = counts[rank].most;
  counts[rank].most = counts[rank].now;
  return most;
}

}  // namespace cairn::bench

using cairn::bench::give_back;
using cairn::bench::take;
using cairn::bench::take_or_throw;
constexpr std::size_t ordinary = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* operator new(std::size_t bytes) { return take_or_throw(bytes, ordinary); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, ordinary); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, ordinary);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, ordinary);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory, ordinary); }
void operator delete[](void* memory) noexcept { give_back(memory, ordinary); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory, ordinary); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory, ordinary); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory, ordinary); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  give_back(memory, ordinary);
}
void operator delete(void* memory, std::align_val_t alignment) noexcept {
  give_back(memory, static_cast<std::size_t>(alignment));
}
void operator delete[](void* memory, std::align_val_t alignment) noexcept {
  give_back(memory, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  give_back(memory, static_cast<std::size_t>(alignment));
}
void operator delete[](void* memory, std::size_t, std::align_val_t alignment) noexcept {
  give_back(memory, static_cast<std::size_t>(alignment));
}
