#pragma once
/// Loops over large arrays. They are compiled with optimisation, unlike test programs.
#include <span>

namespace cairn::test {

/// Sets element i to base + i / 65536.
void set_ramp(std::span<double>, double base);
void set_all(std::span<double>, double value);
bool same_values(std::span<const double>, std::span<const double>);

}  // namespace cairn::test
