#include "cli/failures.hpp"

#include "base/text.hpp"

namespace cairn::cli {

Failures failures_in(const Address& directory, const std::string& only) {
  auto all = read_all_status(directory);
  if (!only.empty()) std::erase_if(all, [&](const auto& one) { return one.first != only; });
  return all;
}

void print_failures(const Failures& failures, const std::map<std::string, double>& newest_seconds) {
  for (const auto& [name, status] : failures) {
    const auto newest = newest_seconds.find(name);
    print_line(
        cat(name, ": ", text_of(status, newest == newest_seconds.end() ? 0 : newest->second)));
  }
}

Json json_of(const Failures& failures) {
  Json list = Json::array();
  for (const auto& [name, status] : failures) {
    list.push_back({{"name", name},
                    {"failures", status.failures},
                    {"since_seconds", status.since_seconds},
                    {"step", status.failed_step},
                    {"time_seconds", status.failed_seconds},
                    {"time", utc_time(status.failed_seconds)},
                    {"code", status.code},
                    {"error", status.error},
                    {"process", status.process}});
  }
  return list;
}

}  // namespace cairn::cli
