#include "cli/values.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/elements.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "tools/colours.hpp"
#include "tools/element_numbers.hpp"
#include "tools/value_statistics.hpp"

namespace cairn::cli {
namespace {

constexpr int bins = 16, longest_bar = 40;

// The statistics of a tensor, or why there are none.
struct Measured {
  const StoredTensor* tensor = nullptr;
  std::optional<ValueStatistics> values;
  std::string problem;
  bool damaged = false;
};

std::string text_of(const StoredTensor& tensor, const std::optional<Extreme>& one) {
  if (!one) return "-";
  const bool is_complex = tensor.dtype == DType::complex64 || tensor.dtype == DType::complex128;
  return is_complex ? number_text(one->value, 9) : element_text(tensor.dtype, one->element.data());
}

Measured measure(const OpenCheckpoint& checkpoint, const StoredTensor& tensor) {
  Measured one;
  one.tensor = &tensor;
  if (!tensor.problem.empty()) {
    one.problem = cat("damaged: ", tensor.problem);
    one.damaged = true;
  } else if (!is_number(tensor.dtype)) {
    one.problem = tensor.dtype == DType::string ? "strings" : "not decoded";
  } else {
    ProgressBar bar(cat("read ", shown_key(tensor.key)));
    try {
      one.values = value_statistics(checkpoint, tensor, bar.callback());
    } catch (const Error& error) {
      if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
      one.problem = error.what();
      one.damaged = true;
    }
  }
  return one;
}

Json json_of(const StoredTensor& tensor, const std::optional<Extreme>& one) {
  if (!one) return Json();
  return {{"value", one->value}, {"text", text_of(tensor, one)}, {"index", one->index}};
}

Json json_of(const Measured& one) {
  Json out;
  add_key(out, one.tensor->key);
  if (!one.values) {
    out[one.damaged ? "problem" : "note"] = one.problem;
    return out;
  }
  const auto& values = *one.values;
  out["elements"] = values.elements;
  out["nan"] = values.nans;
  out["infinite"] = values.infinities;
  out["zero"] = values.zeros;
  if (one.tensor->gaps) out["held_by_no_rank"] = one.tensor->gaps->elements();
  out["min"] = json_of(*one.tensor, values.least);
  out["max"] = json_of(*one.tensor, values.largest);
  out["mean"] = values.finite > 0 ? Json(values.mean) : Json();
  out["deviation"] = values.finite > 0 ? Json(values.deviation) : Json();
  return out;
}

std::vector<std::string> row_of(const Measured& one) {
  const auto key = shown_key(one.tensor->key);
  if (!one.values) return {key, one.problem};
  const auto& values = *one.values;
  const auto number = [&](double value) {
    return values.finite > 0 ? number_text(value, 6) : std::string("-");
  };
  return {key,
          text_of(*one.tensor, values.least),
          text_of(*one.tensor, values.largest),
          number(values.mean),
          number(values.deviation),
          cat(values.nans),
          cat(values.infinities),
          cat(values.zeros),
          one.tensor->gaps
              ? cat(values.elements, ", ", one.tensor->gaps->elements(), " held by no rank")
              : cat(values.elements)};
}

std::string index_text(const Dims& index) {
  std::string text = "[";
  for (const auto i : index) text += cat(text.size() > 1 ? "," : "", i);
  return text + "]";
}

void print_one(const Measured& one, const Histogram& found) {
  const auto& tensor = *one.tensor;
  print_line(
      cat(shown_key(tensor.key), "  ", dtype_name(tensor.dtype), ' ', shape_text(tensor.shape)));
  if (!one.values) return print_line(cat("  ", one.problem));
  const auto& values = *one.values;
  const auto part = [&](std::int64_t count) { return cat(count, " of ", values.elements); };
  std::vector<std::vector<std::string>> rows;
  if (values.least) {
    rows.push_back(
        {"min", text_of(tensor, values.least), cat("at ", index_text(values.least->index))});
    rows.push_back(
        {"max", text_of(tensor, values.largest), cat("at ", index_text(values.largest->index))});
    rows.push_back({"mean", number_text(values.mean, 9)});
    rows.push_back({"deviation", number_text(values.deviation, 9)});
  }
  rows.push_back({"NaN", part(values.nans)});
  rows.push_back({"infinite", part(values.infinities)});
  rows.push_back({"zero", part(values.zeros)});
  if (tensor.gaps) {
    rows.push_back({"held by no rank", part(tensor.gaps->elements()),
                    cat("read as ", element_text(tensor.dtype, tensor.gaps->fill.data()))});
  }
  print_table(rows, "  ");
  if (found.counts.empty()) return;
  print_line("");
  rows.clear();
  const auto most = *std::max_element(found.counts.begin(), found.counts.end());
  const auto count = static_cast<double>(found.counts.size());
  // A bin of integers may hold one integer, which is shown; otherwise the beginning of the bin is.
  const bool is_each = is_integer(tensor.dtype) && found.low != values.least->value;
  for (std::size_t i = 0; i < found.counts.size(); ++i) {
    const auto part_of_range = (static_cast<double>(i) + (is_each ? 0.5 : 0)) / count;
    const auto at = found.low * (1 - part_of_range) + found.high * part_of_range;
    const auto length = static_cast<double>(found.counts[i]) / static_cast<double>(most);
    auto cells = static_cast<int>(std::lround(length * longest_bar));
    if (cells == 0 && found.counts[i] > 0) cells = 1;
    std::string bar;
    for (int c = 0; c < cells; ++c) bar += "\u2588";
    rows.push_back({number_text(at, 6), cat(found.counts[i]), bar});
  }
  print_table(rows, "  ", {0, 1});
}

}  // namespace

bool print_values(const Still& still, const OpenCheckpoint& checkpoint, const std::string& key,
                  bool json) {
  if (!key.empty()) {
    const auto& tensor = require_tensor(*checkpoint, key);
    const auto one = measure(checkpoint, tensor);
    if (one.damaged) still.require();
    Histogram found;
    if (one.values && one.values->finite > 0) {
      ProgressBar bar(cat("count ", shown_key(tensor.key)));
      found = histogram(checkpoint, tensor, *one.values, bins, bar.callback());
    }
    if (!json) {
      print_one(one, found);
      return one.damaged;
    }
    auto out = json_of(one);
    if (!found.counts.empty()) {
      out["histogram"] = {{"low", found.low}, {"high", found.high}, {"counts", found.counts}};
    }
    print_json(out);
    return one.damaged;
  }
  bool damaged = false;
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "min", "max", "mean", "deviation", "NaN", "infinite", "zero", "elements"}};
  auto list = Json::array();
  for (const auto& tensor : checkpoint->tensors) {
    const auto one = measure(checkpoint, tensor);
    damaged = damaged || one.damaged;
    if (json) {
      list.push_back(json_of(one));
    } else {
      rows.push_back(row_of(one));
    }
  }
  if (damaged) still.require();
  if (json) {
    print_json({{"prefix", checkpoint->prefix}, {"tensors", list}});
  } else {
    print_line(checkpoint->prefix);
    print_table(rows, "  ", {1, 2, 3, 4, 5, 6, 7, 8});
  }
  return damaged;
}

}  // namespace cairn::cli
