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

// Files with neighbouring numbers get hues that are far apart (the golden angle).
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
  const Piece* slice;                 // null: a gap
  const Box* box;
};

// A range of indices of the first of three dimensions, and what its planes show.
struct Plane {
  std::int64_t first, last;
  std::vector<Rectangle> rectangles;
};

// The regions in the order in which they are drawn: slices first, then gaps, which cover their fill
// values where these are stored.
struct MapRegion {
  const Box* box;
  const Piece* slice;
};
std::vector<MapRegion> parts_of(const StoredTensor& tensor) {
  std::vector<MapRegion> parts;
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
  // A tensor of one dimension is one row.
  const auto rectangle = [&](const MapRegion& part) {
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

class SliceMap {
 public:
  SliceMap(const StoredTensor& tensor, const std::string& title,
           const std::vector<std::string>& names)
      : tensor_(tensor), title_(title), names_(names), rank_(tensor.shape.size()) {
    if (rank_ < 1 || rank_ > 3) refuse(tensor, "1 to 3 dimensions can be drawn");
    if (element_count(tensor.shape) == 0) refuse(tensor, "it has no elements");
    planes_ = planes_of(tensor);
    std::size_t rectangles = 0;
    for (const auto& plane : planes_) rectangles += plane.rectangles.size();
    if (rectangles > most_rectangles) {
      refuse(tensor,
             cat("it takes ", rectangles, " rectangles, at most ", most_rectangles, " are drawn"));
    }
    for (const auto& slice : tensor.slices) bytes_of_file_[slice.file] += slice.stored_bytes;
    rows_ = static_cast<double>(rank_ == 1 ? 1 : tensor.shape[rank_ - 2]);
    columns_ = static_cast<double>(tensor.shape[rank_ - 1]);
    // Proportions are kept, but no side becomes less than a sixth of the other.
    width_ = rank_ == 1 ? 2 * plane_size : plane_size * std::clamp(columns_ / rows_, 1.0 / 6, 1.0);
    height_ = rank_ == 1 ? bar_height : plane_size * std::clamp(rows_ / columns_, 1.0 / 6, 1.0);
    across_ = static_cast<std::size_t>(std::ceil(std::sqrt(planes_.size())));
    drawing_right_ = margin + static_cast<double>(across_) * (width_ + gap);
  }

  std::string svg() const {
    auto out = heading();
    for (std::size_t p = 0; p < planes_.size(); ++p) {
      const std::size_t column = p % across_, row = p / across_;
      out += drawn(planes_[p], margin + static_cast<double>(column) * (width_ + gap),
                   top + static_cast<double>(row) * (height_ + gap));
    }
    return out + legend() + "</svg>\n";
  }

 private:
  static constexpr double top = margin + 40;  // upper edge of the planes

  std::string name_of(int file) const {
    return names_.empty() ? cat("file ", file) : escaped(names_.at(static_cast<std::size_t>(file)));
  }

  double total_height() const {
    const auto files = bytes_of_file_.size();
    const auto down = (planes_.size() + across_ - 1) / across_;
    const auto lines =
        std::min(files, most_legend) + (files > most_legend ? 1 : 0) + (tensor_.gaps ? 1 : 0);
    return std::max(top + static_cast<double>(down) * (height_ + gap),
                    top + static_cast<double>(lines) * legend_row) +
           margin;
  }

  std::string heading() const {
    const double width = drawing_right_ + (names_.empty() ? 230 : 420), height = total_height();
    const auto files = bytes_of_file_.size();
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
               "\" viewBox=\"0 0 ", width, ' ', height,
               "\" font-family=\"sans-serif\" font-size=\"13\">\n",
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", "<text x=\"", margin,
               "\" y=\"", margin + 8, "\" font-size=\"16\">", escaped(title_), "</text>\n",
               "<text x=\"", margin, "\" y=\"", margin + 28, "\" fill=\"#555\">",
               dtype_name(tensor_.dtype), ' ', shape_text(tensor_.shape), ", ",
               tensor_.slices.size(), tensor_.slices.size() == 1 ? " slice" : " slices",
               names_.empty() ? " in " : " of ", files, names_.empty() ? " file" : " task",
               files == 1 ? "" : "s", "</text>\n");
  }

  std::string drawn(const Plane& plane, double left, double upper) const {
    std::string out;
    if (rank_ == 3) {
      out += cat("<text x=\"", left, "\" y=\"", upper + height_ + 16, "\" fill=\"#555\">[",
                 plane.first, "..", plane.last, "]</text>\n");
    }
    // Parts without a slice stay grey.
    out += cat("<rect x=\"", left, "\" y=\"", upper, "\" width=\"", width_, "\" height=\"", height_,
               "\" fill=\"", gap_colour, "\" stroke=\"#333\"/>\n");
    for (const auto& one : plane.rectangles) out += drawn(one, left, upper);
    return out;
  }

  // A region with the text that is shown when it is pointed at.
  std::string drawn(const Rectangle& one, double left, double upper) const {
    const auto* slice = one.slice;
    const auto offset = slice && names_.empty() ? cat(" at byte ", slice->offset) : "";
    const auto words = !slice ? "held by no rank"
                              : cat(name_of(slice->file), offset, ", ",
                                    bytes_text(static_cast<double>(slice->stored_bytes)));
    return cat("<rect x=\"", left + one.column / columns_ * width_, "\" y=\"",
               upper + one.row / rows_ * height_, "\" width=\"", one.columns / columns_ * width_,
               "\" height=\"", one.rows / rows_ * height_, "\" fill=\"",
               slice ? colour(slice->file) : gap_colour, "\" stroke=\"#333\" stroke-width=\"0.5\"",
               slice ? "" : " stroke-dasharray=\"2 2\"", "><title>", box_text(*one.box), '\n',
               words, "</title></rect>\n");
  }

  std::string legend() const {
    std::string out;
    double y = top;
    const auto explain = [&](const std::string& fill, const std::string& words) {
      if (!fill.empty()) {
        out +=
            cat("<rect x=\"", drawing_right_, "\" y=\"", y, "\" width=\"14\" height=\"14\" fill=\"",
                fill, "\" stroke=\"#333\" stroke-width=\"0.5\"/>");
      }
      out += cat("<text x=\"", drawing_right_ + (fill.empty() ? 0 : 22), "\" y=\"", y + 12, "\">",
                 words, "</text>\n");
      y += legend_row;
    };
    if (tensor_.gaps) {
      explain(gap_colour, cat("held by no rank, ", tensor_.gaps->elements(), " of ",
                              element_count(tensor_.shape), " elements"));
    }
    std::size_t told = 0;
    for (const auto& [file, bytes] : bytes_of_file_) {
      if (told++ == most_legend) {
        explain("", cat("and ", bytes_of_file_.size() - most_legend, " more"));
        break;
      }
      explain(colour(file), cat(name_of(file), ", ", bytes_text(static_cast<double>(bytes))));
    }
    return out;
  }

  const StoredTensor& tensor_;
  const std::string& title_;
  const std::vector<std::string>& names_;
  std::size_t rank_;
  std::vector<Plane> planes_;
  std::map<int, std::int64_t> bytes_of_file_;
  double rows_, columns_;  // elements of a plane
  double width_, height_;  // size of a plane in the picture
  std::size_t across_;     // planes beside each other
  double drawing_right_;
};

}  // namespace

std::string slice_map(const StoredTensor& tensor, const std::string& title,
                      const std::vector<std::string>& names) {
  return SliceMap(tensor, title, names).svg();
}

std::string draw_slices(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                        const std::string& title) {
  const auto holders = read_holders(checkpoint);
  const auto held = holders ? cut_as_held(tensor, *holders) : std::nullopt;
  return held ? slice_map(*held, title, holders->tasks) : slice_map(tensor, title);
}

}  // namespace cairn
