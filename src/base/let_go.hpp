#pragma once
/// Memory of what is not used any more.

namespace cairn {

/// Gives the memory of a container back, which neither clear() nor an assigned {} does.
template <class T>
void let_go(T& value) {
  value = T();
}

}  // namespace cairn
