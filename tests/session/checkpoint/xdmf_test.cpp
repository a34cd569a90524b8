// The XDMF file that a manager keeps up to date. Crashes are in
// tests/store/directory/crash_test.cpp.
#include <gmock/gmock.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cairn/log.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

class ManagerXdmf : public Manager {};

// An error with the XDMF file is logged, and fails no save.
TEST_P(ManagerXdmf, AFileThatCannotBeWrittenFailsNoSave) {
  std::vector<std::string> said;
  std::mutex mutex;
  set_log_sink([&](LogLevel level, std::string_view text) {
    const std::lock_guard guard(mutex);
    if (level == LogLevel::warning) said.emplace_back(text);
  });
  options_.store.xdmf = XdmfOptions{.time = "value"};  // of several ranks that is no number
  const auto of_xdmf = [&] {
    std::string all;
    for (const auto& text : std::exchange(said, {})) {
      if (text.find("xdmf") != text.npos || text.find("XDMF") != text.npos) all += text + "\n";
    }
    return all;
  };
  job([&](Rank& rank) { rank.save(1); });
  if (GetParam() > 1) {
    EXPECT_THAT(of_xdmf(), test::Says("step 1 is not shown in ckpt.xdmf"));
  }
  options_.store.xdmf = XdmfOptions{};
  files_->inject({Code::io, "rename", ".xdmf", 0, 100});
  job([&](Rank& rank) {
    rank.save(2);
    EXPECT_EQ(rank.latest(), 2);
  });
  EXPECT_THAT(of_xdmf(), test::Says("the XDMF file is not up to date"));
  files_->clear_faults();
  files_->remove("/run/ckpt.xdmf");
  io::write_file(*files_, "/run/ckpt.xdmf", "somebody's");
  job([&](Rank& rank) {
    rank.save(3);
    EXPECT_EQ(rank.latest(), 3);
  });
  EXPECT_THAT(of_xdmf(), test::Says("/run/ckpt.xdmf is there"));
  EXPECT_EQ(io::read_file(*files_, "/run/ckpt.xdmf", 100), "somebody's");
  set_log_sink({});
}

INSTANTIATE_TEST_SUITE_P(Ranks, ManagerXdmf, testing::Values(1, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace cairn
