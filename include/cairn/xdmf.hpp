#pragma once
/// What an XDMF file says about checkpoints, so that ParaView, VisIt and VTK show them without a
/// copy (docs/look.md).
#include <string>
#include <vector>

namespace cairn {

/// Numbers for dimensions are in the order of the dimensions, slowest first. A single number is for
/// all dimensions. For a tensor of fewer dimensions the last numbers count.
struct XdmfOptions {
  std::vector<double> spacing = {};  ///< size of a cell, above 0; none: 1
  std::vector<double> origin = {};   ///< the corner of the first cell; none: 0
  // Without both, axes (Description::dimensions) give the positions of cells, in equal steps or
  // not.
  /// Keys of tensors of positions: [N 2] or [N 3] of float32 or float64, one row per point. Tensors
  /// of N rows are values of the points. None: tensors named position, positions, coordinates,
  /// coords, points or xyz, in any folder.
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
