#include "tools/slice_map.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/markup.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/contents/read_holders.hpp"

namespace cairn {
namespace {

constexpr double plane_size = 420, bar_height = 60, gap = 36, margin = 24, legend_row = 20;
constexpr std::size_t most_planes = 64, most_rectangles = 100'000, most_legend = 40;

// Neighbours in number get hues far apart (the golden angle).
std::string colour(int file) {
  return cat("hsl(", std::fmod(file * 137.508, 360.0), ",62%,", 52 + 12 * (file % 3), "%)");
}

[[noreturn]] void refuse(const StoredTensor& tensor, const std::string& why) {
  throw Error(Code::invalid_argument,
              cat("there is no picture of tensor '", tensor.key, "' ", shape_text(tensor.shape)),
              why, "cairn show lists its slices.")
      .of_tensor(tensor.key);
}

struct Rectangle {
  double row, column, rows, columns;  // in elements
  const StoredSlice* slice;           // null: a gap
  const Box* box;
};

// Runs of indices of the first of three dimensions, and what is seen there.
struct Plane {
  std::int64_t first, last;
  std::vector<Rectangle> rectangles;
};

// What is drawn, in this order: slices, then what no rank held, also where its fill value is
// stored.
struct MapPart {
  const Box* box;
  const StoredSlice* slice;
};
std::vector<MapPart> parts_of(const StoredTensor& tensor) {
  std::vector<MapPart> parts;
  for (const auto& slice : tensor.slices) parts.push_back({&slice.box, &slice});
  if (tensor.gaps) {
    for (const auto& box : tensor.gaps->boxes) parts.push_back({&box, nullptr});
  }
  return parts;
}

std::vector<Plane> planes_of(const StoredTensor& tensor) {
  const auto rank = tensor.shape.size();
  const auto parts = parts_of(tensor);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  // Of one dimension the only row.
  const auto rectangle = [&](const MapPart& part) {
    const auto &start = part.box->start, &extent = part.box->extent;
    return Rectangle{rank == 1 ? 0 : number(start[rank - 2]),
                     number(start[rank - 1]),
                     rank == 1 ? 1 : number(extent[rank - 2]),
                     number(extent[rank - 1]),
                     part.slice,
                     part.box};
  };
  if (rank < 3) {
    Plane plane{0, 0, {}};
    for (const auto& part : parts) plane.rectangles.push_back(rectangle(part));
    return {plane};
  }
  std::set<std::int64_t> cuts = {0, tensor.shape[0]};
  for (const auto& part : parts) {
    cuts.insert(part.box->start[0]);
    cuts.insert(part.box->end(0));
  }
  if (cuts.size() - 1 > most_planes) {
    refuse(tensor, cat("its slices make ", cuts.size() - 1, " planes, at most ", most_planes,
                       " are drawn"));
  }
  std::vector<Plane> planes;
  for (auto at = cuts.begin(); std::next(at) != cuts.end(); ++at) {
    Plane plane{*at, *std::next(at) - 1, {}};
    for (const auto& part : parts) {
      if (part.box->start[0] > *at || part.box->end(0) <= *at) continue;
      plane.rectangles.push_back(rectangle(part));
    }
    planes.push_back(std::move(plane));
  }
  return planes;
}

constexpr const char* gap_colour = "#ddd";

// One rectangle, which says what it is when it is pointed at.
std::string drawn_text(const Rectangle& one, double x, double y, double width, double height,
                       const std::string& words) {
  const auto fill = one.slice ? colour(one.slice->file) : gap_colour;
  return cat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height,
             "\" fill=\"", fill, "\" stroke=\"#333\" stroke-width=\"0.5\"",
             one.slice ? "" : " stroke-dasharray=\"2 2\"", "><title>", box_text(*one.box), '\n',
             words, "</title></rect>\n");
}

}  // namespace

