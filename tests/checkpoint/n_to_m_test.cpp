// Any rank count in, any rank count out: random boxes, halos, patches, replicas, empty ranks.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "group/threads.hpp"
#include "io/memory.hpp"
#include "support/sample_state.hpp"

namespace cairn {
namespace {

using test::Sample;

std::vector<Sample> samples(std::mt19937& random) {
  static constexpr DType dtypes[] = {DType::float32, DType::float64, DType::int8,    DType::boolean,
                                     DType::float16, DType::int64,   DType::uint16,  DType::complex128,
                                     DType::bfloat16, DType::complex64, DType::float8_e5m2};
  std::vector<Sample> all;
  const int count = 2 + static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i) {
    Sample sample{cat("group/t", i), dtypes[random() % std::size(dtypes)], {}};
    const auto rank = random() % 5;
    for (unsigned d = 0; d < rank; ++d) {
      sample.shape.push_back(static_cast<std::int64_t>(random() % 20 == 0 ? 0 : 1 + random() % 13));
    }
    all.push_back(std::move(sample));
  }
  all.push_back({"scalar", DType::float64, {}});
  return all;
}

// What TensorFlow cannot assemble from slices is still put together by our own reader.
class NToM : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(NToM, RandomBoxes) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(n * 10 + m));
    const auto all = samples(random);
    std::vector<std::vector<std::vector<Box>>> held, wanted;  // [sample][rank]
    for (const auto& sample : all) {
      const auto pieces = test::guillotine(sample.shape, 1 + static_cast<int>(random() % 9), random);
      held.push_back(test::deal(pieces, n, true, random));
      if (random() % 4 == 0) {  // everybody wants everything
        wanted.push_back({static_cast<std::size_t>(m), {Box::whole(sample.shape)}});
      } else {
        wanted.push_back(test::deal(
            test::guillotine(sample.shape, 1 + static_cast<int>(random() % 9), random), m, true,
            random));
      }
    }
    const int style = static_cast<int>(seed % 3);
    auto files = std::make_shared<io::MemoryFileSystem>();
    ManagerOptions options;
    options.file_system = files;
    options.chunk_bytes = 4096;
    options.verify_first = seed % 2 == 1;
    const std::vector<std::string> words{"", "two words", std::string(300, 'x')};
    run_threads(n, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(seed);
      for (std::size_t i = 0; i < all.size(); ++i) {
        mine.add(all[i], held[i][static_cast<std::size_t>(group->rank())], style);
      }
      mine.add_string("words", words);
      mine.fill();
      CheckpointManager manager(group, "/run", options);
      EXPECT_EQ(manager.save(7, mine.state()), "/run/ckpt-7");
    });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(seed);
      std::vector<std::string> read(3);
      for (std::size_t i = 0; i < all.size(); ++i) {
        mine.add(all[i], wanted[i][static_cast<std::size_t>(group->rank())], (style + 1) % 3);
      }
      mine.state().add("words", read);
      CheckpointManager manager(group, "/run", options);
      const auto report = manager.restore_latest(mine.state());
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 7);
      EXPECT_TRUE(report->unused_keys.empty());
      EXPECT_EQ(mine.check(seed), "") << "seed " << seed;
      EXPECT_EQ(read, words);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, NToM,
                         testing::Combine(testing::Range(1, 8), testing::Range(1, 8)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

TEST(NToM, SixtyFourRanksToFive) {
  const Sample sample{"u", DType::float64, {64, 48}};
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.file_system = files;
  run_threads(64, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    mine.add(sample, {{{group->rank(), 0}, {1, 48}}}, 1);
    mine.fill();
    CheckpointManager(group, "/run", options).save(1, mine.state());
  });
  run_threads(5, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    mine.add(sample, {{{0, group->rank() * 9}, {64, 9}}}, 0);
    CheckpointManager manager(group, "/run", options);
    ASSERT_TRUE(manager.restore_latest(mine.state()));
    EXPECT_EQ(mine.check(1), "");
  });
}

}  // namespace
}  // namespace cairn
