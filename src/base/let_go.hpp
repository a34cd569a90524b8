#pragma once
/// Gives back memory that is not needed any longer.

namespace cairn {

/// Frees the memory of a container. Neither clear() nor the assignment of {} does that.
template <class T>
void let_go(T& value) {
  value = T();
}

}  // namespace cairn
