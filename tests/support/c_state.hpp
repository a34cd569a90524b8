#pragma once
/// A SampleState through the C interface: the same memory, given to a cairn_state and a
/// cairn_manager.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/c/bridge.hpp"
#include "cairn/c/manager.h"
#include "support/sample_state.hpp"

namespace cairn::test {

class CState {
 public:
  /// `words` are the values of tensor "words"; `samples` are all tensors, also those of which this
  /// rank has no part.
  CState(SampleState& mine, const std::vector<Sample>& samples,
         const std::vector<std::string>& words, Storage storage);
  ~CState();
  CState(const CState&) = delete;
  CState& operator=(const CState&) = delete;

  /// Collective. They throw the errors of the C interface.
  void save(std::shared_ptr<Group>, const std::filesystem::path&, const ManagerOptions&,
            std::int64_t step, bool asynchronous);
  /// Collective. Restores the newest step; returns "" or what is wrong with its report.
  std::string restore(std::shared_ptr<Group>, const std::filesystem::path&, const ManagerOptions&,
                      std::int64_t step);
  std::vector<std::string> words() const;

 private:
  cairn_state* state_ = nullptr;
  cairn_strings* words_ = nullptr;
};

}  // namespace cairn::test
