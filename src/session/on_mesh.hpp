#pragma once
#include "cairn/group.hpp"
#include "cairn/mesh.hpp"

namespace cairn {

/// Collective. The mesh is the same on all ranks of the group and has as many. Throws
/// invalid_argument or disagreement.
void require_mesh(Group&, const Mesh&);

}  // namespace cairn
