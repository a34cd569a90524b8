#pragma once
/// The proof that the slices of all ranks make up each tensor, by all ranks: each tensor on the
/// rank that its key chooses, and each region of a divided one.
#include <vector>

#include "exchange/divisions.hpp"
#include "session/save/formats/save_format.hpp"

namespace cairn {

struct Proved {
  std::vector<CoveredTensor> tensors;  ///< by this rank; of divided ones what begins in its regions
  Divisions divided;
  KeyPlanners planners;
};
/// Collective. Throws as check_coverage would if it looked at all.
Proved prove_together(Group&, std::vector<Declaration> mine, const SaveFormat&);

}  // namespace cairn
