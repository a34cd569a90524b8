#include "tools/report_charts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/markup.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

constexpr double left = 64, right = 12, top = 10;

std::string number(double value) { return fixed_text(value, 2); }

std::string open_svg(double width, double height, const std::string& says) {
  return cat("<svg role=\"img\" aria-label=\"", escaped(says), "\" width=\"", number(width),
             "\" height=\"", number(height), "\" viewBox=\"0 0 ", number(width), ' ',
             number(height), "\">\n");
}

std::string rectangle(double x, double y, double width, double height, const std::string& kind,
                      const std::string& says) {
  return cat("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(width),
             "\" height=\"", number(height), "\" class=\"", kind, "\"><title>", escaped(says),
             "</title></rect>\n");
}

std::string words(double x, double y, const char* anchor, const std::string& text) {
  return cat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">",
             escaped(text), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return cat("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2), "\" y2=\"",
             number(y2), "\" class=\"", kind, "\"/>\n");
}

// The next round number that is not smaller.
double round_up(double value) {
  if (!(value > 0)) return 1;
  const double unit = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (value <= factor * unit) return factor * unit;
  }
  return 10 * unit;
}

std::string step_text(const ReportedSave& one) {
  return cat("step ", one.save.step, one.entry ? "" : " (gone)");
}

// The number of places from one mark to the next that keeps their texts apart.
std::size_t stride_of_marks(double apart) {
  constexpr double text_width = 44;
  return static_cast<std::size_t>(std::ceil(text_width / apart));
}

std::string axis(double height, double most, const std::string& most_text) {
  const auto bottom = top + height;
  return cat(line(left, bottom, left, top, "axis"), words(left - 6, top + 10, "end", most_text),
             words(left - 6, bottom, "end", most > 0 ? "0" : ""));
}

std::string bar_text(const ReportedSave& one) {
  const auto& save = one.save;
  return cat(step_text(one), ": ", bytes_text(static_cast<double>(save.bytes)), ", ",
             save.asynchronous ? "asynchronous" : "blocking", ", held the application ",
             seconds_text(save.blocked_seconds), ", committed after ",
             seconds_text(save.total_seconds));
}

}  // namespace

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size > 0 && size < 1e-3) return fixed_text(seconds * 1e6, 0) + " µs";
  if (size > 0 && size < 1) {
    return fixed_text(seconds * 1e3, size < 0.01 ? 2 : size < 0.1 ? 1 : 0) + " ms";
  }
  if (size < 120) return fixed_text(seconds, size < 10 ? 2 : 1) + " s";
  if (size < 7200) return fixed_text(seconds / 60, 1) + " min";
  return fixed_text(seconds / 3600, 1) + " h";
}

std::string chart_of_saves(const std::vector<ReportedSave>& saves) {
  constexpr double bar = 14, high = 160, low = 60, between = 34;
  double most_seconds = 0, most_bytes = 0;
  for (const auto& [save, entry, disk, statistics, decision] : saves) {
    most_seconds = std::max({most_seconds, save.total_seconds, save.blocked_seconds});
    most_bytes = std::max(most_bytes, static_cast<double>(save.bytes));
  }
  most_seconds = round_up(most_seconds);
  const double width =
      left + right + bar * static_cast<double>(std::max<std::size_t>(saves.size(), 12));
  const double second = top + high + between;
  std::string out = open_svg(width, second + low + 20, "seconds and bytes of each save");
  out += axis(high, most_seconds, seconds_text(most_seconds));
  std::string bytes = cat("<g transform=\"translate(0 ", number(high + between), ")\">\n",
                          axis(low, most_bytes, bytes_text(most_bytes)));
  for (std::size_t i = 0; i < saves.size(); ++i) {
    const auto& save = saves[i].save;
    const double x = left + 2 + bar * static_cast<double>(i), w = bar - 3;
    const auto says = bar_text(saves[i]);
    const double total = save.total_seconds / most_seconds * high;
    const double held = std::min(save.blocked_seconds, save.total_seconds) / most_seconds * high;
    const std::string gone = saves[i].entry ? "" : " gone";
    out += rectangle(x, top + high - total, w, total - held, "rest" + gone, says);
    out += rectangle(x, top + high - held, w, held, "held" + gone, says);
    const double size = most_bytes > 0 ? static_cast<double>(save.bytes) / most_bytes * low : 0;
    bytes += rectangle(x, top + low - size, w, size, "bytes" + gone, says);
    if (i % stride_of_marks(bar) == 0) {
      out += words(x + w / 2, top + high + 16, "middle", cat(save.step));
    }
  }
  return out + bytes + "</g>\n</svg>\n";
}

// The newest saves that say what each rank wrote.
static std::vector<const ReportedSave*> with_shares(const std::vector<ReportedSave>& saves,
                                                    std::size_t most) {
  std::vector<const ReportedSave*> rows;
  for (const auto& one : saves) {
    if (one.statistics && !one.statistics->shares.empty()) rows.push_back(&one);
  }
  if (rows.size() > most) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(most));
  return rows;
}

