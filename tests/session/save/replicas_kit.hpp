#pragma once
/// Saves of a few thread ranks on a disk in memory. All replicas are compared unless a test says
/// otherwise; warnings are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn::test {

class Replicas : public testing::Test {
 protected:
  Replicas() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::warning) warnings_.emplace_back(text);
    });
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
    options_.keep.last = 0;
    options_.store.replicas.check = ReplicaCheck::all;
  }
  ~Replicas() override { set_log_sink({}); }

  // Saves the next step on all ranks; returns "" or the error that they all throw.
  template <class MakeState>  // (rank, State&), gives back the memory
  std::string save(int ranks, const MakeState& make) {
    ++step_;
    std::vector<std::string> texts(static_cast<std::size_t>(ranks));
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto& text = texts[static_cast<std::size_t>(group->rank())];
      CheckpointManager manager(group, "/run", options_);
      State state;
      const auto memory = make(group->rank(), state);
      try {
        manager.save(step_, state);
      } catch (const Error& error) {
        text = cat(code_name(error.code()), " ", error.tensor(), " ", error.rank(), ": ",
                   error.what());
      }
    });
    for (const auto& text : texts) EXPECT_EQ(text, texts.front());
    for (const auto& name : files_->list("/run")) {
      if (!texts.front().empty()) {
        EXPECT_THAT(name, testing::Not(testing::HasSubstr(cat("-", step_))));
      }
    }
    return texts.front();
  }

  // Saves one vector of a type, whole on every rank, as `change` leaves it.
  template <class T, class Change>
  std::string save_whole(int ranks, const Dims& shape, const Change& change) {
    return save(ranks, [&](int rank, State& state) {
      auto values =
          std::make_shared<std::vector<T>>(static_cast<std::size_t>(element_count(shape)), T(1));
      for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<T>(i);
      change(rank, *values);
      state.add("u", whole(values->data(), shape));
      return values;
    });
  }

  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> all;
    CheckpointManager manager(serial_group(), "/run", options_);
    for (const auto& one : manager.steps()) all.push_back(one.step);
    return all;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  std::int64_t step_ = 0;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

template <class F>
void expect_thrown(const F& function, const std::string& text) {
  try {
    function();
    ADD_FAILURE() << "nothing was thrown; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr(text));
  }
}

}  // namespace cairn::test
