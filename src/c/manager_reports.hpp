#pragma once
/// What a manager's functions report, kept in the form that C programs read.
#include <optional>
#include <string>
#include <vector>

#include "cairn/c/manager.h"
#include "cairn/checkpoint_manager.hpp"

namespace cairn::c {

struct OwnedReport {
  explicit OwnedReport(RestoreReport told);
  OwnedReport(const OwnedReport&) = delete;
  OwnedReport& operator=(const OwnedReport&) = delete;

  RestoreReport report;
  std::vector<const char*> unused, kept, skipped;
  cairn_report shown{};
};

struct OwnedSteps {
  explicit OwnedSteps(std::vector<StepInfo> told);
  OwnedSteps(const OwnedSteps&) = delete;
  OwnedSteps& operator=(const OwnedSteps&) = delete;

  std::vector<StepInfo> steps;
  std::vector<cairn_step_info> infos;
  std::vector<const cairn_step_info*> shown;
};

struct OwnedReason {
  explicit OwnedReason(const StopReason& told);
  OwnedReason(const OwnedReason&) = delete;
  OwnedReason& operator=(const OwnedReason&) = delete;

  std::string text;
  cairn_stop_reason shown{};
};

}  // namespace cairn::c
