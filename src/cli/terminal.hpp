#pragma once
/// What the terminal can show, and pictures made of its characters.
#include <string>

#include "tools/draw.hpp"

namespace cairn::cli {

enum class Colours { none, palette, full };

struct Terminal {
  bool is_there = false;  ///< standard output is a terminal
  int columns = 80, rows = 24;
  Colours colours = Colours::none;
};

/// Decides by the variables NO_COLOR, COLORTERM and TERM.
Terminal terminal();

/// Shows two rows of cells in one line of half blocks. Without colours, a line has one row of
/// cells, and larger numbers get denser characters. NaN is '?'; in a comparison, '.' means equal.
std::string plane_text(const Plane&, Colours);
/// Draws one column for each cell.
std::string curve_text(const Curve&, int rows);
/// The colours of the scale from first to last, between its two numbers.
std::string scale_text(const ColourScale&, Colours, int columns);

}  // namespace cairn::cli
