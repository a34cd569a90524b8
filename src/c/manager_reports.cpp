#include "c/manager_reports.hpp"

#include <utility>

#include "c/handles.hpp"

namespace cairn::c {

OwnedReport::OwnedReport(RestoreReport told)
    : report(std::move(told)),
      unused(pointers(report.unused_keys)),
      kept(pointers(report.kept_keys)),
      skipped(pointers(report.skipped)) {
  shown = {report.step,    report.prefix.c_str(), report.bytes_read, report.unchecked,
           unused.size(),  unused.data(),         kept.size(),       kept.data(),
           skipped.size(), skipped.data()};
}

OwnedSteps::OwnedSteps(std::vector<StepInfo> told) : steps(std::move(told)) {
  for (const auto& one : steps) {
    infos.push_back({one.step, one.sequence, one.newest, one.superseded, one.pinned,
                     one.metric.has_value(), one.metric.value_or(0), one.damage.c_str(),
                     one.on_nodes, one.at_home, one.margin, one.passed_over.c_str()});
  }
  for (const auto& info : infos) shown.push_back(&info);
}

OwnedReason::OwnedReason(const StopReason& told) : text(told.text()) {
  shown = {static_cast<int>(told.kind), told.rank, told.signal, told.exit_code(), text.c_str()};
}

}  // namespace cairn::c
