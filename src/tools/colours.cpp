#include "tools/colours.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// Points of viridis at even distances.
constexpr std::array<std::uint32_t, 33> viridis_points = {
    0x440154, 0x470d60, 0x48186a, 0x482374, 0x472d7b, 0x453681, 0x424086, 0x3f4989, 0x3b528b,
    0x375a8d, 0x33638d, 0x2f6a8e, 0x2c728e, 0x297a8e, 0x26818e, 0x23898e, 0x21908c, 0x1f988b,
    0x1f9f88, 0x21a685, 0x28ae80, 0x31b57b, 0x3ebc74, 0x4cc26c, 0x5dc963, 0x6ece58, 0x82d34c,
    0x96d83f, 0xabdc32, 0xc0df24, 0xd5e21a, 0xeae51a, 0xfde725};

std::uint8_t mix(std::uint32_t a, std::uint32_t b, int shift, double part) {
  const auto from = static_cast<double>(a >> shift & 255),
             to = static_cast<double>(b >> shift & 255);
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * part));
}

// The number of digits that numbers of this size need to differ from those one step away.
int digits_for(double size, double step) {
  return static_cast<int>(std::floor(std::log10(size))) -
         static_cast<int>(std::floor(std::log10(step))) + 1;
}

void linear_ticks(const ColourScale& scale, int most, std::vector<Tick>& out) {
  const auto rough = (scale.high / most - scale.low / most);
  const auto decade = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * decade;
  for (const double times : {5.0, 2.0, 1.0}) {
    if (times * decade >= rough) step = times * decade;
  }
  if (!(step > 0) || !std::isfinite(step)) return;
  const auto size = std::max(std::abs(scale.low), std::abs(scale.high));
  const auto first = std::ceil(scale.low / step - 1e-9),
             last = std::floor(scale.high / step + 1e-9);
  for (auto i = first; i <= last; ++i) {
    const auto value = i == 0 ? 0.0 : i * step;
    const auto part = scale.part_of(value);
    if (!part || !std::isfinite(value)) continue;
    const auto digits =
        value == 0 ? 1 : std::max(1, digits_for(std::min(size, std::abs(value)), step));
    out.push_back({std::clamp(*part, 0.0, 1.0), number_text(value, digits)});
    if (i + 1 == i) return;  // doubles of this size cannot tell two steps apart
  }
}

void log_ticks(const ColourScale& scale, int most, std::vector<Tick>& out) {
  const auto first = static_cast<int>(std::floor(std::log10(scale.low)));
  const auto last = static_cast<int>(std::floor(std::log10(scale.high)));
  const auto every = std::max(1, (last - first) / std::max(1, most - 1));
  const bool few = last - first < 3;
  for (int decade = first; decade <= last; decade += every) {
    for (const double times : {1.0, 2.0, 5.0}) {
      if (times > 1 && !few) break;
      const auto value = times * std::pow(10.0, decade);
      if (value < scale.low * (1 - 1e-9) || value > scale.high * (1 + 1e-9)) continue;
      if (const auto part = scale.part_of(value)) {
        out.push_back({std::clamp(*part, 0.0, 1.0), number_text(value, 3)});
      }
    }
  }
}

}  // namespace

Rgb viridis(double part) {
  const auto at = std::clamp(part, 0.0, 1.0) * (viridis_points.size() - 1);
  const auto first = std::min(static_cast<std::size_t>(at), viridis_points.size() - 2);
  const auto a = viridis_points[first], b = viridis_points[first + 1];
  const auto between = at - static_cast<double>(first);
  return {mix(a, b, 16, between), mix(a, b, 8, between), mix(a, b, 0, between)};
}

std::optional<double> ColourScale::part_of(double value) const {
  if (std::isnan(value) || (is_log && !(value > 0))) return std::nullopt;
  if (std::isinf(value)) return value > 0 ? 2.0 : -1.0;
  if (is_log) {
    const auto bottom = std::log(low), top = std::log(high);
    return (std::log(value) - bottom) / (top - bottom);
  }
  // Halves, since high - low may be more than a double holds.
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

ColourScale colour_scale(const std::vector<double>& values, bool is_log,
                         const std::optional<std::pair<double, double>>& range) {
  ColourScale scale;
  scale.is_log = is_log;
  if (range) {
    std::tie(scale.low, scale.high) = *range;
    return scale;
  }
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto value : values) {
    if (!std::isfinite(value) || (is_log && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  scale.has_numbers = low <= high;
  if (!scale.has_numbers) low = high = 1;
  scale.has_width = low < high;
  if (!scale.has_width) {
    const auto value = low;
    const auto apart = std::max(std::abs(value) / 2, std::numeric_limits<double>::min());
    low = is_log ? value / 2 : value == 0 ? -1 : value - apart;
    high = is_log ? value * 2 : value == 0 ? 1 : value + apart;
    high = std::min(high, std::numeric_limits<double>::max());
    low = std::max(low, is_log ? std::numeric_limits<double>::denorm_min()
                               : std::numeric_limits<double>::lowest());
  }
  scale.low = low;
  scale.high = high;
  return scale;
}

std::pair<double, double> parse_range(std::string_view text, bool is_log) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument, cat("--range ", text, " is no range of numbers"), why,
                "Give the numbers of the first and the last colour: --range 0:1.5");
  };
  const auto number = [&](std::string_view part) {
    double value = 0;
    const auto end = part.data() + part.size();
    const auto result = std::from_chars(part.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end || !std::isfinite(value)) {
      refuse(cat("'", part, "' is no finite number"));
    }
    return value;
  };
  const auto colon = text.find(':');
  if (colon == text.npos) refuse("it has no ':'");
  const std::pair range(number(text.substr(0, colon)), number(text.substr(colon + 1)));
  if (!(range.first < range.second)) refuse("the first number is not below the second");
  if (is_log && range.first <= 0) refuse("a logarithmic scale lies above 0");
  return range;
}

std::string number_text(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general,
                                 std::clamp(digits, 1, 17));
  return {text, end.ptr};
}

std::pair<std::string, std::string> end_texts(const ColourScale& scale) {
  const auto size = std::max(std::abs(scale.low), std::abs(scale.high));
  const auto digits = std::max(6, digits_for(size, scale.high - scale.low) + 2);
  return {number_text(scale.low, digits), number_text(scale.high, digits)};
}

std::vector<Tick> ticks(const ColourScale& scale, int most) {
  std::vector<Tick> found;
  if (scale.is_log) log_ticks(scale, most, found);
  if (found.size() < 2) {
    found.clear();
    linear_ticks(scale, most, found);
  }
  return found;
}

}  // namespace cairn
