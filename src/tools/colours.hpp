#pragma once
/// Colours for numbers.
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

/// The colour map viridis of Smith and van der Walt (2015): lightness grows evenly, also for people
/// who see fewer colours and in grey. From 0 to 1; what lies outside gets the colour of the end.
Rgb viridis(double part);

/// What the colours of a picture, or the height of a curve, stand for.
struct ColourScale {
  double low = 0, high = 1;
  bool is_log = false;
  bool has_width = true;    ///< false: all numbers were the same, and low and high lie around them
  bool has_numbers = true;  ///< false: there was none

  /// 0 at low, 1 at high, beyond that outside of the scale. Nothing for NaN, and for what has no
  /// logarithm.
  std::optional<double> part_of(double value) const;
};

/// The scale of these numbers. A range that is given counts in place of theirs. Only finite numbers
/// count, of which a logarithmic one takes those above 0.
ColourScale colour_scale(const std::vector<double>& values, bool is_log,
                         const std::optional<std::pair<double, double>>& range);

/// "A:B". Throws invalid_argument for what is no pair of finite numbers, for a range without width
/// or turned round, and of a logarithmic scale for one that does not lie above 0.
std::pair<double, double> parse_range(std::string_view text, bool is_log);

/// With so many digits, and no zeros at the end.
std::string number_text(double value, int digits);
/// Both ends of a scale, with as many digits as tell them apart, at least six.
std::pair<std::string, std::string> end_texts(const ColourScale&);

/// A number that stands beside an axis.
struct Tick {
  double part = 0;  ///< of the scale
  std::string text;
};
/// Round numbers, at most about `most`, ascending.
std::vector<Tick> ticks(const ColourScale&, int most);

}  // namespace cairn
