#pragma once
/// What the terminal can show, and pictures made of its characters.
#include <string>

#include "tools/draw.hpp"

namespace cairn::cli {

enum class Colours { none, palette, full };

struct Terminal {
  bool is_there = false;  ///< standard output is one
  int columns = 80, rows = 24;
  Colours colours = Colours::none;
};

/// By the variables NO_COLOR, COLORTERM and TERM.
Terminal terminal();

/// Two rows of cells in one line of half blocks; without colours one row in a line, of denser
/// characters for larger numbers. NaN is '?', and of a comparison what is the same '.'.
std::string plane_text(const Plane&, Colours);
/// A cell a column.
std::string curve_text(const Curve&, int rows);
/// The colours from the first to the last, between their numbers.
std::string scale_text(const ColourScale&, Colours, int columns);

}  // namespace cairn::cli
