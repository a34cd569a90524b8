// Chooses what an XDMF file shows of a checkpoint, and in which form.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/xdmf/xdmf_text.hpp"

namespace cairn::xdmf {
namespace {

// A grid is written for each piece, and mostly a field for each component.
constexpr std::size_t most_pieces = 1024, most_components = 16;
constexpr std::array<std::string_view, 6> names_of_positions = {
    "position", "positions", "coordinates", "coords", "points", "xyz"};

std::string_view last_part(std::string_view key) {
  const auto slash = key.rfind('/');
  return slash == key.npos ? key : key.substr(slash + 1);
}
std::string_view folder(std::string_view key) {
  const auto slash = key.rfind('/');
  return slash == key.npos ? std::string_view() : key.substr(0, slash);
}

// Whether a key is of the form KEY/rank-00001-of-00003, which has the private bytes of one rank.
bool is_rank_private(std::string_view key) {
  const auto name = last_part(key);
  return name.size() >= 19 && name.starts_with("rank-") && name.find("-of-") != name.npos &&
         name.find_first_not_of("0123456789", name.find("-of-") + 4) == name.npos;
}

bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

constexpr std::array known_to_readers = {
    DType::float32, DType::float64, DType::int8,  DType::uint8,  DType::int16,  DType::uint16,
    DType::int32,   DType::uint32,  DType::int64, DType::uint64, DType::boolean};

// Why readers do not know elements of this dtype; empty if they do. HDF5 converts small floats for
// them.
std::string refusal(DType dtype, bool is_dataset) {
  const auto& known = known_to_readers;
  if (std::find(known.begin(), known.end(), dtype) != known.end()) return "";
  if (dtype == DType::float16 || dtype == DType::bfloat16) {
    return is_dataset ? "" : "XDMF has no floats of 16 bits";
  }
  if (is_complex(dtype)) {
    return is_dataset ? "XDMF has no compound types, as which HDF5 holds complex numbers" : "";
  }
  return cat("XDMF has no ", dtype_name(dtype));
}

std::string why_not(const StoredTensor& tensor, bool is_dataset) {
  if (!tensor.problem.empty()) return tensor.problem;
  if (auto why = refusal(tensor.dtype, is_dataset); !why.empty()) return why;
  if (tensor.slices.size() > most_pieces) {
    return cat("it is stored in ", tensor.slices.size(), " pieces, at most ", most_pieces,
               " are shown; store it dense, or in HDF5");
  }
  if (element_count(tensor.shape) == 0) return "it has no elements";
  if (std::any_of(tensor.slices.begin(), tensor.slices.end(),
                  [](const auto& slice) { return slice.codec != Codec::none; })) {
    return "its bytes are encoded, which no reader of XDMF files knows of";
  }
  // A ':' ends the name of the HDF5 file in front of the dataset's path.
  if (tensor.key.find(':') != tensor.key.npos || printable(tensor.key) != tensor.key) {
    return "its key has no place in an XDMF file";
  }
  return "";
}

// The field of one stored slice: where its elements are, and in which form.
Field field_of(const CheckpointContents& contents, const StoredTensor& tensor,
               const cairn::Piece& slice, const FileName& file_name, std::string dataset) {
  Field field{tensor.key, tensor.dtype, slice.box.extent, {}};
  field.units = contents.description(tensor.key).units;
  field.source.file = file_name(slice.file);
  field.source.dataset = std::move(dataset);
  if (field.source.dataset.empty()) {
    field.source.offset = slice.offset;
    field.source.big_endian = contents.big_endian;
  }
  if (is_complex(tensor.dtype)) {  // the real and imaginary parts become a last dimension
    field.dtype = tensor.dtype == DType::complex64 ? DType::float32 : DType::float64;
    field.shape.push_back(2);
  }
  return field;
}

bool is_positions(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && (tensor.shape[1] == 2 || tensor.shape[1] == 3) &&
         (tensor.dtype == DType::float32 || tensor.dtype == DType::float64);
}

// The tensors with positions of points: those that the options name or, if they name none, all that
// are called so and have the right shape.
std::vector<const StoredTensor*> positions_of(const CheckpointContents& contents,
                                              const XdmfOptions& options) {
  std::vector<const StoredTensor*> found;
  if (options.points.empty()) {
    for (const auto& tensor : contents.tensors) {
      const auto name = last_part(tensor.key);
      const bool called = std::find(names_of_positions.begin(), names_of_positions.end(), name) !=
                          names_of_positions.end();
      if (called && is_positions(tensor)) found.push_back(&tensor);
    }
    return found;
  }
  for (const auto& key : options.points) {
    const auto* tensor = contents.find(key);
    if (!tensor || !is_positions(*tensor)) {
      throw Error(Code::invalid_argument,
                  cat("'", key, "' holds no positions of points in ", contents.prefix),
                  tensor ? cat("it is ", dtype_name(tensor->dtype), ' ', shape_text(tensor->shape))
                         : "there is no such tensor",
                  "Positions are [N 2] or [N 3] of float32 or float64; cairn show lists keys.")
          .of_tensor(key);
    }
    found.push_back(tensor);
  }
  return found;
}

// The rows of each slice, ascending; nothing if a slice has only a part of a row.
std::optional<std::vector<Box>> rows_of(const StoredTensor& tensor) {
  std::vector<Box> rows;
  for (const auto& slice : tensor.slices) {
    for (std::size_t d = 1; d < tensor.shape.size(); ++d) {
      if (slice.box.extent[d] != tensor.shape[d]) return std::nullopt;
    }
    rows.push_back({{slice.box.start[0]}, {slice.box.extent[0]}});
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

// The tensor with the places of a dimension's indices: the nearest of this name and extent, beside
// `key` or in a group above it.
const StoredTensor* find_axis(const CheckpointContents& contents, std::string_view key,
                              const std::string& name, std::int64_t extent) {
  for (auto group = folder(key);; group = folder(group)) {
    const auto* axis = contents.find(group.empty() ? name : cat(group, '/', name));
    if (axis && axis->shape == Dims{extent} && axis->problem.empty()) return axis;
    if (group.empty()) return nullptr;
  }
}

// Where the cells of a dimension lie.
struct Places {
  double first = 0.5, step = 1;    // the centre of the first cell, and the distance to the next
  std::vector<double> edges = {};  // set if steps are not alike: n cells have n + 1 edges
  auto operator<=>(const Places&) const = default;
};

// Whether all steps are equal, within a thousandth of a step.
bool are_even(const std::vector<double>& centres, const Places& places) {
  for (std::size_t i = 0; i < centres.size(); ++i) {
    const auto there = places.first + static_cast<double>(i) * places.step;
    if (!(std::abs(centres[i] - there) <= 1e-3 * places.step)) return false;
  }
  return true;
}

// The places of cells with these centres, the values of an axis; nothing if they do not ascend.
std::optional<Places> places_of(const std::vector<double>& centres) {
  if (centres.empty() || !std::isfinite(centres.front()) || !std::isfinite(centres.back())) {
    return std::nullopt;
  }
  for (std::size_t i = 1; i < centres.size(); ++i) {
    if (!(centres[i - 1] < centres[i])) return std::nullopt;
  }
  Places places{centres.front(), 1};
  if (centres.size() == 1) return places;
  places.step = (centres.back() - centres.front()) / static_cast<double>(centres.size() - 1);
  if (are_even(centres, places)) return places;
  // Cells meet half way between their centres; the outermost reach as far outwards as inwards.
  auto& edges = places.edges;
  edges.push_back(centres[0] - (centres[1] - centres[0]) / 2);
  for (std::size_t i = 1; i < centres.size(); ++i) {
    edges.push_back(centres[i - 1] + (centres[i] - centres[i - 1]) / 2);
  }
  edges.push_back(centres.back() + (centres.back() - centres[centres.size() - 2]) / 2);
  if (!std::isfinite(edges.front()) || !std::isfinite(edges.back())) return std::nullopt;
  return places;
}

// The edges of `count` cells from cell `start` on.
std::vector<double> edges_in(const Places& places, std::int64_t start, std::int64_t count) {
  if (!places.edges.empty()) {
    const auto begin = places.edges.begin() + start;
    return {begin, begin + count + 1};
  }
  std::vector<double> edges;
  for (std::int64_t i = 0; i <= count; ++i) {
    edges.push_back(places.first + (static_cast<double>(start + i) - 0.5) * places.step);
  }
  return edges;
}

// Decides of each tensor whether it is shown, and how. Points come first: what belongs to them is
// not shown as cells.
class Describing {
 public:
  Describing(const CheckpointContents& contents, const XdmfOptions& options,
             const FileName& file_name, const AxisValues& axis_values, const DatasetOf& dataset_of)
      : contents_(contents),
        options_(options),
        file_name_(file_name),
        axis_values_(axis_values),
        dataset_of_(dataset_of) {}

  Step run() {
    for (const auto& tensor : contents_.tensors) {
      const bool is_shown =
          !tensor.shape.empty() && tensor.dtype != DType::string && !is_rank_private(tensor.key);
      if (!is_shown) continue;
      const auto why = why_not(tensor, !dataset_of_(tensor.key).empty());
      if (why.empty()) {
        usable_.push_back(&tensor);
      } else {
        leave_out(tensor, why);
      }
    }
    points();
    cells();
    return std::move(step_);
  }

 private:
  void leave_out(const StoredTensor& tensor, const std::string& why) {
    step_.left_out.push_back(cat(tensor.key, ": ", why));
  }
  bool is_usable(const StoredTensor* tensor) const {
    return std::find(usable_.begin(), usable_.end(), tensor) != usable_.end();
  }
  Field field(const StoredTensor& tensor, const cairn::Piece& slice) const {
    return field_of(contents_, tensor, slice, file_name_, dataset_of_(tensor.key));
  }

  // Whether a tensor may hold values of these points: it has as many rows, and up to three
  // components. It may have more only in the same folder, for a plane may have as many rows by
  // chance.
  static bool may_belong(const StoredTensor& tensor, const StoredTensor& set) {
    if (tensor.shape.size() > 2 || tensor.shape[0] != set.shape[0]) return false;
    const auto components = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    const bool beside = !folder(set.key).empty() && folder(set.key) == folder(tensor.key);
    return components <= 3 || (beside && components <= std::int64_t{most_components});
  }

  // Adds the sets of positions, each with the tensors that have as many rows. If several sets fit a
  // tensor, it belongs to one in the same folder or, without such, to the first.
  void points() {
    std::vector<const StoredTensor*> sets;
    for (const auto* set : positions_of(contents_, options_)) {
      if (is_usable(set)) sets.push_back(set);
    }
    std::map<const StoredTensor*, std::vector<const StoredTensor*>> members;
    for (const auto* tensor : usable_) {
      if (std::find(sets.begin(), sets.end(), tensor) != sets.end()) continue;
      const StoredTensor* chosen = nullptr;
      for (const auto* set : sets) {
        if (!may_belong(*tensor, *set)) continue;
        if (!chosen || folder(set->key) == folder(tensor->key)) chosen = set;
      }
      if (chosen) members[chosen].push_back(tensor);
    }
    for (const auto* set : sets) {
      taken_.insert(set);
      const auto rows = rows_of(*set);
      if (!rows) {
        leave_out(*set, "its rows are stored in parts");
        continue;
      }
      add_points(*set, *rows, members[set]);
    }
  }

  // Each stored slice of the positions becomes a grid. Values of the points can only follow if
  // their rows are cut alike.
  void add_points(const StoredTensor& set, const std::vector<Box>& rows,
                  const std::vector<const StoredTensor*>& members) {
    std::map<Box, Grid> pieces;
    for (const auto& slice : set.slices) {
      if (slice.box.empty()) continue;
      const Box box{{slice.box.start[0]}, {slice.box.extent[0]}};
      auto& piece = pieces[box];
      piece.name = set.key;
      piece.box = box;
      piece.positions = {field(set, slice)};
    }
    for (const auto* tensor : members) {
      if (rows_of(*tensor) != rows) {
        leave_out(*tensor, cat("not with the points, for its rows are cut otherwise than those of ",
                               set.key, "; as cells"));
        continue;
      }
      taken_.insert(tensor);
      for (const auto& slice : tensor->slices) {
        if (slice.box.empty()) continue;
        pieces[{{slice.box.start[0]}, {slice.box.extent[0]}}].fields.push_back(
            field(*tensor, slice));
      }
    }
    std::size_t number = 0;
    const bool several = pieces.size() > 1;
    for (auto& [box, piece] : pieces) {
      if (several) piece.name += cat(" ", number++);
      step_.pieces.push_back(std::move(piece));
    }
  }

  // How many dimensions of the tensor are those of space; 0 if it is no grid.
  std::size_t dimensions_of(const StoredTensor& tensor) const {
    const auto rank = tensor.shape.size();
    if (rank > 4) return 0;
    if (rank == 1) return 1;
    const auto components = tensor.shape[rank - 1];
    if (rank == 4) return components <= std::int64_t{most_components} ? 3 : 0;
    // A last dimension of 2 or 3 may be components or a thin grid. It counts as components if
    // another tensor has the shape without it.
    if (components != 2 && components != 3) return rank;
    const Dims space(tensor.shape.begin(), tensor.shape.end() - 1);
    const bool belongs = std::any_of(usable_.begin(), usable_.end(), [&](const auto* other) {
      return other->shape == space && !taken_.count(other);
    });
    return belongs ? rank - 1 : rank;
  }

  // Where the cells of each dimension lie: by its axis or, if none is known, by index.
  std::vector<Places> places_in(const StoredTensor& tensor, std::size_t space) {
    const auto& names = contents_.description(tensor.key).dimensions;
    std::vector<Places> places(space);
    if (names.size() != tensor.shape.size()) return places;
    for (std::size_t d = 0; d < space; ++d) {
      const auto* axis = find_axis(contents_, tensor.key, names[d], tensor.shape[d]);
      if (!axis || axis == &tensor) continue;
      const auto [at, is_new] = axes_.try_emplace(axis);
      if (is_new) {
        at->second = places_of(axis_values_(*axis));
        if (!at->second) leave_out(*axis, "as an axis, for its values do not ascend");
      }
      if (at->second) places[d] = *at->second;
    }
    return places;
  }

  // Fields of one shape that are cut alike, and lie at the same place, share their pieces.
  void cells() {
    using Group = std::tuple<Dims, std::vector<Box>, std::vector<Places>>;
    std::map<Group, std::vector<const StoredTensor*>> groups;
    for (const auto* tensor : usable_) {
      if (taken_.count(tensor)) continue;
      const auto space = dimensions_of(*tensor);
      if (space == 0) {
        leave_out(*tensor, cat("of its shape ", shape_text(tensor->shape), " there is no grid"));
        continue;
      }
      const auto boxes = boxes_of(*tensor, space);
      if (!boxes) {
        leave_out(*tensor, "its components are stored apart");
        continue;
      }
      auto places = places_in(*tensor, space);
      // What the options say counts more than axes.
      if (!options_.spacing.empty() || !options_.origin.empty()) places.clear();
      Dims shape(tensor->shape.begin(), tensor->shape.begin() + space);
      groups[{std::move(shape), *boxes, std::move(places)}].push_back(tensor);
    }
    std::map<Dims, int> of_shape;
    for (const auto& [group, members] : groups) {
      const auto& [shape, boxes, places] = group;
      const auto number = of_shape[shape]++;
      auto name = shape_text(shape);
      name = cat("cells ", name.substr(1, name.size() - 2), number > 0 ? cat(" ", number) : "");
      add_cells(name, boxes, shape.size(), members, places);
    }
  }

  // The boxes of the slices in the dimensions of space; nothing if a slice has only some
  // components.
  static std::optional<std::vector<Box>> boxes_of(const StoredTensor& tensor, std::size_t space) {
    std::vector<Box> boxes;
    for (const auto& slice : tensor.slices) {
      if (space < tensor.shape.size() && slice.box.extent[space] != tensor.shape[space]) {
        return std::nullopt;
      }
      boxes.push_back(of_space(slice.box, space));
    }
    std::sort(boxes.begin(), boxes.end());
    return boxes;
  }
  static Box of_space(const Box& box, std::size_t space) {
    return {Dims(box.start.begin(), box.start.begin() + space),
            Dims(box.extent.begin(), box.extent.begin() + space)};
  }

  // `places` is empty if the options say where cells lie.
  static Grid piece_at(const Box& box, const std::vector<Places>& places) {
    Grid piece;
    piece.box = box;
    const bool uneven = std::any_of(places.begin(), places.end(),
                                    [](const Places& one) { return !one.edges.empty(); });
    for (std::size_t d = 0; d < places.size(); ++d) {
      const auto& one = places[d];
      if (uneven) {
        piece.edges.push_back(edges_in(one, box.start[d], box.extent[d]));
      } else {
        piece.spacing.push_back(one.step);
        piece.origin.push_back(one.first - one.step / 2);
      }
    }
    return piece;
  }

  // Each box becomes a grid with the slices that all members have there.
  void add_cells(const std::string& name, const std::vector<Box>& boxes, std::size_t space,
                 const std::vector<const StoredTensor*>& members,
                 const std::vector<Places>& places) {
    std::map<Box, Grid> pieces;
    for (const auto& box : boxes) pieces.emplace(box, piece_at(box, places));
    for (const auto* tensor : members) {
      for (const auto& slice : tensor->slices) {
        pieces[of_space(slice.box, space)].fields.push_back(field(*tensor, slice));
      }
    }
    std::size_t number = 0;
    const bool several = pieces.size() > 1;
    for (auto& [box, piece] : pieces) {
      if (box.empty()) continue;
      piece.name = several ? cat(name, ", piece ", number++) : name;
      step_.pieces.push_back(std::move(piece));
    }
  }

  const CheckpointContents& contents_;
  const XdmfOptions& options_;
  const FileName& file_name_;
  const AxisValues& axis_values_;
  const DatasetOf& dataset_of_;
  // Axes that were read already; nothing for one that does not ascend.
  std::map<const StoredTensor*, std::optional<Places>> axes_;
  // Tensors that readers can show.
  std::vector<const StoredTensor*> usable_;
  std::set<const StoredTensor*> taken_;  // shown as points, or as their values
  Step step_;
};

void require(bool good, const char* what, const std::vector<double>& values) {
  if (good) return;
  std::string text;
  for (const auto value : values) text += cat(text.empty() ? "" : ",", value);
  throw Error(Code::invalid_argument, cat("XdmfOptions::", what, " is ", text), "",
              "Give one finite number, or up to three, one a dimension; a spacing is above 0.");
}

}  // namespace

Step describe(const CheckpointContents& contents, const XdmfOptions& options,
              const FileName& file_name, const AxisValues& axis_values,
              const DatasetOf& dataset_of) {
  const auto fits = [](const std::vector<double>& values, bool positive) {
    return values.size() <= 3 && std::all_of(values.begin(), values.end(), [&](double value) {
             return std::isfinite(value) && (!positive || value > 0);
           });
  };
  require(fits(options.spacing, true), "spacing", options.spacing);
  require(fits(options.origin, false), "origin", options.origin);
  return Describing(contents, options, file_name, axis_values, dataset_of).run();
}

}  // namespace cairn::xdmf
