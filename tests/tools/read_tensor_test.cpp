// Reads any box of any tensor, from whatever slices it is stored in.
#include <gmock/gmock.h>

#include <random>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/read_tensor.hpp"

namespace cairn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadTensor : public testing::Test {
 protected:
  ReadTensor() { set_log_sink({}); }

  // Three ranks store it in random pieces.
  CheckpointContents save(const Sample& sample, unsigned seed) {
    std::mt19937 random(seed);
    const auto held = deal(guillotine(sample.shape, 7, random), 3, true, random);
    run_threads(3, [&](std::shared_ptr<Group> group) {
      ManagerOptions options;
      options.write.file_system = files_;
      options.overwrite = true;
      CheckpointManager manager(group, "/run", options);
      SampleState state(1);
      state.add(sample, held[static_cast<std::size_t>(group->rank())], 0);
      state.fill();
      manager.save(1, state.state());
    });
    return read_contents(*files_, "/run/ckpt-1");
  }

  static std::string expected(const Sample& sample, const Box& box) {
    std::string out;
    const auto strides = row_major_strides(sample.shape), inner = row_major_strides(box.extent);
    const auto item = dtype_size(sample.dtype);
    for (std::int64_t i = 0; i < box.count(); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = 0; d < strides.size(); ++d) {
        at += (box.start[d] + rest / inner[d]) * strides[d];
        rest %= inner[d];
      }
      std::string element(item, '\0');
      element_bytes(sample, at, 1, reinterpret_cast<std::byte*>(element.data()));
      out += element;
    }
    return out;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

TEST_F(ReadTensor, RandomBoxesOfRandomPieces) {
  std::mt19937 random(11);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::vector<Sample> samples = {{"s", DType::float64, {}},
                                       {"v", DType::int16, {37}},
                                       {"m", DType::complex64, {9, 13}},
                                       {"t", DType::uint8, {5, 6, 7}}};
  for (unsigned round = 0; round < 5; ++round) {
    for (const auto& sample : samples) {
      const auto contents = save(sample, round);
      const auto& tensor = *contents.find(sample.key);
      for (int i = 0; i < 20; ++i) {
        Box box;
        for (const auto extent : sample.shape) {
          box.start.push_back(pick(0, extent));
          box.extent.push_back(pick(0, extent - box.start.back()));
        }
        EXPECT_EQ(read_numbers({*files_, contents}, tensor, box), expected(sample, box))
            << sample.key << " " << box_text(box) << " in round " << round;
      }
      const auto whole = Box::whole(sample.shape);
      EXPECT_EQ(read_numbers({*files_, contents}, tensor, whole), expected(sample, whole));
    }
  }
}

TEST_F(ReadTensor, LargerThanAChunk) {
  const Sample sample{"big", DType::float32, {3, 1500000}};  // rows of 5.7 MiB
  const auto contents = save(sample, 3);
  const auto& tensor = *contents.find("big");
  std::int64_t last = 0, all = -1;
  const auto progress = [&](std::int64_t done, std::int64_t total) { last = done, all = total; };
  const Box box{{0, 1000000}, {3, 300001}};
  EXPECT_TRUE(read_numbers({*files_, contents}, tensor, box, progress) == expected(sample, box));
  EXPECT_EQ(last, all);
}

TEST_F(ReadTensor, RefusesWhatItCannotGive) {
  const auto contents = save({"v", DType::int16, {37}}, 0);
  const auto& tensor = *contents.find("v");
  const auto message = [&](const StoredTensor& of, const Box& box) -> std::string {
    try {
      read_numbers({*files_, contents}, of, box);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(tensor, {{30}, {8}}), test::Says("is no part of tensor 'v' [37]"));
  EXPECT_THAT(message(tensor, {{0, 0}, {1, 1}}), test::Says("is no part of tensor 'v' [37]"));
  auto other = tensor;
  other.dtype = DType::variant;
  EXPECT_THAT(message(other, {{0}, {1}}), HasSubstr("is a variant"));
  other.dtype = DType::string;
  EXPECT_THAT(message(other, {{0}, {1}}), test::Says("holds strings"));
  other = tensor;
  other.problem = "it is odd";
  EXPECT_THAT(message(other, {{0}, {1}}), test::Says("cannot be read: /run/ckpt-1 (it is odd)"));
  EXPECT_THROW(read_string_box({*files_, contents}, tensor, {{0}, {1}}), Error);
}

TEST_F(ReadTensor, PartsOfStringTensors) {
  std::vector<std::string> words;
  for (int i = 0; i < 7; ++i) words.push_back(std::string(static_cast<std::size_t>(i), 'x'));
  ManagerOptions options;
  options.write.file_system = files_;
  State state;
  state.add("words", words);
  CheckpointManager(serial_group(), "/run", options).save(1, state);
  const auto contents = read_contents(*files_, "/run/ckpt-1");
  const auto& tensor = *contents.find("words");
  EXPECT_THAT(read_string_box({*files_, contents}, tensor, {{2}, {3}}),
              ElementsAre("xx", "xxx", "xxxx"));
  EXPECT_EQ(read_string_box({*files_, contents}, tensor, {{0}, {7}}), words);
  EXPECT_TRUE(read_string_box({*files_, contents}, tensor, {{3}, {0}}).empty());
}

}  // namespace
}  // namespace cairn::test
