#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <set>

#include "base/markup.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "model/application_text.hpp"
#include "tools/report_charts.hpp"
#include "tools/run_report.hpp"

namespace cairn {
namespace {

constexpr std::size_t newest_shown = 200;

// Both colour schemes. The colours can be told apart by the colour-blind too.
constexpr const char* style = R"(
:root { color-scheme: light dark; --back: #ffffff; --text: #1c1e21; --faint: #667085;
  --rule: #d7dbe0; --held: #d55e00; --rest: #56b4e9; --bytes: #009e73; --heat: #0b5cad;
  --bad: #b3261e; --good: #1a7f4b; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14161a; --text: #e6e8eb; --faint: #98a2b3; --rule: #383d45; --held: #ff8c42;
    --rest: #3d8fc4; --bytes: #2cc295; --heat: #6cb2ff; --bad: #ff8a80; --good: #5fd39a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p, figcaption { color: var(--faint); max-width: 46rem; } p.says { color: var(--text); }
figure { margin: 0; } .wide { overflow-x: auto; }
.late { direction: rtl; } .late svg { direction: ltr; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 0; }
.facts div { border: 1px solid var(--rule); border-radius: 6px; padding: .5rem .75rem; }
.facts dt { color: var(--faint); font-size: .85rem; } .facts dd { margin: 0; font-size: 1.15rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid var(--rule);
  vertical-align: top; } td.n, th.n { text-align: right; white-space: nowrap; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
.axis { stroke: var(--rule); } .held { fill: var(--held); } .rest { fill: var(--rest); }
.bytes { fill: var(--bytes); } rect.gone { opacity: .45; } .heat { fill: var(--heat); }
.way { fill: none; stroke: var(--rule); stroke-width: 2; } .way.strong { stroke: var(--heat); }
.save { fill: var(--rule); stroke: var(--faint); } .save.strong { fill: var(--heat); }
.save.gone { fill: var(--back); } .save.bad { fill: var(--bad); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; }
.bad { color: var(--bad); } .good { color: var(--good); } .faint { color: var(--faint); }
.drawing { background: #ffffff; border-radius: 6px; padding: .5rem; }
.drawing svg text { fill: revert-layer; }
)";

std::string local_text(double seconds) {
  if (!(seconds > 0 && seconds < year_9999)) return "-";  // a file may contain any number
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "-";
  if (localtime_r(&time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string share_text(double part, double whole) {
  if (!(whole > 0)) return "-";
  const double percent = 100 * part / whole;
  return cat(percent < 0.1 ? std::round(percent * 1000) / 1000 : std::round(percent * 100) / 100,
             " %");
}

std::string fact(const std::string& name, const std::string& value, const char* kind = "") {
  return cat("<div><dt>", escaped(name), "</dt><dd class=\"", kind, "\">", escaped(value),
             "</dd></div>\n");
}

std::string paragraph(const std::string& text, const char* kind = "") {
  return cat("<p class=\"", kind, "\">", escaped(text), "</p>\n");
}

std::string cell(const std::string& text, const char* kind = "") {
  return cat("<td class=\"", kind, "\">", escaped(text), "</td>");
}

const ReportedSave* newest_of(const RunReport& report) {
  for (const auto& one : report.saves) {
    if (one.entry && report.newest >= 0 && one.save.sequence == report.newest) return &one;
  }
  return nullptr;
}

std::string facts(const RunReport& report) {
  double held = 0, first = 0, last = 0;
  std::int64_t disk = 0, damaged = 0, there = 0;
  for (const auto& one : report.saves) {
    const auto& save = one.save;
    held += save.blocked_seconds;
    disk += one.disk_bytes;
    there += one.entry.has_value();
    damaged += one.entry && !one.entry->damage.empty();
    if (save.wall_time_seconds > 0 && (first == 0 || save.wall_time_seconds < first)) {
      first = save.wall_time_seconds;
    }
    last = std::max(last, save.wall_time_seconds);
  }
  const auto* newest = newest_of(report);
  std::string out = "<dl class=\"facts\">\n";
  out += fact("newest step", newest ? cat(newest->save.step) : "none", newest ? "good" : "bad");
  out += fact("saved at", newest ? local_text(newest->save.wall_time_seconds) : "-");
  const auto by = newest ? application_text(newest->entry->save.application) : "";
  if (!by.empty()) out += fact("saved by", by);
  out += fact("checkpoints here", cat(there));
  out += fact("saves known", cat(report.saves.size()));
  out += fact("on the disk", bytes_text(static_cast<double>(disk)));
  out += fact("the application was held", seconds_text(held));
  out += fact("of the time between saves", share_text(held, last - first));
  out += fact("damaged or lost", cat(damaged), damaged > 0 ? "bad" : "good");
  return out + "</dl>\n";
}

std::string key_to_colour(const char* colour, const char* text) {
  return cat("<span class=\"key\" style=\"background: var(--", colour, ")\"></span> ", text, "\n");
}

std::string of_saves(const RunReport& report) {
  std::string out = "<section id=\"saves\"><h2>Saves</h2>\n<figure><div class=\"wide late\">\n";
  out += chart_of_saves(report.saves);
  out +=
      cat("</div><figcaption>", key_to_colour("held", "seconds in which the application was held,"),
          key_to_colour("rest", "until the commit was known;"), key_to_colour("bytes", "bytes."),
          "Pale: the checkpoint is gone, and a later one tells of it. In the order of the "
          "commits.</figcaption></figure>\n");
  out += "<details><summary>As a table</summary><div class=\"wide\"><table>\n<tr>";
  for (const char* head : {"step", "ranks", "size", "held", "written", "committed", "GB/s"}) {
    out += cat("<th class=\"n\">", head, "</th>");
  }
  out += "<th>saved</th><th>how</th></tr>\n";
  for (auto at = report.saves.rbegin(); at != report.saves.rend(); ++at) {
    const auto& one = *at;
    const auto& save = one.save;
    const bool measured = save.total_seconds > 0;
    const auto figure = [&](double seconds) { return measured ? seconds_text(seconds) : "-"; };
    const double rate = measured ? static_cast<double>(save.bytes) / 1e9 / save.total_seconds : 0;
    out += cat("<tr>", cell(cat(save.step), "n"), cell(cat(save.ranks), "n"),
               cell(measured ? bytes_text(static_cast<double>(save.bytes)) : "-", "n"),
               cell(figure(save.blocked_seconds), "n"), cell(figure(save.write_seconds), "n"),
               cell(figure(save.total_seconds), "n"),
               cell(measured ? cat(std::round(rate * 100) / 100) : "-", "n"),
               cell(local_text(save.wall_time_seconds)),
               cell(!measured           ? "not noted: completed by a recovery, or an older version"
                    : save.asynchronous ? "asynchronous"
                                        : "blocking"),
               "</tr>\n");
  }
  return out + "</table></div></details></section>\n";
}

std::string of_ranks(const RunReport& report) {
  const auto times = chart_of_ranks(report.saves, OfRanks::write_seconds);
  std::string out = "<section id=\"ranks\"><h2>Ranks</h2>\n";
  if (times.empty()) {
    return out + paragraph("No checkpoint that is here tells what each rank wrote.") +
           "</section>\n";
  }
  out += "<figure><div class=\"wide\">\n" + times +
         "</div><figcaption>How long each rank wrote: a row a save, the newest below. A column "
         "that stands out is a rank for which the others waited.</figcaption></figure>\n";
  out += "<figure><div class=\"wide\">\n" + chart_of_ranks(report.saves, OfRanks::bytes) +
         "</div><figcaption>How many bytes each rank wrote.</figcaption></figure>\n";
  return out + "</section>\n";
}

std::string of_lines(const RunReport& report) {
  const auto chart = chart_of_lines(report);
  if (chart.empty()) return "";
  return cat("<section id=\"lines\"><h2>Lines</h2>\n<figure><div class=\"wide late\">\n", chart,
             "</div><figcaption>Which save went on from which, by step. The strong line is the one "
             "that a restart goes on with; what lies below it was left behind by a return to an "
             "earlier step. Hollow: the checkpoint is gone.</figcaption></figure></section>\n");
}

std::string state_of(const CatalogEntry& entry) {
  std::string text = entry.damage.empty() ? "whole" : "damaged: " + entry.damage;
  if (entry.superseded) text += ", superseded";
  if (entry.pin != Pin::none) text += ", pinned";
  if (entry.save.metric) text += cat(", metric ", *entry.save.metric);
  return text;
}

std::string of_retention(const RunReport& report) {
  std::string out = "<section id=\"retention\"><h2>What stays</h2>\n";
  out += paragraph(report.keep ? "By the rules that the newest checkpoint notes."
                               : "The newest checkpoint does not note the rules of retention.");
  out +=
      "<div class=\"wide\"><table>\n<tr><th class=\"n\">step</th><th class=\"n\">on the "
      "disk</th><th>saved by</th><th>state</th><th>stays</th></tr>\n";
  for (auto at = report.saves.rbegin(); at != report.saves.rend(); ++at) {
    const auto& one = *at;
    if (!one.entry) continue;
    const bool bad = !one.entry->damage.empty();
    const auto stays = !one.decision
                           ? std::string("-")
                           : cat(one.decision->stays ? "stays: " : "goes: ", one.decision->why);
    const auto by = application_text(one.entry->save.application);
    out +=
        cat("<tr>", cell(cat(one.save.step), "n"),
            cell(bytes_text(static_cast<double>(one.disk_bytes)), "n"), cell(by.empty() ? "-" : by),
            cell(state_of(*one.entry), bad ? "bad" : ""), cell(stays), "</tr>\n");
  }
  return out + "</table></div></section>\n";
}

std::string of_coverage(const RunReport& report) {
  if (!report.coverage) return "";
  const auto& coverage = *report.coverage;
  std::string out = cat("<section id=\"coverage\"><h2>Who holds what of ",
                        escaped(coverage.key.empty() ? "a tensor" : coverage.key), "</h2>\n");
  if (!coverage.drawn) return out + paragraph(coverage.picture) + "</section>\n";
  return cat(out, "<div class=\"wide drawing\">\n", coverage.picture, "</div></section>\n");
}

// Lists the damage of all saves, also of those that the page leaves out.
std::string of_damage(const RunReport& report, const std::set<std::int64_t>& left_out) {
  std::string list;
  for (const auto& one : report.saves) {
    if (one.entry && !one.entry->damage.empty()) {
      list += cat("<li class=\"bad\">",
                  escaped(cat("step ", one.save.step, ": ", one.entry->damage)), "</li>\n");
    } else if (one.entry && one.entry->ours && !one.statistics &&
               !left_out.contains(one.save.sequence)) {
      list += cat("<li>",
                  escaped(cat("step ", one.save.step,
                              " was completed by a restart, or "
                              "saved by an older version")),
                  "</li>\n");
    }
  }
  const auto unfinished = report.unfinished.size();
  for (std::size_t i = 0; i < unfinished && (left_out.empty() || i < newest_shown); ++i) {
    list +=
        cat("<li>",
            escaped(cat(report.unfinished[i], ": a save that is on its way, or whose job died")),
            "</li>\n");
  }
  if (!left_out.empty() && unfinished > newest_shown)
    list += cat("<li>", unfinished - newest_shown, " more that did not finish</li>\n");
  std::string out = "<section id=\"damage\"><h2>Damage and recoveries</h2>\n";
  out += list.empty() ? paragraph("Nothing is known to be damaged or lost.", "says")
                      : cat("<ul>\n", list, "</ul>\n");
  if (!report.failures.empty()) out += paragraph("Saves: " + report.failures + ".", "says");
  if (!report.owner.empty()) out += paragraph("Saved here last: " + report.owner + ".");
  return out +
         paragraph(
             "This page says what indexes and marks tell. \"cairn verify\" reads every "
             "byte.") +
         "</section>\n";
}

}  // namespace

bool is_long(const RunReport& report) { return report.saves.size() > newest_shown; }

std::string report_page(const RunReport& report, const std::string& all_page, bool all) {
  const auto title = cat(report.name, " in ", report.directory);
  auto shown = report;
  std::set<std::int64_t> left_out;
  std::string note;
  if (!all && is_long(report)) {
    const auto first = shown.saves.end() - static_cast<std::ptrdiff_t>(newest_shown);
    for (auto one = shown.saves.begin(); one != first; ++one) left_out.insert(one->save.sequence);
    shown.saves.erase(shown.saves.begin(), first);
    note =
        cat("<p class=\"says\">The newest ", newest_shown, " of ", report.saves.size(), " saves. ",
            all_page.empty() ? "With --output there is a page of all beside this one."
                             : cat("<a href=\"", escaped(all_page), "\">All of them</a>."),
            "</p>\n");
  }
  return cat("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>\n",
             "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, "
             "initial-scale=1\"/>\n<title>",
             escaped(title), "</title>\n<style>", style, "</style></head><body>\n<h1>",
             escaped(title), "</h1>\n", facts(report), note, of_saves(shown), of_ranks(shown),
             of_lines(shown), of_retention(shown), of_coverage(shown), of_damage(report, left_out),
             "<p>Made by cairn report at ", local_text(report.made_at_seconds), " on ",
             escaped(report.host), ".</p>\n</body></html>\n");
}

}  // namespace cairn
