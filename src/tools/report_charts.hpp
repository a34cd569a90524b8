#pragma once
/// The pictures of a report: SVG elements that take their colours from the page's styles.
#include <string>
#include <vector>

#include "tools/run_report.hpp"

namespace cairn {

/// A bar a save, as high as its seconds until the commit was known; of these, those in which the
/// application was held. Below, a bar for its bytes.
std::string chart_of_saves(const std::vector<ReportedSave>&);

/// A row a save, a column a rank or several neighbours: how long they wrote, or how many bytes.
/// Empty where no checkpoint tells of ranks.
enum class OfRanks { write_seconds, bytes };
std::string chart_of_ranks(const std::vector<ReportedSave>&, OfRanks);

/// Which save went on from which. The line that a restart goes on with is drawn strong.
std::string chart_of_lines(const RunReport&);

/// "0.125 s", with as many digits as say something.
std::string seconds_text(double seconds);

}  // namespace cairn
