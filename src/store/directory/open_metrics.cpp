#include "store/directory/open_metrics.hpp"

#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

// The text of a label, which is UTF-8: a backslash, a quote and the end of a line are written as
// two characters.
std::string label_text(const std::string& text) {
  std::string out;
  for (const char c : is_utf8(text) ? text : printable(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string value_text(std::int64_t value) { return cat(value); }
std::string value_text(const char* value) { return value; }
// With all of its digits.
std::string value_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

using Labels = std::vector<std::pair<std::string, std::string>>;

// The text, family by family. The format wants all samples of a family in one place, so each family
// goes through all names.
class Page {
 public:
  Page(const std::string& directory, const std::map<std::string, Measured>& names)
      : directory_(directory), names_(names) {}

  /// One family of gauges. The unit is the end of the name, as the format asks for; "": none.
  /// `samples` calls its second argument with a value and what tells it from others of the name.
  template <class Samples>
  void add(const std::string& name, const std::string& unit, const char* help, Samples&& samples) {
    const auto family = cat("cairn_", name, unit.empty() ? "" : "_", unit);
    std::string lines;
    for (const auto& entry : names_) {
      const auto& name_of = entry.first;
      samples(entry.second, [&](auto value, const Labels& more = {}) {
        lines += cat(family, "{directory=\"", label_text(directory_), "\",name=\"",
                     label_text(name_of), '"');
        for (const auto& [label, text] : more) {
          lines += cat(',', label, "=\"", label_text(text), '"');
        }
        lines += cat("} ", value_text(value), '\n');
      });
    }
    if (lines.empty()) return;
    text_ += cat("# TYPE ", family, " gauge\n");
    if (!unit.empty()) text_ += cat("# UNIT ", family, ' ', unit, '\n');
    text_ += cat("# HELP ", family, ' ', help, '\n', lines);
  }

  /// A counter of one manager.
  template <class Member>
  void add_count(const std::string& name, const std::string& unit, const char* help,
                 Member member) {
    const auto family = cat("cairn_manager_", name, unit.empty() ? "" : "_", unit);
    std::string lines;
    for (const auto& [name_of, one] : names_) {
      if (!one.counts) continue;
      lines += cat(family, "_total{directory=\"", label_text(directory_), "\",name=\"",
                   label_text(name_of), "\"} ", value_text((*one.counts).*member), '\n');
    }
    if (lines.empty()) return;
    text_ += cat("# TYPE ", family, " counter\n");
    if (!unit.empty()) text_ += cat("# UNIT ", family, ' ', unit, '\n');
    text_ += cat("# HELP ", family, ' ', help, '\n', lines);
  }

  std::string text() && { return std::move(text_) + "# EOF\n"; }

 private:
  const std::string& directory_;
  const std::map<std::string, Measured>& names_;
  std::string text_;
};

void add_checkpoints(Page& page) {
  page.add("checkpoints", "", "Checkpoints that can be restored.",
           [](const Measured& one, auto&& is) { is(one.checkpoints); });
  page.add("newest_step", "", "Step of the newest checkpoint.", [](const auto& one, auto&& is) {
    if (one.newest) is(one.newest->step);
  });
  page.add("newest_timestamp", "seconds", "When the save of the newest checkpoint began.",
           [](const auto& one, auto&& is) {
             if (one.newest) is(one.newest->wall_time_seconds);
           });
  page.add("newest_ranks", "", "Ranks that saved the newest checkpoint.",
           [](const auto& one, auto&& is) {
             if (one.newest) is(std::int64_t{one.newest->ranks});
           });
}

// Of the save that made the newest checkpoint.
void add_save(Page& page) {
  const auto add = [&](const char* name, const char* unit, const char* help, auto&& samples) {
    page.add(name, unit, help, [&](const Measured& one, auto&& is) {
      if (one.newest && one.newest->statistics) samples(*one.newest->statistics, is);
    });
  };
  add("save", "bytes", "Written to data files by the newest checkpoint's save.",
      [](const auto& save, auto&& is) { is(save.bytes); });
  add("save_peak_resident", "bytes",
      "The most memory in RAM of any rank's process up to that save.",
      [](const auto& save, auto&& is) {
        if (save.peak_resident_bytes > 0) is(save.peak_resident_bytes);
      });
  add("save_duration", "seconds", "From the call of that save until its index was sealed.",
      [](const auto& save, auto&& is) { is(save.total_seconds); });
  add("save_blocked", "seconds", "How long that save held the application.",
      [](const auto& save, auto&& is) { is(save.blocked_seconds); });
  add("save_stage", "seconds", "The longest of any rank in a stage of that save.",
      [](const auto& save, auto&& is) {
        is(save.seconds.wait, Labels{{"stage", "wait"}});
        is(save.seconds.plan, Labels{{"stage", "plan"}});
        is(save.seconds.capture, Labels{{"stage", "capture"}});
        is(save.seconds.write, Labels{{"stage", "write"}});
        is(save.seconds.merge, Labels{{"stage", "merge"}});
      });
  add("save_slowest_rank", "", "The rank that wrote longest.", [](const auto& save, auto&& is) {
    if (save.slowest.rank >= 0) is(std::int64_t{save.slowest.rank});
  });
  add("save_slowest_rank_waiting", "seconds", "By how much it wrote longer than the first.",
      [](const auto& save, auto&& is) {
        if (save.slowest.rank >= 0) is(save.slowest.waiting_seconds);
      });
}

void add_trouble(Page& page) {
  page.add("save_failures", "", "Saves in a row that failed since the last that was committed.",
           [](const Measured& one, auto&& is) {
             is(one.failures ? one.failures->failures : std::int64_t{0});
           });
  page.add("save_failed_timestamp", "seconds", "When a save failed last.",
           [](const auto& one, auto&& is) {
             if (one.failures) is(one.failures->failed_seconds);
           });
  page.add("work_at_risk", "seconds",
           "What is lost now with the processes, or with all nodes; +Inf: all of it.",
           [](const auto& one, auto&& is) {
             const auto lost = [&](double seconds, const char* with) {
               const Labels labels{{"lost", with}};
               seconds < 0 ? is("+Inf", labels) : is(seconds, labels);
             };
             if (one.since_save_seconds) lost(*one.since_save_seconds, "processes");
             if (one.since_home_seconds) lost(*one.since_home_seconds, "nodes");
           });
  page.add("nodes_margin", "",
           "How many more nodes may be lost with the newest there still to be had; -1: it is not.",
           [](const auto& one, auto&& is) {
             if (one.margin) is(std::int64_t{*one.margin});
           });
}

}  // namespace

std::string open_metrics(const std::string& directory,
                         const std::map<std::string, Measured>& names) {
  Page page(directory, names);
  add_checkpoints(page);
  add_save(page);
  add_trouble(page);
  using Counts = Measured::Counts;
  page.add_count("saves", "", "Saves that this manager has committed.", &Counts::saves);
  page.add_count("failures", "", "Saves of this manager that failed.", &Counts::failures);
  page.add_count("written", "bytes", "Written to data files by its committed saves.",
                 &Counts::bytes);
  page.add_count("blocked", "seconds", "How long its committed saves have held the application.",
                 &Counts::blocked_seconds);
  return std::move(page).text();
}

void MetricsFile::saved(const CheckpointMeta& meta) {
  newest_ = meta;
  newest_->descriptions = {};  // which may be long
  ++counts_.saves;
  if (const auto& figures = meta.statistics) {
    counts_.bytes += figures->bytes;
    counts_.blocked_seconds += figures->blocked_seconds;
  }
}

void MetricsFile::write(const Location& place, const io::Path& file, std::int64_t checkpoints,
                        const SaveStatus& status) {
  Measured now;
  now.checkpoints = checkpoints;
  now.newest = newest_;
  if (status.failed_step >= 0) now.failures = status;
  now.counts = counts_;
  const auto text = open_metrics(place.directory.string(), {{place.naming.name, now}});
  try {
    const io::Path next = file.string() + ".tmp";  // collectors read names that end in .prom
    io::remove_if_there(*place.files, next);
    const auto made = place.files->create(next);
    made->write_at(0, std::as_bytes(std::span(text)));
    made->close();
    place.files->rename(next, file);
    has_failed_ = false;
  } catch (const Error& error) {
    log(std::exchange(has_failed_, true) ? LogLevel::info : LogLevel::warning,
        cat("the metrics are not written: ", error.what()));
  }
}

}  // namespace cairn
