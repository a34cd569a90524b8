#include <charconv>
#include <utility>

#include "base/markup.hpp"
#include "base/text.hpp"
#include "foreign/xdmf/xdmf_text.hpp"

namespace cairn::xdmf {
namespace {

constexpr std::string_view head =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!-- Made by Cairn, which replaces it as a whole. -->\n";

std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string numbers(const Dims& values) {
  std::string text;
  for (const auto value : values) text += cat(text.empty() ? "" : " ", value);
  return text;
}

// XDMF has no unsigned integers of 64 bits; they are read as signed ones with the same bits.
constexpr std::pair<DType, const char*> number_types[] = {
    {DType::float64, "Float"}, {DType::int64, "Int"},   {DType::uint64, "Int"},
    {DType::int32, "Int"},     {DType::uint32, "UInt"}, {DType::int16, "Short"},
    {DType::uint16, "UShort"}, {DType::int8, "Char"},   {DType::uint8, "UChar"},
    {DType::boolean, "UChar"}};

std::string type_text(DType dtype) {
  for (const auto& [one, type] : number_types) {
    if (one != dtype) continue;
    return cat("NumberType=\"", type, "\" Precision=\"", dtype_size(dtype), '"');
  }
  return "NumberType=\"Float\" Precision=\"4\"";  // HDF5 converts float16 and bfloat16, too
}

// Refers to the bytes or the dataset in which the elements lie.
std::string data_item(const Field& field, const Dims& dims) {
  const auto& source = field.source;
  auto text = cat("<DataItem Dimensions=\"", numbers(dims), "\" ", type_text(field.dtype));
  if (source.dataset.empty()) {
    text += cat(" Format=\"Binary\" Endian=\"", source.big_endian ? "Big" : "Little", "\" Seek=\"",
                source.offset, "\">", escaped(source.file));
  } else {
    text += cat(" Format=\"HDF\">", escaped(source.file), ':', escaped(source.dataset));
  }
  return text + "</DataItem>";
}

// The item of one component; the components are the last dimension of the stored data.
std::string component_item(const Field& field, std::int64_t component, const Dims& dims) {
  std::string start, stride, count;
  for (std::size_t d = 0; d + 1 < field.shape.size(); ++d) {
    start += "0 ";
    stride += "1 ";
    count += cat(field.shape[d], ' ');
  }
  return cat("<DataItem ItemType=\"HyperSlab\" Type=\"HyperSlab\" Dimensions=\"", numbers(dims),
             "\"><DataItem Dimensions=\"3 ", field.shape.size(), "\" Format=\"XML\">", start,
             component, ' ', stride, "1 ", count, "1</DataItem>", data_item(field, field.shape),
             "</DataItem>");
}

std::string attribute(const std::string& name, const std::string& units, const char* type,
                      const char* center, const std::string& item) {
  auto said = units.empty() || !is_utf8(units)
                  ? std::string()
                  : cat("<Information Name=\"units\" Value=\"", escaped(units), "\"/>");
  return cat("        <Attribute Name=\"", escaped(name), "\" AttributeType=\"", type,
             "\" Center=\"", center, "\">", item, said, "</Attribute>\n");
}

// `space`: how many dimensions there are before the components; `padded`: how many the grid has.
std::string attributes(Field field, std::size_t space, const char* center, std::size_t padded) {
  if (field.shape.size() > space + 1) {  // complex with components: both become one dimension
    field.shape[space] *= field.shape[space + 1];
    field.shape.pop_back();
  }
  const auto components = field.shape.size() > space ? field.shape[space] : 1;
  // The grid's missing dimensions come first, with one index each.
  Dims dims(padded - space, 1);
  for (std::size_t d = 0; d < space; ++d) dims.push_back(field.shape[d]);
  if (components == 1)
    return attribute(field.name, field.units, "Scalar", center, data_item(field, dims));
  if (components == 3 || components == 9) {
    dims.push_back(components);
    return attribute(field.name, field.units, components == 3 ? "Vector" : "Tensor", center,
                     data_item(field, dims));
  }
  std::string text;
  for (std::int64_t i = 0; i < components; ++i) {
    text += attribute(cat(field.name, ' ', i), field.units, "Scalar", center,
                      component_item(field, i, dims));
  }
  return text;
}

// The value for dimension d of `rank`; XdmfOptions says how values belong to dimensions.
double of_dimension(const std::vector<double>& values, std::size_t d, std::size_t rank,
                    double otherwise) {
  if (values.size() == 1) return values[0];
  const auto from_end = rank - d;
  return from_end <= values.size() ? values[values.size() - from_end] : otherwise;
}

std::string triple(const double (&values)[3]) {
  return cat("<DataItem Dimensions=\"3\" NumberType=\"Float\" Precision=\"8\" Format=\"XML\">",
             number(values[0]), ' ', number(values[1]), ' ', number(values[2]), "</DataItem>");
}

std::string edges_item(const std::vector<double>& edges) {
  auto text = cat("<DataItem Dimensions=\"", edges.size(),
                  "\" NumberType=\"Float\" Precision=\"8\" Format=\"XML\">");
  for (std::size_t i = 0; i < edges.size(); ++i) text += cat(i > 0 ? " " : "", number(edges[i]));
  return text + "</DataItem>";
}

// The coordinates of the last dimension come first: that is x.
std::string uneven_grid(const Grid& piece) {
  const auto rank = piece.edges.size();
  Dims nodes(3, 2);
  std::string items;
  for (std::size_t i = 3; i-- > 0;) {
    if (i + rank < 3) {
      items += edges_item({0, 1});
      continue;
    }
    const auto& edges = piece.edges[i + rank - 3];
    nodes[i] = static_cast<std::int64_t>(edges.size());
    items += edges_item(edges);
  }
  return cat("        <Topology TopologyType=\"3DRectMesh\" Dimensions=\"", numbers(nodes),
             "\"/>\n        <Geometry GeometryType=\"VXVYVZ\">", items, "</Geometry>\n");
}

// A grid whose cells are alike: its origin is the corner of the piece's first cell.
std::string even_grid(const Grid& piece, const XdmfOptions& options) {
  const auto rank = piece.box.rank();
  const auto& sizes = piece.spacing.empty() ? options.spacing : piece.spacing;
  const auto& corner = piece.origin.empty() ? options.origin : piece.origin;
  double origin[3], spacing[3];
  // Topologies count corners: one cell has two of them.
  Dims nodes(3, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i + rank < 3) {
      spacing[i] = of_dimension(sizes, rank - 1, rank, 1);
      origin[i] = 0;
      continue;
    }
    const auto d = i + rank - 3;
    spacing[i] = of_dimension(sizes, d, rank, 1);
    origin[i] =
        of_dimension(corner, d, rank, 0) + static_cast<double>(piece.box.start[d]) * spacing[i];
    nodes[i] = piece.box.extent[d] + 1;
  }
  return cat("        <Topology TopologyType=\"3DCoRectMesh\" Dimensions=\"", numbers(nodes),
             "\"/>\n        <Geometry GeometryType=\"ORIGIN_DXDYDZ\">", triple(origin),
             triple(spacing), "</Geometry>\n");
}

// The grid has three dimensions, since VTK draws those right. It is one cell thick in each that the
// tensor lacks.
std::string cells_text(const Grid& piece, const XdmfOptions& options) {
  auto text = piece.edges.empty() ? even_grid(piece, options) : uneven_grid(piece);
  for (const auto& field : piece.fields) text += attributes(field, piece.box.rank(), "Cell", 3);
  return text;
}

// A set of points, each of which is a cell of its own for readers.
std::string points_text(const Grid& piece) {
  const auto& at = piece.positions.front();
  auto text = cat("        <Topology TopologyType=\"Polyvertex\" NumberOfElements=\"", at.shape[0],
                  "\" NodesPerElement=\"1\"/>\n        <Geometry GeometryType=\"",
                  at.shape[1] == 3 ? "XYZ" : "XY", "\">", data_item(at, at.shape), "</Geometry>\n");
  for (const auto& field : piece.fields) text += attributes(field, 1, "Node", 1);
  return text;
}

// Two hyphens would end the comment, and a control character would make the file invalid.
std::string comment(const std::string& said) {
  auto text = escaped(said);
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '-' && text[i - 1] == '-') text[i] = '_';
  }
  return cat("      <!-- not shown: ", text, " -->\n");
}

}  // namespace

