#pragma once
#include <string>

#include "cairn/state.hpp"

namespace cairn {

/// Throws what State::add, and each look at a state, say is wrong with a tensor.
void check_tensor(const std::string& key, const LocalTensor&);

}  // namespace cairn
