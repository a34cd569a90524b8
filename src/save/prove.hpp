#pragma once
/// The proof that the slices of all ranks make up each tensor, by all ranks: each tensor on the
/// rank that its key chooses, and each region of a divided one.
#include <vector>

#include "save/divisions.hpp"
#include "save/formats/save_format.hpp"

namespace cairn {

/// Collective. What this rank has proved; of divided tensors what begins in its regions. Throws as
/// check_coverage would if it looked at all.
std::vector<CoveredTensor> prove_together(Group&, std::vector<Declaration> mine, const SaveFormat&,
                                          Divisions& divided);

}  // namespace cairn
