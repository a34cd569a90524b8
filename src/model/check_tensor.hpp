#pragma once
/// The check of a tensor that an application gives.
#include <string>

#include "cairn/state.hpp"

namespace cairn {

/// Throws the errors that State::add, and each refresh of a state, report about a tensor.
///
/// A LocalTensor makes two independent choices: where its elements lie (slices, strings, rows), and
/// how the ranks' parts make one tensor (boxes, row after row, by rank, by id). A sum type would
/// need a case for each of the twelve pairs that occur, and most code asks about one choice only.
/// So LocalTensor is a struct, and this function alone refuses what does not go together.
void check_tensor(const std::string& key, const LocalTensor&);

}  // namespace cairn
