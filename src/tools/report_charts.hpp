#pragma once
/// The pictures of a report: SVG elements, whose colours come from the styles of the page.
#include <string>
#include <vector>

#include "tools/run_report.hpp"

namespace cairn {

/// One bar for each save: its height is the seconds until the commit was known, and a part of it
/// shows for how long the application was blocked. Below are bars for the bytes.
std::string chart_of_saves(const std::vector<ReportedSave>&);

/// One row for each save, one column for each rank or several neighbours: how long they wrote, or
/// how many bytes. Empty if no checkpoint has data of ranks.
enum class OfRanks { write_seconds, bytes };
std::string chart_of_ranks(const std::vector<ReportedSave>&, OfRanks);

/// Shows which save descends from which. The line from which a restart continues is drawn in bold.
std::string chart_of_lines(const RunReport&);

/// For instance "0.125 s", with as many digits as are meaningful.
std::string seconds_text(double seconds);

}  // namespace cairn