std::string chart_of_ranks(const std::vector<ReportedSave>& saves, OfRanks what) {
  constexpr double height = 16;
  constexpr std::size_t most_rows = 40;
  const auto rows = with_shares(saves, most_rows);
  double most = 0;
  std::size_t columns = 0;
  const auto value = [&](const RankShare& share) {
    return what == OfRanks::bytes ? static_cast<double>(share.bytes) : share.write_seconds;
  };
  const auto text = [&](double of) {
    return what == OfRanks::bytes ? bytes_text(of) : seconds_text(of);
  };
  for (const auto* row : rows) {
    columns = std::max(columns, row->statistics->shares.size());
    for (const auto& share : row->statistics->shares) most = std::max(most, value(share));
  }
  if (rows.empty()) return "";
  const double cell = std::clamp(640.0 / static_cast<double>(columns), 3.0, 28.0);
  const double legend = left + cell * static_cast<double>(columns) + 12;
  const double width = legend + 190;
  std::string out = open_svg(width, top + height * static_cast<double>(rows.size()) + 26,
                             what == OfRanks::bytes ? "bytes of ranks" : "write times of ranks");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto& shares = rows[r]->statistics->shares;
    const int each = std::max<int>(1, (rows[r]->save.ranks + static_cast<int>(shares.size()) - 1) /
                                          static_cast<int>(shares.size()));
    const double y = top + height * static_cast<double>(r);
    out += words(left - 6, y + 12, "end", cat(rows[r]->save.step));
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const int first = static_cast<int>(i) * each, last = first + each - 1;
      const auto who = each == 1 ? cat("rank ", first) : cat("ranks ", first, " to ", last);
      const double of = value(shares[i]);
      out += cat("<rect x=\"", number(left + cell * static_cast<double>(i)), "\" y=\"", number(y),
                 "\" width=\"", number(cell - (cell > 6 ? 1 : 0)), "\" height=\"",
                 number(height - 1), "\" class=\"heat\" fill-opacity=\"",
                 number(most > 0 ? 0.06 + 0.94 * of / most : 0.06), "\"><title>",
                 escaped(cat(step_text(*rows[r]), ", ", who, ": ", text(of))), "</title></rect>\n");
    }
  }
  const double y = top + height * static_cast<double>(rows.size()) + 18;
  out += words(left, y, "start", "rank 0 …");
  out += words(legend, top + 12, "start", cat("full colour: ", text(most)));
  return out + "</svg>\n";
}

namespace {

// The row in which each save is drawn. The line from which a restart continues is at the top.
struct Lanes {
  std::map<std::int64_t, int> of;  // row, by sequence
  int count = 0;

  explicit Lanes(const RunReport& report) {
    std::map<std::int64_t, const ReportedSave*> by_sequence;
    for (const auto& one : report.saves) {
      if (one.save.sequence > 0) by_sequence[one.save.sequence] = &one;
    }
    const auto follow = [&](std::int64_t from) {
      bool any = false;
      for (auto at = by_sequence.find(from); at != by_sequence.end() && !of.count(at->first);
           at = by_sequence.find(at->second->save.parent)) {
        of[at->first] = count;
        any = true;
      }
      count += any;
    };
    follow(report.newest);
    for (auto at = by_sequence.rbegin(); at != by_sequence.rend(); ++at) follow(at->first);
  }
};

std::string save_dot(const ReportedSave& one, double x, double y, bool main, bool newest) {
  std::string kind = main ? "save strong" : "save";
  if (!one.entry) kind += " gone";
  if (one.entry && !one.entry->damage.empty()) kind += " bad";
  return cat("<circle cx=\"", number(x), "\" cy=\"", number(y), "\" r=\"", newest ? "7" : "5",
             "\" class=\"", kind, "\"><title>",
             escaped(cat(step_text(one), ", save ", one.save.sequence)), "</title></circle>\n");
}

}  // namespace

std::string chart_of_lines(const RunReport& report) {
  constexpr double apart = 26, lane = 24;
  const Lanes lanes(report);
  std::map<std::int64_t, std::pair<double, double>> places;
  std::size_t drawn = 0;
  for (const auto& one : report.saves) {
    const auto at = lanes.of.find(one.save.sequence);
    if (at == lanes.of.end()) continue;
    places[at->first] = {left + apart * static_cast<double>(drawn++),
                         top + 8 + lane * static_cast<double>(at->second)};
  }
  if (places.empty()) return "";
  const double bottom = top + lane * static_cast<double>(lanes.count) + 18;
  std::string out = open_svg(left + apart * static_cast<double>(drawn) + right, bottom,
                             "which save followed which");
  std::string nodes;
  std::size_t number_of = 0;
  for (const auto& one : report.saves) {
    const auto at = places.find(one.save.sequence);
    if (at == places.end()) continue;
    const auto [x, y] = at->second;
    const bool main = lanes.of.at(one.save.sequence) == 0 && report.newest >= 0;
    const auto parent = places.find(one.save.parent);
    if (parent != places.end() && parent->first < at->first) {
      const auto [px, py] = parent->second;
      out += cat("<path d=\"M", number(px), ' ', number(py), " C", number(px + apart / 2), ' ',
                 number(y), ' ', number(px), ' ', number(y), ' ', number(x), ' ', number(y),
                 "\" class=\"", main ? "way strong" : "way", "\"/>\n");
    }
    nodes += save_dot(one, x, y, main, one.save.sequence == report.newest);
    if (number_of++ % stride_of_marks(apart) == 0) {
      nodes += words(x, bottom - 4, "middle", cat(one.save.step));
    }
  }
  return out + nodes + "</svg>\n";
}

}  // namespace cairn
