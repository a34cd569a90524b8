#pragma once
/// Turns numbers into colours.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

struct Rgb {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Rgb&) const = default;
};

/// The colour map viridis of Smith and van der Walt (2015): its lightness grows evenly, so it also
/// works in grey and for the colour-blind. `part` goes from 0 to 1; other values get the colour of
/// the nearer end.
Rgb viridis(double part);

/// The numbers that the colours of a picture, or the heights of a curve, stand for.
struct ColourScale {
  double low = 0, high = 1;
  bool is_log = false;
  bool has_width = true;    ///< false: all numbers were equal; low and high lie around them
  bool has_numbers = true;  ///< false: there was no number

  /// 0 at low, 1 at high, and less or more outside of the scale. Nothing for NaN, and on a
  /// logarithmic scale for numbers without a logarithm.
  std::optional<double> part_of(double value) const;
};

/// The scale of these numbers. If a range is given, it is used instead of theirs. Only finite
/// numbers count; for a logarithmic scale only those above 0.
ColourScale colour_scale(const std::vector<double>& values, bool is_log,
                         const std::optional<std::pair<double, double>>& range);

/// Parses "A:B". Throws invalid_argument if it is not a pair of finite numbers, or if A is not
/// below B; for a logarithmic scale also if A is not above 0.
std::pair<double, double> parse_range(std::string_view text, bool is_log);

/// The number with at most so many digits, and without zeros at the end.
std::string number_text(double value, int digits);
/// Both ends of a scale, with at least six digits, or as many as tell them apart.
std::pair<std::string, std::string> end_texts(const ColourScale&);

/// A number beside an axis.
struct Tick {
  double part = 0;  ///< its place on the scale, 0 to 1
  std::string text;
};
/// Round numbers for an axis, about `most` at most, ascending.
std::vector<Tick> ticks(const ColourScale&, int most);

}  // namespace cairn
