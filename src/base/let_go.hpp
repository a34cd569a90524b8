#pragma once
/// Memory of what is not used any more.
#include <utility>

namespace cairn {

/// Gives the memory of a container or a string back, which neither clear() nor an assigned {} does:
/// a string that is assigned an empty one keeps its memory.
template <class T>
void let_go(T& value) {
  [[maybe_unused]] const T gone = std::exchange(value, T());
}

}  // namespace cairn
