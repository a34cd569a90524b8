#pragma once
/// What the functions that take a mesh check first.
#include "cairn/group.hpp"
#include "cairn/mesh.hpp"

namespace cairn {

/// Collective. Throws disagreement if ranks have different meshes, and invalid_argument if the mesh
/// has not as many ranks as the group.
void require_mesh(Group&, const Mesh&);

}  // namespace cairn
