#include "tools/selection.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(std::string_view text, const Dims& shape, std::string why) {
  throw Error(Code::invalid_argument,
              cat("'", text, "' selects nothing of a tensor of shape ", shape_text(shape)),
              std::move(why),
              "Give an index or a range a dimension, as in NumPy: --slice 3,:,10:20 or ...,0");
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(at);
    auto part = text.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

// Parses one entry, for a dimension of this extent. `complain` must not return.
template <class Complain>
Indices parse_entry(std::string_view entry, std::int64_t extent, const Complain& complain) {
  const auto parts = split(entry, ':');
  if (parts.size() > 3) complain(cat("'", entry, "' has more than start, stop and step"));
  std::optional<std::int64_t> values[3];
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() && parts.size() > 1) continue;
    values[i] = number(parts[i]);
    if (!values[i]) complain(cat("'", parts[i], "' is no whole number"));
  }
  if (parts.size() == 1) {
    const auto index = *values[0] < 0 ? *values[0] + extent : *values[0];
    if (index < 0 || index >= extent) {
      complain(cat("index ", *values[0], " is outside of a dimension of ", extent));
    }
    return {index, 1, 1, true};
  }
  const auto within = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
  };
  const auto step = values[2].value_or(1);
  if (step < 1) complain(cat("the step ", step, " is below 1: pictures are not turned round"));
  const auto start = within(values[0].value_or(0)), stop = within(values[1].value_or(extent));
  if (start >= stop) complain(cat("'", entry, "' is empty in a dimension of ", extent));
  return {start, (stop - start - 1) / step + 1, step, false};
}

}  // namespace

Selection parse_selection(std::string_view text, const Dims& shape) {
  const auto complain = [&](std::string why) { refuse(text, shape, std::move(why)); };
  auto entries = split(text, ',');
  if (text.find_first_not_of(' ') == text.npos) entries.clear();
  const auto dots = std::find(entries.begin(), entries.end(), "...");
  auto given = entries.size() - (dots == entries.end() ? 0 : 1);
  if (given > shape.size()) {
    complain(cat("it has ", given, " entries for ", shape.size(), " dimensions"));
  }
  if (dots != entries.end() && std::find(dots + 1, entries.end(), "...") != entries.end()) {
    complain("it has more than one '...'");
  }
  const auto before = static_cast<std::size_t>(dots - entries.begin());
  Selection selection;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::string_view entry = ":";
    if (d < std::min(before, given)) {
      entry = entries[d];
    } else if (dots != entries.end() && d >= shape.size() - (given - before)) {
      entry = entries[entries.size() - (shape.size() - d)];
    }
    selection.push_back(parse_entry(entry, shape[d], complain));
  }
  return selection;
}

Shown show_at_most(Selection& selection, std::size_t most) {
  Shown shown;
  for (std::size_t d = 0; d < selection.size(); ++d) {
    if (!selection[d].dropped && selection[d].count > 1) shown.dimensions.push_back(d);
  }
  while (shown.dimensions.size() > most) {
    const auto d = shown.dimensions.front();
    auto& indices = selection[d];
    indices = {indices.start + indices.count / 2 * indices.step, 1, 1, true};
    shown.fixed.push_back(d);
    shown.dimensions.erase(shown.dimensions.begin());
  }
  return shown;
}

std::string selection_text(const Selection& selection, const Dims& shape) {
  std::string text;
  for (std::size_t d = 0; d < selection.size(); ++d) {
    const auto& one = selection[d];
    if (d > 0) text += ',';
    if (one.count == 1) {
      text += cat(one.start);
      continue;
    }
    if (one.start > 0) text += cat(one.start);
    text += ':';
    if (one.last() + one.step < shape[d]) text += cat(one.last() + 1);
    if (one.step > 1) text += cat(':', one.step);
  }
  return text;
}

Box bounding_box(const Selection& selection) {
  Box box;
  for (const auto& one : selection) {
    box.start.push_back(one.start);
    box.extent.push_back(one.last() - one.start + 1);
  }
  return box;
}

}  // namespace cairn
