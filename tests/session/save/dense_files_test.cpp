// The data files of dense tensors: the policy decides which tensors share one.
#include <gmock/gmock.h>

#include <array>
#include <mutex>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/sample_state.hpp"
#include "support/sharing_group.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::Sample;
using testing::HasSubstr;

std::vector<Box> row_blocks(const Dims& shape, int parts) {
  std::vector<Box> boxes;
  for (int i = 0; i < parts; ++i) {
    Box box = Box::whole(shape);
    box.start[0] = shape[0] * i / parts;
    box.extent[0] = shape[0] * (i + 1) / parts - box.start[0];
    boxes.push_back(box);
  }
  return boxes;
}

// Several tensors under a size limit: they are packed whole into files that hold nothing else; one
// that is too large has its own. They are written by any writer, once more over recycled files, and
// read back by fewer and by more ranks.
class DenseFiles : public testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t limit = 300'000;
  DenseFiles() {
    options_.write.file_system = files_;
    options_.store.policy = std::make_shared<MaxShardSizePolicy>(limit);
    options_.write.chunk_bytes = 64 << 10;
    options_.keep.last = 1;
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard guard(mutex_);
      warnings_.emplace_back(text);
    });
    for (int i = 0; i < 9; ++i) {
      const std::int64_t rows = std::array{40, 700, 5200, 1, 350, 0, 900, 33, 1111}[at(i)];
      samples_.push_back({cat("t", i), i % 2 ? DType::float16 : DType::uint64, {rows, 21}});
    }
  }
  ~DenseFiles() override { set_log_sink({}); }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void add_to(test::SampleState& mine, int rank, int ranks) {
    for (const auto& sample : samples_) {
      std::vector<Box> held{row_blocks(sample.shape, ranks)[at(rank)]};
      if (held[0].empty() && rank > 0) held.clear();
      mine.add(sample, held, rank % 3);
    }
  }
  void save_all(int ranks, std::int64_t step, bool async) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      if (options_.write.writer == Writer::mpi_io) {
        group = std::make_shared<test::SharingGroup>(std::move(group), files_);
      }
      test::SampleState mine(static_cast<std::uint64_t>(step));
      add_to(mine, group->rank(), ranks);
      mine.state().store(Storage::dense);
      mine.fill();
      CheckpointManager manager(group, "/run", options_);
      for (auto s = step; s < step + 2; ++s) {  // the second by the plan of the first, recycling
        if (async) {
          manager.save_async(s, mine.state());
          manager.wait();
        } else {
          manager.save(s, mine.state());
        }
      }
    });
  }
  void expect_packed(std::int64_t step) {
    const auto prefix = cat("/run/ckpt-", step);
    contents_ = read_contents(*files_, prefix);
    std::map<int, std::vector<std::pair<std::string, std::int64_t>>> held;
    for (const auto& tensor : contents_.tensors) {
      if (tensor.slices.at(0).stored_bytes == 0) continue;
      ASSERT_EQ(tensor.slices.size(), 1u);
      held[tensor.slices[0].file].emplace_back(tensor.key, tensor.slices[0].stored_bytes);
    }
    std::int64_t total = 0;
    for (const auto& [file, tensors] : held) {
      std::int64_t bytes = 0;
      for (const auto& [key, size] : tensors) bytes += size;
      if (tensors.size() > 1) {
        EXPECT_LE(bytes, limit) << "file " << file;
      }
      if (bytes > limit) {
        EXPECT_EQ(tensors.front().first, "t2");
      }
      const auto size = files_->status(commit::data_name(prefix, file, contents_.num_files))->size;
      EXPECT_LT(size - bytes, 4096 * static_cast<std::int64_t>(tensors.size()));
      total += bytes > limit ? 0 : bytes;
    }
    EXPECT_GT(held.size(), 2u);
    EXPECT_LE(static_cast<std::int64_t>(held.size()), 1 + 2 * total / limit + 1);
    EXPECT_EQ(verify_checkpoint({*files_, prefix}).verdict(), Verdict::whole);
  }
  void expect_values(int ranks, std::int64_t step, std::uint64_t version) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(version);
      add_to(mine, group->rank(), ranks);
      mine.poison();
      auto reading = options_;
      reading.read_only = true;
      reading.store.policy = nullptr;
      CheckpointManager(group, "/run", reading).restore(step, mine.state());
      EXPECT_EQ(mine.check(version), "");
    });
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  CheckpointContents contents_;
  std::vector<Sample> samples_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_P(DenseFiles, AreWithinTheLimitOfThePolicy) {
  const int ranks = GetParam();
  struct Way {
    const char* name;
    std::function<void(ManagerOptions&)> set;
    bool async = false;
  };
  const Way ways[] = {
      {"posix", [](auto&) {}},
      {"asynchronous", [](auto&) {}, true},
      {"without renames", [](auto& o) { o.write.atomic_rename = false; }},
      {"io ranks",
       [](auto& o) {
         o.write.io_ranks = {IoRanks::Choice::count, 2, 64 << 10};
       }},
      {"shared files", [](auto& o) { o.write.writer = Writer::mpi_io; }},
  };
  const auto plain = options_;
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name);
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_ = plain;
    options_.write.file_system = files_;
    way.set(options_);
    save_all(ranks, 1, way.async);
    expect_packed(2);
    save_all(ranks, 7, way.async);
    expect_packed(8);
    expect_values(ranks % 3 + 1, 8, 7);
    expect_values(ranks, 8, 7);
  }
  const auto too_large = [](const std::string& text) {
    return text.find("tensor 't2'") == 0 && text.find("data file of its own") != text.npos;
  };
  EXPECT_EQ(std::count_if(warnings_.begin(), warnings_.end(), too_large), 1) << "once a key";
}

