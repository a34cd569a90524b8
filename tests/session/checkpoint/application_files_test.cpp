// File systems of the application that throw exceptions other than Error.
#include <gmock/gmock.h>

#include <stdexcept>

#include "support/forwarding_files.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

// Throws at the next change of a file with this name.
class ThrowingFiles : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::string at;

 private:
  void around(const char*, const io::Path& path, bool changes,
              const std::function<void()>& operation) override {
    const auto name = path.filename().string();
    if (changes && !at.empty() && name.starts_with(at)) {
      at.clear();
      throw std::runtime_error("the application's own files");
    }
    operation();
  }
};

class ApplicationFiles : public Manager {
 protected:
  std::shared_ptr<ThrowingFiles> throwing_ = std::make_shared<ThrowingFiles>(files_);
  ApplicationFiles() { options_.write.file_system = throwing_; }
};

INSTANTIATE_TEST_SUITE_P(Ranks, ApplicationFiles, testing::Values(1, 3),
                         testing::PrintToStringParamName());

// The checkpoint is committed by then: all ranks get the error, and nothing is withdrawn.
TEST_P(ApplicationFiles, WhatFailsAfterTheCommitTakesNothingAway) {
  job([&](Rank& rank) {
    rank.save(1);
    rank.group->barrier();
    if (rank.group->rank() == 0) throwing_->at = "checkpoint.tmp";
    rank.group->barrier();
    expect_error(rank, Code::internal, "the application's own files", [&] { rank.save(2); });
    const auto steps = rank.manager.steps();
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps.back().step, 2);
    EXPECT_EQ(rank.latest(), 2);
    rank.save(3);
  });
  EXPECT_THAT(state_file(), testing::HasSubstr("ckpt-3"));
}

TEST_P(ApplicationFiles, WhatFailsBeforeTheCommitIsHeardAlike) {
  job([&](Rank& rank) {
    rank.save(1);
    rank.group->barrier();
    if (rank.group->rank() == 0) throwing_->at = "ckpt-2.index";
    rank.group->barrier();
    expect_error(rank, Code::internal, "the application's own files", [&] { rank.save(2); });
    EXPECT_EQ(rank.manager.steps().size(), 1u);
    rank.save(2);
  });
}

}  // namespace
}  // namespace cairn
