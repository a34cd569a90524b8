#include "cli/picture.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/png.hpp"
#include "cli/print.hpp"
#include "cli/terminal.hpp"
#include "tools/element_numbers.hpp"

namespace cairn::cli {
namespace {

constexpr std::int64_t most_cells = 800, thinnest = 100;
constexpr int lines_of_words = 6, least_rows = 8, most_curve_rows = 20;

bool fits_screen(const PictureOptions& options) { return options.output.empty(); }

// The size of the largest picture that fits the terminal. A line is twice as high as a letter is
// wide.
std::pair<std::int64_t, std::int64_t> screen() {
  const auto found = terminal();
  const std::int64_t lines =
      found.is_there ? std::max(least_rows, found.rows - lines_of_words) : 40;
  return {2 * lines, std::max(found.columns - 1, 8)};
}

void add_notes(Words& words, const ColourScale& scale, const std::vector<double>& values,
               bool is_difference) {
  if (!scale.has_numbers) {
    if (is_difference) return;
    words.notes.push_back(scale.is_log ? "no number above 0 is there"
                                       : "no finite number is there");
  } else if (!scale.has_width) {
    const auto one = std::find_if(values.begin(), values.end(), [&](double value) {
      return std::isfinite(value) && (!scale.is_log || value > 0);
    });
    words.notes.push_back(
        cat(is_difference ? "all of these differ by " : "all numbers are ", number_text(*one, 17)));
  }
  if (!scale.is_log || is_difference) return;
  const auto none = std::count_if(values.begin(), values.end(), [](double v) { return v <= 0; });
  if (none > 0) words.notes.push_back(cat(none, " not above 0: no place on a logarithmic scale"));
}

void write(const Image& image, const Words& words, const std::string& output) {
  const auto bytes = encode_image(image, output);
  to_output(output, [&](std::ostream& out) {
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  });
  for (const auto& note : words.notes) print_line(note);
}

void print_head(const Words& words) {
  print_line(words.title);
  print_line(words.subtitle);
}
void print_notes(const Words& words) {
  for (const auto& note : words.notes) print_line(note);
}

// Repeats each cell of a small picture.
Plane enlarged(const Plane& plane, std::int64_t down, std::int64_t right) {
  auto large = plane;
  large.rows *= down;
  large.columns *= right;
  large.values.clear();
  large.marks.clear();
  for (std::int64_t row = 0; row < large.rows; ++row) {
    for (std::int64_t column = 0; column < large.columns; ++column) {
      const auto cell = static_cast<std::size_t>(row / down * plane.columns + column / right);
      large.values.push_back(plane.values[cell]);
      if (!plane.marks.empty()) large.marks.push_back(plane.marks[cell]);
    }
  }
  return large;
}

}  // namespace

std::optional<std::pair<double, double>> PictureOptions::given_range() const {
  if (range.empty()) return std::nullopt;
  return parse_range(range, is_log);
}

void require_drawable(const StoredTensor& tensor) {
  if (!is_number(tensor.dtype)) {
    throw Error(Code::invalid_argument,
                cat("there is no picture of tensor ", shown_key(tensor.key)),
                cat("it holds ", tensor.dtype == DType::string ? "strings" : "variants"),
                tensor.dtype == DType::string ? "cairn cat prints them." : "")
        .of_tensor(tensor.key);
  }
  if (element_count(tensor.shape) == 0) {
    throw Error(Code::invalid_argument,
                cat("there is no picture of tensor ", shown_key(tensor.key)),
                cat("its shape ", shape_text(tensor.shape), " has no elements"))
        .of_tensor(tensor.key);
  }
}

IndexAxis axis_of(const Selection& selection, std::size_t dimension, std::int64_t step) {
  const auto& indices = selection[dimension];
  return {cat("dimension ", dimension), indices.start, indices.step * step};
}

std::string fixed_text(const Selection& selection, const Shown& shown, const Dims& shape) {
  std::string which = shown.fixed.size() > 1 ? "dimensions " : "dimension ";
  for (const auto d : shown.fixed) {
    which += cat(d == shown.fixed.front() ? "" : ", ", d, " at ", selection[d].start);
  }
  return cat(which, " (--slice ", selection_text(selection, shape), " picks)");
}

SampleLimits room_for(const PictureOptions& options, std::int64_t rows, std::int64_t columns) {
  std::int64_t most_rows = most_cells, most_columns = most_cells;
  if (fits_screen(options)) std::tie(most_rows, most_columns) = screen();
  SampleLimits limits;
  const auto step = std::max((rows - 1) / most_rows, (columns - 1) / most_columns) + 1;
  limits.rows = (rows - 1) / step + 1;
  limits.columns = (columns - 1) / step + 1;
  const auto thin = fits_screen(options) ? 8 : thinnest;
  if (limits.rows < std::min<std::int64_t>(thin, rows)) limits.rows = most_rows;
  if (limits.columns < std::min<std::int64_t>(thin, columns)) limits.columns = most_columns;
  // Letters are twice as high as wide. Without colours a line shows one row of cells. If two
  // letters for a cell are too wide, or there are too few lines, two rows become one.
  if (fits_screen(options) && terminal().colours == Colours::none &&
      (2 * limits.columns > most_columns || 2 * limits.rows > most_rows)) {
    limits.rows = (limits.rows - 1) / 2 + 1;
  }
  return limits;
}

void show(Plane plane, Words words, const PictureOptions& options, double flatness) {
  plane.scale = colour_scale(plane.values, options.is_log, options.given_range());
  add_notes(words, plane.scale, plane.values, !plane.marks.empty());
  if (!fits_screen(options)) return write(draw_plane(plane, words), words, options.output);
  const auto colours = terminal().colours;
  print_head(words);
  const auto [most_rows, most_columns] = screen();
  const bool is_messages = colours == Colours::none;
  const std::int64_t letters = is_messages && flatness < 2 ? 2 : 1;  // letters for each cell
  const auto lines = is_messages ? most_rows / 2 : most_rows;
  const auto times = std::clamp<std::int64_t>(
      std::min(lines / plane.rows, most_columns / (plane.columns * letters)), 1, 8);
  const auto right =
      std::min(times * letters, std::max<std::int64_t>(1, most_columns / plane.columns));
  std::cout << plane_text(enlarged(plane, times, right), colours);
  std::cout << scale_text(plane.scale, colours, static_cast<int>(most_columns)) << '\n';
  print_notes(words);
}

void show(Curve curve, Words words, const PictureOptions& options) {
  std::vector<double> heights = curve.values;
  heights.insert(heights.end(), curve.least.begin(), curve.least.end());
  heights.insert(heights.end(), curve.largest.begin(), curve.largest.end());
  curve.scale = colour_scale(heights, options.is_log, options.given_range());
  add_notes(words, curve.scale, curve.values, curve.is_difference);
  if (!fits_screen(options)) return write(draw_curve(curve, words), words, options.output);
  print_head(words);
  const auto [top, bottom] = std::pair(end_texts(curve.scale).second, end_texts(curve.scale).first);
  const auto [most_rows, most_columns] = screen();
  if (curve.scale.has_numbers) print_line(top);
  std::cout << curve_text(curve, std::min<int>(most_curve_rows, static_cast<int>(most_rows / 2)));
  if (curve.scale.has_numbers) print_line(bottom);
  print_notes(words);
}

}  // namespace cairn::cli
