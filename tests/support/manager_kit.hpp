#pragma once
/// Ranks on one disk in memory, each with a manager.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "support/memory_run.hpp"

namespace cairn {

class Manager : public test::MemoryRun {
 protected:
  using Rank = test::RunRank;
  Manager() { options_.keep.last = 0; }

  // Expects the same error on every rank, with this in its text.
  template <class F>
  static void expect_error(Rank& rank, Code code, const std::string& text, F&& call) {
    SCOPED_TRACE(cat("rank ", rank.group->rank()));
    test::expect_error(code, testing::HasSubstr(text), std::forward<F>(call));
  }

  void flip(const std::string& path, std::int64_t at) {
    const auto bytes = io::read_file(*files_, path, 1 << 30);
    auto changed = bytes;
    changed[static_cast<std::size_t>(at)] ^= 1;
    files_->remove(path);
    io::write_file(*files_, path, changed);
  }

  std::string state_file() { return io::read_file(*files_, "/run/checkpoint", 1 << 20); }
};

}  // namespace cairn