// A step is a collection of its pieces, with a time at which ParaView shows it.
std::string step_text(const Step& step, const XdmfOptions& options) {
  auto text = cat("    <Grid Name=\"step ", step.step,
                  "\" GridType=\"Collection\" CollectionType=\"Spatial\">\n      <Time Value=\"",
                  number(step.time), "\"/>\n");
  for (const auto& one : step.left_out) text += is_utf8(one) ? comment(one) : "";
  for (const auto& piece : step.pieces) {
    text += cat("      <Grid Name=\"", escaped(piece.name), "\" GridType=\"Uniform\">\n",
                piece.positions.empty() ? cells_text(piece, options) : points_text(piece),
                "      </Grid>\n");
  }
  return text + "    </Grid>\n";
}

std::string file_text(const std::vector<std::string>& steps) {
  std::string text(head);
  text +=
      "<Xdmf Version=\"2.0\">\n<Domain>\n"
      "  <Grid Name=\"checkpoints\" GridType=\"Collection\" CollectionType=\"Temporal\">\n";
  for (const auto& step : steps) text += step;
  return text + "  </Grid>\n</Domain>\n</Xdmf>\n";
}

bool is_own(std::string_view text) {
  return text.starts_with(head) || head.starts_with(text) ||
         text.find_first_not_of('\0') == text.npos;
}

}  // namespace cairn::xdmf
