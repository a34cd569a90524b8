#pragma once
/// Jobs that write over files of expired checkpoints, and what they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {

inline constexpr std::int64_t block = std::int64_t{64} << 10, values_a_block = block / 8;

// A job of one rank that keeps one checkpoint, so that each save overwrites the one before the
// last.
class Unchanged : public testing::Test {
 protected:
  Unchanged() {
    set_log_sink([this](LogLevel, std::string_view line) { said_.emplace_back(line); });
    options_.keep.last = 1;
    options_.write.owner_wait_seconds = 0;
    options_.write.file_system = disk_;
    options_.write.skip_unchanged = SkipUnchanged::on;
  }
  ~Unchanged() override { set_log_sink({}); }

  void begin(std::int64_t blocks = 8) {
    manager_.emplace(serial_group(), "/run", options_);
    u_.assign(static_cast<std::size_t>(blocks * values_a_block), 0);
    for (std::size_t i = 0; i < u_.size(); ++i) u_[i] = static_cast<double>(i);
  }
  void save() {
    State state;
    state.add("u", slice(u_.data(), {std::ssize(u_)}, {0}, {std::ssize(u_)}));
    disk_->mark();
    manager_->save(++step_, state);
  }
  void change(std::int64_t block_number) {
    u_[static_cast<std::size_t>(block_number * values_a_block + 7)] += 0.5;
  }
  static std::string data(std::int64_t step) {
    return cat("/run/ckpt-", step, ".data-00000-of-00002");
  }
  // The bytes that the last save wrote to its data file, as ranges of blocks.
  std::vector<std::string> written() const {
    std::vector<std::string> all;
    static const std::regex write(R"(write .*part-00000.* \[(\d+), (\d+)\))");
    for (std::size_t i = 0; i < disk_->operation_count(); ++i) {
      std::smatch found;
      const auto text = disk_->operation_text(i);
      if (!std::regex_match(text, found, write)) continue;
      all.push_back(cat(std::stod(found[1]) / block, "-", std::stod(found[2]) / block));
    }
    return all;
  }
  // Whether the newest checkpoint has the values of u_, and its data file no other byte.
  void expect_whole() {
    std::vector<double> found(u_.size(), -1);
    State state;
    state.add("u", slice(found.data(), {std::ssize(u_)}, {0}, {std::ssize(u_)}));
    manager_->restore(step_, state);
    EXPECT_TRUE(found == u_) << "step " << step_;
    const auto bytes = io::read_file(*disk_, data(step_), 1 << 30);
    EXPECT_EQ(bytes.size(), u_.size() * sizeof(double));
  }
  SaveStatistics last() const { return manager_->statistics().last.back(); }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  std::optional<CheckpointManager> manager_;
  std::vector<double> u_;
  std::int64_t step_ = 0;
  std::vector<std::string> said_;
};

}  // namespace cairn
