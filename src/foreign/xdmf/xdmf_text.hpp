#pragma once
/// Makes the text of an XDMF file that shows checkpoints where they lie. No I/O. The file is of
/// version 2, which PyPI's VTK and so ParaView can read. It has only what they read right: grids of
/// three dimensions (grids of fewer lie in another plane or lose cells), and components one by one
/// unless there are 3 or 9. VTKHDF would demand another layout of the data. Values belong to cells:
/// a tensor is stored in pieces, and grids of points would leave gaps of one cell between them.
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

/// A box of cells with the fields on them, or points with values.
struct Grid {
  std::string name;
  Box box;  ///< of cells, or the rows of points
  std::vector<Field> fields;
  std::vector<Field> positions;  ///< one for a set of points, else none
  /// The size of a cell and the corner of the tensor's first cell, one number for each dimension,
  /// as axes say. Empty: the options apply.
  std::vector<double> spacing = {}, origin = {};
  /// Replaces both if an axis has uneven steps: for each dimension the edges of this piece's cells,
  /// one more than it has cells.
  std::vector<std::vector<double>> edges = {};
};

struct Step {
  std::int64_t step = 0;
  double time = 0;
  std::vector<Grid> pieces;
  std::vector<std::string> left_out;  ///< "KEY: why"
};

/// The name of the data file with this number, relative to the XDMF file.
using FileName = std::function<std::string(std::int32_t file)>;
/// The path of a tensor's dataset in an HDF5 file; empty if the tensor is stored as raw bytes.
using DatasetOf = std::function<std::string(const std::string& key)>;
/// The values of a tensor of one dimension; empty if they are no real numbers.
using AxisValues = std::function<std::vector<double>(const StoredTensor&)>;

/// Chooses what is shown of a checkpoint. Tensors of 1 to 3 dimensions are shown as cells. A fourth
/// dimension has components; so has the last one if its extent is 2 or 3 and another tensor has the
/// shape without it. Positions are shown as points, with the tensors that have as many rows and one
/// to three components, or more in the same folder. A tensor in several stored slices becomes so
/// many pieces. Throws invalid_argument for a key of positions that does not exist or holds no
/// positions, and for an invalid spacing or origin.
Step describe(const CheckpointContents&, const XdmfOptions&, const FileName&, const AxisValues&,
              const DatasetOf&);

/// The text of a step, for file_text().
std::string step_text(const Step&, const XdmfOptions&);
/// Texts of steps, ascending by time, as one file.
std::string file_text(const std::vector<std::string>& steps);
/// Whether file_text may have made the file that begins with `text`: a whole file, or one that a
/// crash has left cut off or as zeros. `text` has at least a few hundred bytes, or the whole of a
/// shorter file.
bool is_own(std::string_view text);

}  // namespace cairn::xdmf
