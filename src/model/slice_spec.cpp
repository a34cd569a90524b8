// TensorFlow's slice specs (cairn/box.hpp): full extents, then start and length of each dimension.
#include <charconv>

#include "base/text.hpp"
#include "cairn/box.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

[[noreturn]] void malformed(std::string_view text, std::string_view reason) {
  throw Error(Code::invalid_argument, cat("slice spec \"", text, "\" is malformed"),
              std::string(reason),
              "Write full extents, then start,length or - of each dimension, "
              "such as \"40 30 0,20:-\".");
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

// The last word has the slices, separated by ":"; all words before it are extents. An empty text is
// the spec that states nothing.
SliceSpec parse_slice_spec(std::string_view text) {
  SliceSpec spec;
  if (text.empty()) {
    spec.unstated = true;
    return spec;
  }
  const auto number = [&](std::string_view digits) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
      malformed(text, cat("'", digits, "' is no number of 0 to 2^63-1"));
    }
    return value;
  };
  auto words = split(text, ' ');
  const auto slices = words.back();
  words.pop_back();
  for (const auto word : words) spec.shape.push_back(number(word));
  // Without extents and slices there is nothing to split: a scalar has no dimension to write.
  const auto parts =
      spec.shape.empty() && slices.empty() ? std::vector<std::string_view>{} : split(slices, ':');
  if (parts.size() != spec.shape.size()) {
    malformed(text, cat(spec.shape.size(), " extents but ", parts.size(), " slices"));
  }
  for (std::size_t d = 0; d < parts.size(); ++d) {
    spec.dash.push_back(parts[d] == "-");
    if (spec.dash[d]) {
      spec.box.start.push_back(0);
      spec.box.extent.push_back(spec.shape[d]);
      continue;
    }
    const auto pair = split(parts[d], ',');
    if (pair.size() != 2) malformed(text, cat("'", parts[d], "' is neither start,length nor -"));
    spec.box.start.push_back(number(pair[0]));
    spec.box.extent.push_back(number(pair[1]));
    if (spec.box.start[d] > spec.shape[d] ||
        spec.box.extent[d] > spec.shape[d] - spec.box.start[d]) {
      throw Error(Code::invalid_argument,
                  cat("slice \"", text, "\" is out of range in dimension ", d),
                  cat("it begins at ", spec.box.start[d], " and has ", spec.box.extent[d],
                      " of the ", spec.shape[d], " indices there are"));
    }
  }
  // Throws if the shape has too many elements or dimensions.
  element_count(spec.shape);
  return spec;
}

std::string to_string(const SliceSpec& spec) {
  if (spec.unstated) return "";
  std::string text;
  for (const auto extent : spec.shape) text += cat(extent, ' ');
  for (std::size_t d = 0; d < spec.box.rank(); ++d) {
    if (d) text += ':';
    const bool dash = d < spec.dash.size() && spec.dash[d];
    text += dash ? "-" : cat(spec.box.start[d], ',', spec.box.extent[d]);
  }
  return text;
}

std::string slice_spec_text(const Dims& shape, const Box& box) {
  return to_string(SliceSpec{shape, box, std::vector<bool>(shape.size(), false), false});
}

}  // namespace cairn
