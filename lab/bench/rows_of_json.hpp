#pragma once
/// Seconds that several ways took in turns to do the same: printed, and as rows of JSON for
/// scripts/bench-report.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace cairn::bench {

inline double median(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("no repetition was measured");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The median ratio of pairs that are neighbours in time, and so share the machine's speed.
inline double median_ratio(const std::vector<double>& values, const std::vector<double>& beside) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / beside.at(i));
  return median(ratios);
}

/// "measure", "what", "np", "bytes", "repetitions", "min", "median", "max" in seconds, and "ratio"
/// to the row with which all are compared.
inline nlohmann::json row_of(const std::string& measure, const std::string& what, int np,
                             double bytes, const std::vector<double>& seconds,
                             const std::vector<double>& beside) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return {{"measure", measure},
          {"what", what},
          {"np", np},
          {"bytes", bytes},
          {"repetitions", seconds.size()},
          {"min", *least},
          {"median", median(seconds)},
          {"max", *most},
          {"ratio", median_ratio(seconds, beside)}};
}

/// Writes the rows to a file, unless the path is empty.
inline void write_rows(const std::string& path, const nlohmann::json& rows) {
  if (path.empty()) return;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write " + path);
  const auto text = rows.dump(1) + "\n";
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !whole) throw std::runtime_error("cannot write " + path);
}

}  // namespace cairn::bench
