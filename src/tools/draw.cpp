#include "tools/draw.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "tools/font.hpp"

namespace cairn {
namespace {

constexpr int plot_size = 640, least_side = 48, bar_width = 24, least_bar = 200, border = 16,
              tick_length = 6, line_gap = 6, curve_height = 320, least_width = 520, grey_square = 4;
constexpr Rgb dark_grey{150, 150, 150}, light_grey{225, 225, 225}, nothing_differs{235, 235, 235},
    ink{40, 40, 40}, line_colour = Rgb{0x31, 0x68, 0x8e}, grid_colour{228, 228, 228};

// Dots of a cell in each direction. This decides the size of the picture.
int dots_a_cell(std::int64_t rows, std::int64_t columns) {
  return static_cast<int>(std::max<std::int64_t>(1, plot_size / std::max(rows, columns)));
}
int side(std::int64_t cells, int dots) {
  const auto length = cells * dots;
  if (length >= least_side) return static_cast<int>(length);
  return static_cast<int>((least_side + cells - 1) / cells * cells);
}

struct Place {
  int x = 0, y = 0, width = 0, height = 0;
};

struct AxisMark {
  int at;  // in dots from the beginning
  std::string text;
};

// Round indices, at distances that leave room for their texts.
std::vector<AxisMark> index_marks(const IndexAxis& axis, std::int64_t cells, int length,
                                  bool along) {
  const auto last = axis.start + (cells - 1) * axis.step;
  const auto room = along ? text_width(cat(last)) + 24 : text_height() + 12;
  const auto most = std::max(1, length / room);
  std::int64_t every = 1;
  for (std::int64_t decade = 1; (last - axis.start) / every >= most; decade *= 10) {
    for (const auto times : {1, 2, 5}) {
      every = times * decade;
      if ((last - axis.start) / every < most) break;
    }
  }
  std::vector<AxisMark> marks;
  for (auto index = (axis.start + every - 1) / every * every; index <= last; index += every) {
    const auto cell = static_cast<double>(index - axis.start) / static_cast<double>(axis.step);
    const auto at = (cell + 0.5) / static_cast<double>(cells) * length;
    marks.push_back({std::min(length - 1, static_cast<int>(at)), cat(index)});
  }
  return marks;
}

int widest(const std::vector<AxisMark>& marks) {
  int width = 0;
  for (const auto& mark : marks) width = std::max(width, text_width(mark.text));
  return width;
}

std::vector<AxisMark> scale_marks(const ColourScale& scale, int length) {
  std::vector<AxisMark> marks;
  for (const auto& tick : ticks(scale, std::max(2, length / 60))) {
    marks.push_back({static_cast<int>(std::lround((1 - tick.part) * (length - 1))), tick.text});
  }
  return marks;
}

int words_above(const Words& words) {
  const auto lines = 1 + (words.subtitle.empty() ? 0 : 1);
  return border + lines * (text_height() + line_gap) + line_gap;
}
int words_below(const Words& words) {
  return static_cast<int>(words.notes.size()) * (text_height() + line_gap) + border;
}

void write_words(Image& image, const Words& words) {
  const auto room = image.width() - 2 * border;
  auto y = border;
  draw_text(image, border, y, drawable(words.title, room), black);
  y += text_height() + line_gap;
  draw_text(image, border, y, drawable(words.subtitle, room), ink);
  y = image.height() - words_below(words);
  for (const auto& note : words.notes) {
    draw_text(image, border, y, drawable(note, room), ink);
    y += text_height() + line_gap;
  }
}

// The width that the texts need, but not more than a limit.
int total_width(int needed, const Words& words) {
  auto width = std::max(needed, least_width);
  const auto wish = [&](const std::string& text) {
    width = std::max(width, std::min(text_width(text) + 2 * border, 1000));
  };
  wish(words.title);
  wish(words.subtitle);
  for (const auto& note : words.notes) wish(note);
  return width;
}

void write_below(Image& image, const Place& plot, const std::vector<AxisMark>& marks,
                 const std::string& name) {
  const auto y = plot.y + plot.height + 1;
  for (const auto& mark : marks) {
    image.fill(plot.x + mark.at, y, 1, tick_length, black);
    draw_text(image, plot.x + mark.at - text_width(mark.text) / 2, y + tick_length + 4, mark.text);
  }
  const auto text = drawable(name, image.width() - 2 * border);
  draw_text(image, std::max(border, plot.x + (plot.width - text_width(text)) / 2),
            y + tick_length + 4 + text_height() + line_gap, text, ink);
}
constexpr int below_plot = tick_length + 4 + 2 * font_height * text_scale + 2 * line_gap + border;

void write_left(Image& image, const Place& plot, const std::vector<AxisMark>& marks,
                const std::string& name) {
  for (const auto& mark : marks) {
    image.fill(plot.x - 1 - tick_length, plot.y + mark.at, tick_length, 1, black);
    draw_text(image, plot.x - tick_length - 5 - text_width(mark.text),
              plot.y + mark.at - text_height() / 2 + 1, mark.text);
  }
  const auto text = drawable(name, std::max(plot.height, 200));
  draw_text_upwards(image, border, plot.y + (plot.height + text_width(text)) / 2, text, ink);
}

// Draws the bar of colours, or what replaces it if there is no number.
void draw_bar(Image& image, const Place& bar, const ColourScale& scale,
              const std::vector<AxisMark>& marks) {
  image.frame(bar.x, bar.y, bar.width, bar.height, black);
  if (!scale.has_numbers) return;
  for (int y = 0; y < bar.height; ++y) {
    image.fill(bar.x, bar.y + y, bar.width, 1,
               viridis(1 - y / static_cast<double>(bar.height - 1)));
  }
  for (const auto& mark : marks) {
    image.fill(bar.x + bar.width + 1, bar.y + mark.at, tick_length, 1, black);
    draw_text(image, bar.x + bar.width + tick_length + 5, bar.y + mark.at - text_height() / 2 + 1,
              mark.text);
  }
}

}  // namespace

Rgb cell_colour(const Plane& plane, std::size_t cell, int x, int y) {
  const auto mark = plane.marks.empty() ? Mark::number : plane.marks[cell];
  if (mark == Mark::same) return nothing_differs;
  const auto value = plane.values[cell];
  if (mark == Mark::no_number || std::isnan(value)) {
    return (x / grey_square + y / grey_square) % 2 ? dark_grey : light_grey;
  }
  const auto part = plane.scale.part_of(value);
  return part ? viridis(*part) : black;
}

Image draw_plane(const Plane& plane, const Words& words) {
  const auto dots = dots_a_cell(plane.rows, plane.columns);
  Place plot{0, 0, side(plane.columns, dots), side(plane.rows, dots)};
  Place bar{0, 0, bar_width, std::max(plot.height, least_bar)};
  const auto rows = index_marks(plane.row_axis, plane.rows, plot.height, false);
  const auto columns = index_marks(plane.column_axis, plane.columns, plot.width, true);
  const auto values =
      plane.scale.has_numbers ? scale_marks(plane.scale, bar.height) : std::vector<AxisMark>{};
  plot.y = bar.y = words_above(words);
  plot.x = border + text_height() + line_gap + widest(rows) + tick_length + 8;
  bar.x = plot.x + plot.width + 2 * border;
  const auto needed = bar.x + bar.width + tick_length + 8 + widest(values) + border;
  Image image(total_width(needed, words),
              std::max(plot.y + plot.height + below_plot, bar.y + bar.height + border) +
                  words_below(words));
  image.frame(plot.x, plot.y, plot.width, plot.height, black);
  for (int y = 0; y < plot.height; ++y) {
    const auto row = y * plane.rows / plot.height;
    for (int x = 0; x < plot.width; ++x) {
      const auto cell =
          static_cast<std::size_t>(row * plane.columns + x * plane.columns / plot.width);
      image.dot(plot.x + x, plot.y + y, cell_colour(plane, cell, x, y));
    }
  }
  write_left(image, plot, rows, plane.row_axis.name);
  write_below(image, plot, columns, plane.column_axis.name);
  draw_bar(image, bar, plane.scale, values);
  write_words(image, words);
  return image;
}

Image draw_curve(const Curve& curve, const Words& words) {
  const auto points = static_cast<std::int64_t>(curve.values.size());
  Place plot{0, words_above(words), curve_width, curve_height};
  const auto heights =
      curve.scale.has_numbers ? scale_marks(curve.scale, plot.height) : std::vector<AxisMark>{};
  const auto columns = index_marks(curve.axis, points, plot.width, true);
  plot.x = border + widest(heights) + tick_length + 8;
  Image image(total_width(plot.x + plot.width + 2 * border, words),
              plot.y + plot.height + below_plot + words_below(words));
  for (const auto& mark : heights) {
    image.fill(plot.x, plot.y + mark.at, plot.width, 1, grid_colour);
  }
  image.frame(plot.x, plot.y, plot.width, plot.height, black);
  const auto height = [&](double value) -> std::optional<int> {
    const auto part = curve.scale.part_of(value);
    if (!part) return std::nullopt;
    return static_cast<int>(std::lround((1 - std::clamp(*part, 0.0, 1.0)) * (plot.height - 1)));
  };
  const auto place = [&](std::int64_t i) {
    return plot.x + static_cast<int>((static_cast<double>(i) + 0.5) / static_cast<double>(points) *
                                     plot.width);
  };
  const auto stroke = [&](int x, int from, int to) {
    image.fill(x, plot.y + std::min(from, to), 2, std::abs(from - to) + 2, line_colour);
  };
  std::optional<int> before;
  for (std::int64_t i = 0; i < points; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto x = place(i);
    if (!curve.least.empty() && curve.least[at] <= curve.largest[at]) {
      const auto low = height(curve.least[at]), high = height(curve.largest[at]);
      if (high) stroke(x, low.value_or(plot.height - 1), *high);
    }
    const auto now = height(curve.values[at]);
    if (now && before) {
      const auto from = place(i - 1), width = std::max(1, x - from);
      for (int step = 0; step <= width; ++step) {  // a straight line to the next point
        const auto y = *before + (*now - *before) * step / width;
        const auto next = *before + (*now - *before) * std::min(step + 1, width) / width;
        stroke(from + step, y, next);
      }
    } else if (now) {
      stroke(x, *now, *now);
    }
    before = now;
  }
  write_left(image, plot, heights, "");
  write_below(image, plot, columns, curve.axis.name);
  write_words(image, words);
  return image;
}

}  // namespace cairn
