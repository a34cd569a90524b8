#pragma once
/// What an XDMF file says of checkpoints, so that ParaView, VisIt and VTK show them where they lie
/// (docs/look.md).
#include <string>
#include <vector>

namespace cairn {

/// Numbers for dimensions are in their order, slowest first. One number is for all dimensions; of a
/// tensor of fewer the last ones count.
struct XdmfOptions {
  std::vector<double> spacing = {};  ///< size of a cell, above 0; none: 1
  std::vector<double> origin = {};   ///< the corner of the first cell; none: 0
  // Without both, cells lie where axes say (Description::dimensions), in equal steps or not.
  /// Keys of positions: [N 2] or [N 3] of float32 or float64, a row a point. Tensors of N rows are
  /// values of the points. None: those called position, positions, coordinates, coords, points or
  /// xyz, in whatever folder.
  std::vector<std::string> points = {};
  std::string time =
      {};  ///< key of a real or integer scalar, the time of a checkpoint; "": its step

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [spacing, origin, points, time] = self;
    options.own("spacing", spacing);
    options.own("origin", origin);
    options.own("points", points);
    options.own("time", time);
  }
};

}  // namespace cairn
