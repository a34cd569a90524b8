#pragma once
/// What the functions of a manager tell, kept as C programs look at it.
#include <optional>
#include <string>
#include <vector>

#include "cairn/c/manager.h"
#include "cairn/checkpoint_manager.hpp"

namespace cairn::c {

struct KeptReport {
  explicit KeptReport(RestoreReport told);
  KeptReport(const KeptReport&) = delete;
  KeptReport& operator=(const KeptReport&) = delete;

  RestoreReport report;
  std::vector<const char*> unused, kept, skipped;
  cairn_report shown{};
};

struct KeptSteps {
  explicit KeptSteps(std::vector<StepInfo> told);
  KeptSteps(const KeptSteps&) = delete;
  KeptSteps& operator=(const KeptSteps&) = delete;

  std::vector<StepInfo> steps;
  std::vector<cairn_step_info> infos;
  std::vector<const cairn_step_info*> shown;
};

struct KeptReason {
  explicit KeptReason(const StopReason& told);
  KeptReason(const KeptReason&) = delete;
  KeptReason& operator=(const KeptReason&) = delete;

  std::string text;
  cairn_stop_reason shown{};
};

}  // namespace cairn::c
