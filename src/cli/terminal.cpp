#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::string_view densities = " .:-=+*#%@";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Colours colours_of(bool is_terminal) {
  if (!is_terminal || !variable("NO_COLOR").empty()) return Colours::none;
  const auto promise = variable("COLORTERM"), kind = variable("TERM");
  if (promise == "truecolor" || promise == "24bit" || kind.find("direct") != kind.npos) {
    return Colours::full;
  }
  return kind.find("256color") != kind.npos ? Colours::palette : Colours::none;
}

// The nearest of the 6 x 6 x 6 colours of the palette.
int palette_number(Rgb colour) {
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
}

std::string paint(Rgb colour, bool foreground, Colours colours) {
  const int selector = foreground ? 38 : 48;
  if (colours == Colours::palette)
    return cat("\x1b[", selector, ";5;", palette_number(colour), 'm');
  return cat("\x1b[", selector, ";2;", int{colour.red}, ';', int{colour.green}, ';',
             int{colour.blue}, 'm');
}

char density(const Plane& plane, std::size_t cell) {
  const auto mark = plane.marks.empty() ? Mark::number : plane.marks[cell];
  if (mark == Mark::same) return '.';
  if (mark == Mark::no_number || std::isnan(plane.values[cell])) return '?';
  const auto part = plane.scale.part_of(plane.values[cell]);
  if (!part) return '!';
  const auto last = static_cast<double>(densities.size() - 1);
  return densities[static_cast<std::size_t>(std::lround(std::clamp(*part, 0.0, 1.0) * last))];
}

}  // namespace

Terminal terminal() {
  Terminal found;
  winsize size{};
  found.is_there = ::isatty(1) == 1;
  if (found.is_there && ::ioctl(1, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) found.columns = size.ws_col;
    if (size.ws_row > 0) found.rows = size.ws_row;
  }
  found.colours = colours_of(found.is_there);
  return found;
}

std::string plane_text(const Plane& plane, Colours colours) {
  std::string out;
  const auto cell = [&](std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * plane.columns + column);
  };
  if (colours == Colours::none) {
    for (std::int64_t row = 0; row < plane.rows; ++row) {
      for (std::int64_t column = 0; column < plane.columns; ++column) {
        out += density(plane, cell(row, column));
      }
      out += '\n';
    }
    return out;
  }
  for (std::int64_t row = 0; row < plane.rows; row += 2) {
    std::string before;
    for (std::int64_t column = 0; column < plane.columns; ++column) {
      // Four dots make one square of the pattern for NaN, and a cell is one square.
      const auto at = [&](std::int64_t which) {
        return cell_colour(plane, cell(which, column), static_cast<int>(4 * column),
                           static_cast<int>(4 * which));
      };
      auto paints = paint(at(row), true, colours);
      if (row + 1 < plane.rows) paints += paint(at(row + 1), false, colours);
      if (paints != before) out += before = paints;
      out += "\u2580";
    }
    out += "\x1b[0m\n";
  }
  return out;
}

// One character that shows two dots, one above the other.
static const char* block_of(bool upper, bool lower) {
  if (upper) return lower ? "\u2588" : "\u2580";
  return lower ? "\u2584" : " ";
}

std::string curve_text(const Curve& curve, int rows) {
  const int dots = 2 * rows;
  const auto columns = curve.values.size();
  std::vector<char> set(columns * static_cast<std::size_t>(dots), 0);
  const auto height = [&](double value) -> int {  // in lines from the top; -1: there is no point
    const auto part = curve.scale.part_of(value);
    if (!part) return -1;
    return static_cast<int>(std::lround((1 - std::clamp(*part, 0.0, 1.0)) * (dots - 1)));
  };
  int before = -1;
  for (std::size_t i = 0; i < columns; ++i) {
    const auto fill = [&](int from, int to) {
      for (int y = std::min(from, to); y <= std::max(from, to); ++y) {
        set[i * static_cast<std::size_t>(dots) + static_cast<std::size_t>(y)] = 1;
      }
    };
    if (!curve.least.empty() && curve.least[i] <= curve.largest[i]) {
      const auto low = height(curve.least[i]), high = height(curve.largest[i]);
      if (high >= 0) fill(low < 0 ? dots - 1 : low, high);
    }
    const auto now = height(curve.values[i]);
    if (now >= 0) {
      // Draws up to the height of the previous point, so that steep parts have no gaps.
      const auto reach = before < 0 ? now : before + (now > before ? 1 : now < before ? -1 : 0);
      fill(now, reach);
    }
    before = now;
  }
  std::string out;
  for (int row = 0; row < rows; ++row) {
    std::string line;
    for (std::size_t i = 0; i < columns; ++i) {
      const auto* at = &set[i * static_cast<std::size_t>(dots) + static_cast<std::size_t>(2 * row)];
      line += block_of(at[0], at[1]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string scale_text(const ColourScale& scale, Colours colours, int columns) {
  if (!scale.has_numbers) return "";
  const auto [low, high] = end_texts(scale);
  const auto room = columns - static_cast<int>(low.size() + high.size()) - 2;
  const int width = std::clamp(room, 4, 40);
  std::string bar;
  for (int i = 0; i < width; ++i) {
    const double part = i / static_cast<double>(width - 1);
    if (colours == Colours::none) {
      bar += densities[static_cast<std::size_t>(std::lround(part * (densities.size() - 1.0)))];
    } else {
      bar += paint(viridis(part), true, colours) + "\u2588";
    }
  }
  if (colours != Colours::none) bar += "\x1b[0m";
  return cat(low, ' ', bar, ' ', high, scale.is_log ? "  (logarithmic)" : "");
}

}  // namespace cairn::cli
