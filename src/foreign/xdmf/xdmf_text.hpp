#pragma once
/// The text of an XDMF file that shows checkpoints where they lie. No I/O. It is of version 2,
/// whose reader PyPI's VTK and so ParaView have, and says only what that reads right: grids of
/// three dimensions (fewer lie in another plane or lose cells), components one by one unless they
/// are 3 or 9. VTKHDF would want the data laid out its way. Values are those of cells: a tensor
/// lies in pieces, and grids of points would leave a gap of a cell between them.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/xdmf.hpp"

namespace cairn::xdmf {

/// Where the elements of a box are.
struct Source {
  std::string file;     ///< relative to the XDMF file
  std::string dataset;  ///< its path in an HDF5 file; "": raw bytes
  std::int64_t offset = 0;
  bool big_endian = false;
};

struct Field {
  std::string name;
  DType dtype{};
  Dims shape;  ///< of this piece, with its components
  Source source;
  std::string units = {};  ///< empty: none are known
};

/// A box of fields that lie side by side, or points with values.
struct Grid {
  std::string name;
  Box box;  ///< of cells; of points their rows
  std::vector<Field> fields;
  std::vector<Field> positions;  ///< one, or none where it is no set of points
  /// Size of a cell, and the corner of the tensor's first one, one number a dimension, where axes
  /// say so. Empty: as the options say.
  std::vector<double> spacing = {}, origin = {};
  /// Where an axis has uneven steps, in place of both: the edges of this piece's cells, one more
  /// than it has cells, of each dimension.
  std::vector<std::vector<double>> edges = {};
};

struct Step {
  std::int64_t step = 0;
  double time = 0;
  std::vector<Grid> pieces;
  std::vector<std::string> left_out;  ///< "KEY: why"
};

/// Names of the data files, by number, relative to the XDMF file.
using FileName = std::function<std::string(std::int32_t file)>;
/// The dataset that a tensor is in an HDF5 file; empty: it is plain bytes.
using DatasetOf = std::function<std::string(const std::string& key)>;
/// The values of a tensor of one dimension; empty if they are no real numbers.
using AxisValues = std::function<std::vector<double>(const StoredTensor&)>;

/// What is shown of a checkpoint: tensors of 1 to 3 dimensions as cells, with components behind
/// where they have four, or where these are 2 or 3 and another tensor has the shape before them;
/// positions, with what has as many rows and one to three components, or more in the same folder. A
/// tensor in several stored slices is so many pieces. Throws invalid_argument for a key of
/// positions that is not there or holds none, and for spacings that are none.
Step describe(const CheckpointContents&, const XdmfOptions&, const FileName&, const AxisValues&,
              const DatasetOf&);

/// The same as text, for the file below.
std::string step_text(const Step&, const XdmfOptions&);
/// Texts of steps, ascending by time, as one file.
std::string file_text(const std::vector<std::string>& steps);
/// Whether file_text may have made what begins so, a few hundred bytes at least, or less if it has
/// less: whole, or as a crash has left it, cut off or as zeros.
bool is_own(std::string_view text);

}  // namespace cairn::xdmf
