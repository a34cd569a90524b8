#pragma once
/// All ranks together prove that their slices cover each tensor. The key of a tensor chooses the
/// rank that proves it; a large tensor is divided into regions, each proved by one rank.
#include <vector>

#include "exchange/divisions.hpp"
#include "session/save/formats/save_format.hpp"

namespace cairn {

struct Proved {
  std::vector<CoveredTensor> tensors;  ///< that this rank has proved; of divided ones, the slices
                                       ///< that begin in its regions
  Divisions divided;
  KeyPlanners planners;
};
/// Collective. Throws what check_coverage would throw if one rank had all declarations.
Proved prove_together(Group&, std::vector<Declaration> mine, const SaveFormat&);

}  // namespace cairn