std::string slice_map(const StoredTensor& tensor, const std::string& title,
                      const std::vector<std::string>& names) {
  const auto name_of = [&](int file) {
    return names.empty() ? cat("file ", file) : escaped(names.at(static_cast<std::size_t>(file)));
  };
  const char* of_what = names.empty() ? "file" : "task";
  const auto rank = tensor.shape.size();
  if (rank < 1 || rank > 3) refuse(tensor, "1 to 3 dimensions can be drawn");
  if (element_count(tensor.shape) == 0) refuse(tensor, "it has no elements");
  const auto planes = planes_of(tensor);
  std::size_t rectangles = 0;
  std::map<int, std::int64_t> bytes_of_file;
  for (const auto& plane : planes) rectangles += plane.rectangles.size();
  for (const auto& slice : tensor.slices) bytes_of_file[slice.file] += slice.size;
  if (rectangles > most_rectangles) {
    refuse(tensor,
           cat("it takes ", rectangles, " rectangles, at most ", most_rectangles, " are drawn"));
  }

  const auto rows = static_cast<double>(rank == 1 ? 1 : tensor.shape[rank - 2]);
  const auto columns = static_cast<double>(tensor.shape[rank - 1]);
  // Proportions are kept, but nothing becomes thinner than a sixth of the other side.
  const double width =
      rank == 1 ? 2 * plane_size : plane_size * std::clamp(columns / rows, 1.0 / 6, 1.0);
  const double height =
      rank == 1 ? bar_height : plane_size * std::clamp(rows / columns, 1.0 / 6, 1.0);
  const auto across = static_cast<std::size_t>(std::ceil(std::sqrt(planes.size())));
  const auto down = (planes.size() + across - 1) / across;
  const auto legend = std::min(bytes_of_file.size(), most_legend) +
                      (bytes_of_file.size() > most_legend ? 1 : 0) + (tensor.gaps ? 1 : 0);
  const double top = margin + 40;
  const double drawing_right = margin + static_cast<double>(across) * (width + gap);
  const double total_width = drawing_right + (names.empty() ? 230 : 420);
  const double total_height = std::max(top + static_cast<double>(down) * (height + gap),
                                       top + static_cast<double>(legend) * legend_row) +
                              margin;

  std::string out =
      cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", total_width, "\" height=\"",
          total_height, "\" viewBox=\"0 0 ", total_width, ' ', total_height,
          "\" font-family=\"sans-serif\" font-size=\"13\">\n",
          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", "<text x=\"", margin,
          "\" y=\"", margin + 8, "\" font-size=\"16\">", escaped(title), "</text>\n", "<text x=\"",
          margin, "\" y=\"", margin + 28, "\" fill=\"#555\">", dtype_name(tensor.dtype), ' ',
          shape_text(tensor.shape), ", ", tensor.slices.size(),
          tensor.slices.size() == 1 ? " slice" : " slices", names.empty() ? " in " : " of ",
          bytes_of_file.size(), ' ', of_what, bytes_of_file.size() == 1 ? "" : "s", "</text>\n");
  for (std::size_t p = 0; p < planes.size(); ++p) {
    const double left = margin + static_cast<double>(p % across) * (width + gap);
    const double upper = top + static_cast<double>(p / across) * (height + gap);
    if (rank == 3) {
      out += cat("<text x=\"", left, "\" y=\"", upper + height + 16, "\" fill=\"#555\">[",
                 planes[p].first, "..", planes[p].last, "]</text>\n");
    }
    // What no slice holds stays grey.
    out += cat("<rect x=\"", left, "\" y=\"", upper, "\" width=\"", width, "\" height=\"", height,
               "\" fill=\"", gap_colour, "\" stroke=\"#333\"/>\n");
    for (const auto& one : planes[p].rectangles) {
      const auto words =
          !one.slice ? std::string("held by no rank")
                     : cat(name_of(one.slice->file),
                           names.empty() ? cat(" at byte ", one.slice->offset) : std::string(),
                           ", ", bytes_text(static_cast<double>(one.slice->size)));
      out += drawn_text(one, left + one.column / columns * width, upper + one.row / rows * height,
                        one.columns / columns * width, one.rows / rows * height, words);
    }
  }
  std::size_t row = 0;
  const auto explain = [&](const std::string& fill, const std::string& words) {
    const double y = top + static_cast<double>(row++) * legend_row;
    if (!fill.empty()) {
      out += cat("<rect x=\"", drawing_right, "\" y=\"", y, "\" width=\"14\" height=\"14\" fill=\"",
                 fill, "\" stroke=\"#333\" stroke-width=\"0.5\"/>");
    }
    out += cat("<text x=\"", drawing_right + (fill.empty() ? 0 : 22), "\" y=\"", y + 12, "\">",
               words, "</text>\n");
  };
  if (tensor.gaps) {
    explain(gap_colour, cat("held by no rank, ", tensor.gaps->elements(), " of ",
                            element_count(tensor.shape), " elements"));
  }
  std::size_t told = 0;
  for (const auto& [file, bytes] : bytes_of_file) {
    if (told++ == most_legend) {
      explain("", cat("and ", bytes_of_file.size() - most_legend, " more"));
      break;
    }
    explain(colour(file), cat(name_of(file), ", ", bytes_text(static_cast<double>(bytes))));
  }
  return out + "</svg>\n";
}

std::string draw_slices(io::FileSystem& files, const CheckpointContents& contents,
                        const StoredTensor& tensor, const std::string& title) {
  const auto holders = read_holders(files, contents);
  const auto held = holders ? cut_as_held(tensor, *holders) : std::nullopt;
  return held ? slice_map(*held, title, holders->tasks) : slice_map(tensor, title);
}

}  // namespace cairn