INSTANTIATE_TEST_SUITE_P(Ranks, DenseFiles, testing::Values(1, 2, 3, 7));

/// Gives prepared answers for dense tensors.
struct Answering : ShardByTaskPolicy {
  std::function<std::vector<int>(std::size_t)> answer;
  std::string description() const override { return "answering"; }
  std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const override {
    return answer(tensors.size());
  }
};

TEST(DensePolicies, WhatAPolicyAnswersIsCheckedAndOneErrorOnAllRanks) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  const auto policy = std::make_shared<Answering>();
  options.store.policy = policy;
  const Sample a{"a", DType::float16, {6}}, b{"b", DType::float16, {4, 3}};
  std::vector<std::string> heard(3);
  const auto error_of = [&](std::function<std::vector<int>(std::size_t)> answer) {
    policy->answer = std::move(answer);
    run_threads(3, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(1);
      for (const auto& sample : {a, b}) {
        mine.add(sample, {row_blocks(sample.shape, 3)[static_cast<std::size_t>(group->rank())]}, 0);
      }
      mine.fill();
      auto& text = heard[static_cast<std::size_t>(group->rank())];
      text = "saved";
      try {
        CheckpointManager(group, "/run", options).save(1, mine.state());
      } catch (const Error& error) {
        text = error.what();
      }
    });
    EXPECT_THAT(heard, testing::Each(heard[0]));
    return heard[0];
  };
  const auto begin = std::string("the checkpoint sharding callback 'answering' ");
  EXPECT_THAT(error_of([](auto) { return std::vector{0}; }),
              testing::StartsWith(begin + "gave 1 files to 2 dense tensors"));
  EXPECT_THAT(error_of([](auto) {
                return std::vector{0, -1};
              }),
              testing::StartsWith(begin + "gave the dense tensor 'b' file -1"));
  EXPECT_THAT(error_of([](auto) -> std::vector<int> { throw std::runtime_error("no idea"); }),
              testing::StartsWith(begin + "failed (for 2 dense tensors it threw: no idea)"));
  // Any numbers are allowed; files are in their order.
  EXPECT_EQ(error_of([](auto) { return std::vector{900, 7}; }), "saved");
  const auto contents = read_contents(*files, "/run/ckpt-1");
  EXPECT_EQ(contents.num_files, 3);
  EXPECT_EQ(contents.find("b")->slices[0].file, 0);
  EXPECT_EQ(contents.find("a")->slices[0].file, 1);
}

// If a format or writer chooses the files, the policy's promises do not hold: a warning says so.
TEST(DensePolicies, APolicyWithoutASayIsAWarning) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  const auto make = [&](std::shared_ptr<const ShardingCallback> policy) {
    warnings.clear();
    options.store.policy = std::move(policy);
    run_threads(2, [&](std::shared_ptr<Group> group) {
      CheckpointManager(std::make_shared<test::SharingGroup>(std::move(group), files), "/run",
                        options);
    });
    return warnings;
  };
  const auto limited = std::make_shared<MaxShardSizePolicy>(100);
  const auto of = testing::StartsWith("the sharding policy 'shards of at most 100 bytes' ");
  EXPECT_THAT(make(limited), testing::IsEmpty());
  options.write.writer = Writer::mpi_io;
  EXPECT_THAT(make(limited), testing::ElementsAre(testing::AllOf(of, HasSubstr("Writer::mpi_io"))));
  EXPECT_THAT(make(nullptr), testing::IsEmpty());
  EXPECT_THAT(make(std::make_shared<ShardByTaskPolicy>()), testing::IsEmpty());
  set_log_sink({});
}

}  // namespace
}  // namespace cairn
