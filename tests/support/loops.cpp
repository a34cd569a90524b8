#include "support/loops.hpp"

#include <algorithm>

namespace cairn::test {

void set_ramp(std::span<double> values, double base) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = base + static_cast<double>(i) / 65536;
  }
}

void set_all(std::span<double> values, double value) {
  std::fill(values.begin(), values.end(), value);
}

bool same_values(std::span<const double> some, std::span<const double> others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end());
}

}  // namespace cairn::test
