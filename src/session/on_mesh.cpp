#include "session/on_mesh.hpp"

#include "base/text.hpp"
#include "group/collectives.hpp"

namespace cairn {

void require_mesh(Group& group, const Mesh& mesh) {
  require_same(group, "the mesh", to_string(mesh));
  if (mesh.size() != group.size()) {
    throw Error(Code::invalid_argument,
                cat("the mesh ", to_string(mesh), " is used by ", group.size(), " ranks"),
                cat("it has ", mesh.size()), "Make a mesh of as many ranks as the group has.");
  }
}

}  // namespace cairn
