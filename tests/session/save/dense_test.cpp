// Dense tensors have one plain entry, whichever ranks hold which slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "session/save/dense.hpp"
#include "session/save/save_steps.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/seal.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::Sample;
using testing::HasSubstr;

std::vector<Box> rows(const Dims& shape, int parts) {
  std::vector<Box> boxes;
  for (int i = 0; i < parts; ++i) {
    Box box = Box::whole(shape);
    box.start[0] = shape[0] * i / parts;
    box.extent[0] = shape[0] * (i + 1) / parts - box.start[0];
    boxes.push_back(box);
  }
  return boxes;
}

std::vector<Box> column_blocks(const Dims& shape, int parts) {
  std::vector<Box> boxes;
  for (int i = 0; i < parts; ++i) {
    Box box = Box::whole(shape);
    box.start[1] = shape[1] * i / parts;
    box.extent[1] = shape[1] * (i + 1) / parts - box.start[1];
    boxes.push_back(box);
  }
  return boxes;
}

class Dense : public testing::Test {
 protected:
  Dense() { options_.write.file_system = files_; }

  // Saves step 1; each rank holds the boxes with its number.
  void save(int ranks, const Sample& sample, const std::vector<Box>& boxes, Storage storage,
            int style = 0) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      test::SampleState mine(1);
      std::vector<Box> held;
      for (std::size_t i = static_cast<std::size_t>(group->rank()); i < boxes.size();
           i += static_cast<std::size_t>(ranks)) {
        held.push_back(boxes[i]);
      }
      mine.add(sample, held, style,
               [&](LocalTensor tensor) { return stored(storage, std::move(tensor)); });
      mine.fill();
      CheckpointManager(group, "/run", options_).save(1, mine.state());
    });
    contents_ = read_contents(*files_, "/run/ckpt-1");
  }
  // Reads the tensor on one rank; returns "" or what is wrong with it.
  std::string read(const Sample& sample) {
    test::SampleState mine(1);
    mine.add(sample, {Box::whole(sample.shape)}, 0);
    CheckpointManager manager(serial_group(), "/run", options_);
    if (!manager.restore_latest(mine.state())) return "nothing there";
    const auto verified = verify_checkpoint({*files_, "/run/ckpt-1"});
    if (verified.verdict() != Verdict::whole) return verified.findings.front().what;
    return mine.check(1);
  }
  bool is_dense(const Sample& sample) const { return !contents_.find(sample.key)->sliced; }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
  CheckpointContents contents_;
};

TEST_F(Dense, IsOnePlainEntryInOneFile) {
  const Sample sample{"u", DType::float64, {40, 30}};
  save(3, sample, column_blocks(sample.shape, 5), Storage::dense, 1);
  const auto& tensor = *contents_.find("u");
  EXPECT_FALSE(tensor.sliced);
  ASSERT_EQ(tensor.slices.size(), 1u);
  EXPECT_EQ(tensor.slices[0].box, Box::whole(sample.shape));
  EXPECT_EQ(tensor.slices[0].stored_bytes, 40 * 30 * 8);
  EXPECT_EQ(contents_.num_files, 2);  // and that of the metadata
  EXPECT_EQ(read(sample), "");
}

TEST_F(Dense, IsTheDefaultForWhatTensorFlowCannotAssemble) {
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype || dtype_size(*dtype) == 0) continue;
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    const Sample sample{"u", *dtype, {7, 5}};
    save(2, sample, rows(sample.shape, 3), Storage::automatic);
    EXPECT_EQ(is_dense(sample), !dtype_assembles_in_tensorflow(*dtype)) << dtype_name(*dtype);
    EXPECT_EQ(read(sample), "");
  }
}

TEST_F(Dense, IsTheDefaultAboveEightThousandSlices) {
  const Sample sample{"u", DType::int8, {8001}};
  const auto cut = rows(sample.shape, 8001);
  save(2, sample, cut, Storage::automatic);
  EXPECT_TRUE(is_dense(sample));
  EXPECT_EQ(read(sample), "");
  files_ = std::make_shared<io::MemoryFileSystem>();
  options_.write.file_system = files_;
  const Sample fewer{"u", DType::int8, {8000}};
  save(2, fewer, rows(fewer.shape, 8000), Storage::automatic);
  EXPECT_FALSE(is_dense(fewer));
}

TEST_F(Dense, CanBeRefused) {
  const Sample sample{"u", DType::float16, {7, 5}};
  save(2, sample, rows(sample.shape, 3), Storage::sliced);
  EXPECT_FALSE(is_dense(sample));
  EXPECT_EQ(read(sample), "");
}

TEST_F(Dense, ATensorThatOneRankHoldsWholeOrWithoutElementsIsPlainAnyway) {
  for (const Dims& shape : {Dims{7, 5}, Dims{0, 3}, Dims{}}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    const Sample sample{"u", DType::float16, shape};
    save(3, sample, {Box::whole(shape)}, Storage::dense);
    EXPECT_TRUE(is_dense(sample));
    EXPECT_EQ(read(sample), "");
  }
}

TEST_F(Dense, RanksAgreeOnTheStorage) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    std::vector<float> u(2);
    State state;
    const auto way = group->rank() == 0   ? Storage::automatic
                     : group->rank() == 1 ? Storage::dense
                                          : Storage::sliced;
    state.add("u", stored(way, slice(u.data(), {6}, {group->rank() * 2}, {2})));
    CheckpointManager manager(group, "/run", options_);
    try {
      manager.save(1, state);
      FAIL() << "saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::disagreement);
      EXPECT_THAT(error.what(), test::Says("ranks 1 and 2 disagree on its Storage"));
    }
  });
}

// What a state asks for holds when it is part of another state, too, and under an object graph.
TEST_F(Dense, ARequestOfAStateHoldsForItsTensors) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<float> u(3), v(3), w(3);
    const auto half = [&](std::vector<float>& values) {
      return slice(values.data(), {6}, {group->rank() * 3}, {3});
    };
    State part, all;
    part.store(Storage::dense).add("u", half(u)).add("v", stored(Storage::sliced, half(v)));
    all.add("part", part).add("w", half(w));
    CheckpointManager manager(group, "/run", options_);
    manager.save(1, all);
    auto contents = manager.open(1);
    EXPECT_FALSE(contents.find("part/u")->sliced);
    EXPECT_TRUE(contents.find("part/v")->sliced);
    EXPECT_TRUE(contents.find("w")->sliced);

    auto options = options_;
    options.store.object_graph = true;
    CheckpointManager with_graph(group, "/graph", options);
    with_graph.save(1, part);
    contents = with_graph.open(1);
    EXPECT_FALSE(contents.find(object_key("u"))->sliced);
    EXPECT_TRUE(contents.find(object_key("v"))->sliced);
  });
}

TEST_F(Dense, PatchesInTwoWaysAreRefused) {
  std::vector<float> u(4);
  EXPECT_THROW(patches({stored(Storage::dense, slice(u.data(), {4}, {0}, {2})),
                        stored(Storage::sliced, slice(u.data() + 2, {4}, {2}, {2}))}),
               Error);
  const auto joined = patches(
      {slice(u.data(), {4}, {0}, {2}), stored(Storage::dense, slice(u.data() + 2, {4}, {2}, {2}))});
  EXPECT_EQ(joined.storage, Storage::dense);
}

// The same state stored both ways has the same elements for every reader, whatever it asks for.
TEST_F(Dense, HoldsTheSameBytesAsSliced) {
  for (unsigned seed = 0; seed < test::rounds(12u); ++seed) {
    const int n = 1 + static_cast<int>(seed) % 5, m = 1 + static_cast<int>(seed / 2) % 4;
    test::NToMCase one(n, m, seed);
    for (const auto storage : {Storage::sliced, Storage::dense}) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      options_.write.file_system = files_;
      one.storage = storage;
      run_threads(n, [&](auto group) { one.save(group, "/run", options_); });
      run_threads(m, [&](auto group) {
        EXPECT_EQ(one.restore(group, "/run", options_), "") << "seed " << seed;
      });
      contents_ = read_contents(*files_, "/run/ckpt-7");
      if (storage == Storage::sliced) continue;
      for (const auto& tensor : contents_.tensors) EXPECT_FALSE(tensor.sliced) << tensor.key;
      EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-7"}).verdict(), Verdict::whole);
    }
  }
}

// A seed makes ranks take turns in another order; chunks of 4 KiB make many rounds.
TEST_F(Dense, ManyRoundsInAnyOrder) {
  options_.write.chunk_bytes = 4096;
  const Sample sample{"u", DType::uint32, {90, 111}};
  for (unsigned seed = 1; seed <= 4; ++seed) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    std::mt19937 random(seed);
    const auto held = test::deal(test::guillotine(sample.shape, 25, random), 5, true, random);
    run_threads(5,
                [&](std::shared_ptr<Group> group) {
                  test::SampleState mine(1);
                  mine.add(sample, held[static_cast<std::size_t>(group->rank())],
                           static_cast<int>(seed % 3));
                  mine.fill();
                  CheckpointManager(group, "/run", options_).save(1, mine.state());
                },
                {.seed = seed});
    EXPECT_EQ(read(sample), "") << "seed " << seed;
  }
}

// A field that cannot be read, like one on a lost device.
class BadMemory : public SliceMemory {
 public:
  void read(const Box&, std::byte*) const override { throw Error(Code::io, "the device is lost"); }
  void write(const Box&, const std::byte*) override {}
  bool writable() const override { return true; }
};

// Memory that cannot even tell where it is.
class LostMemory : public BadMemory {
 public:
  const std::byte* contiguous() const override { throw Error(Code::io, "the device is lost"); }
};

TEST_F(Dense, AnErrorOfOneRankIsOneErrorOfAllAndNothingIsLeft) {
  const std::vector<io::Fault> faults{{Code::no_space, "write", "part-", 1, 1},
                                      {Code::io, "sync", "part-00000", 1, 1},
                                      {Code::io, "create", "part-", 0, 1},
                                      {Code::io, "open", "part-", 1, 1}};
  for (std::size_t f = 0; f <= faults.size() + 1; ++f) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    options_.write.chunk_bytes = 4096;
    run_threads(3, [&](std::shared_ptr<Group> group) {
      std::vector<std::uint16_t> u(900 * 10);
      const auto mine = column_blocks({900, 30}, 3)[static_cast<std::size_t>(group->rank())];
      State good, bad;
      good.add("u", slice(u.data(), {900, 30}, mine.start, mine.extent));
      bad.add("u", slice(u.data(), {900, 30}, mine.start, mine.extent));
      if (f >= faults.size() && group->rank() == 1) {
        auto broken = nothing(DType::uint16, {900, 30});
        broken.slices.push_back({mine, f == faults.size() ? std::make_shared<BadMemory>()
                                                          : std::make_shared<LostMemory>()});
        bad = State();
        bad.add("u", broken);
      }
      CheckpointManager manager(group, "/run", options_);
      manager.save(1, good);
      group->barrier();
      if (group->rank() == 0 && f < faults.size()) files_->inject(faults[f]);
      group->barrier();
      std::string text;
      try {
        manager.save(2, bad);
        ADD_FAILURE() << "saved in spite of fault " << f;
      } catch (const Error& error) {
        text = error.what();
        if (f >= faults.size()) {
          EXPECT_EQ(text, "the device is lost");
        }
      }
      std::string first = text;
      group->broadcast(first, 0);
      EXPECT_EQ(text, first);
      group->barrier();
      EXPECT_EQ(manager.restore_latest(good)->step, 1);
      if (group->rank() == 0) {
        for (const auto& name : files_->list("/run"))
          EXPECT_THAT(name, testing::Not(HasSubstr("-2")));
      }
      manager.save(2, good);
      EXPECT_EQ(manager.restore_latest(good)->step, 2);
    });
  }
}

std::string bytes_at(std::int64_t from, std::int64_t count) {
  std::string bytes;
  for (auto i = from; i < from + count; ++i) bytes += static_cast<char>(i * 37 % 251);
  return bytes;
}

// A run of a tensor of shape [6 4] of two-byte elements, at 4096 of file 3.
StoredTensor run(const Box& box, std::int64_t first) {
  Piece slice;
  slice.box = box;
  slice.file = 3;
  slice.offset = 4096 + 2 * first;
  slice.stored_bytes = slice.raw_bytes = 2 * box.count();
  slice.crc32c = crc32c(bytes_at(2 * first, slice.stored_bytes));
  return {"u", DType::float16, {6, 4}, false, {slice}, ""};
}

TEST(DenseEntries, RunsOfAllRanksBecomeOneEntry) {
  const auto joined = join_entries({run({{2, 2}, {1, 2}}, 10), run({{0, 0}, {2, 4}}, 0),
                                    run({{3, 0}, {3, 4}}, 12), run({{2, 0}, {1, 2}}, 8)});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_FALSE(joined[0].sliced);
  ASSERT_EQ(joined[0].slices.size(), 1u);
  const auto& whole = joined[0].slices[0];
  EXPECT_EQ(whole.box, Box::whole({6, 4}));
  EXPECT_EQ(whole.file, 3);
  EXPECT_EQ(whole.offset, 4096);
  EXPECT_EQ(whole.stored_bytes, 48);
  EXPECT_EQ(whole.crc32c, crc32c(bytes_at(0, 48)));
}

TEST(DenseEntries, WhatMakesNoArrayIsRefused) {
  const auto low = run({{0, 0}, {3, 4}}, 0), high = run({{3, 0}, {3, 4}}, 12);
  const auto refusal = [&](StoredTensor a, StoredTensor b) {
    try {
      join_entries({std::move(a), std::move(b)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::internal);
      return std::string(error.what());
    }
    return std::string("joined");
  };
  EXPECT_EQ(refusal(low, high), "joined");
  auto gap = high;
  gap.slices[0].offset += 2;
  EXPECT_THAT(refusal(low, gap), test::Says("are no runs of one array: rows 3..5"));
  auto elsewhere = high;
  elsewhere.slices[0].file = 2;
  EXPECT_THAT(refusal(low, elsewhere), test::Says("are no runs of one array"));
  EXPECT_THAT(refusal(run({{0, 0}, {6, 2}}, 0), run({{0, 2}, {6, 2}}, 12)),
              test::Says("are no runs of one array: rows 0..5 × 0..1"));
  EXPECT_THAT(refusal(low, low), HasSubstr("overlap"));
  EXPECT_THAT(refusal(low, run({{3, 0}, {2, 4}}, 12)), test::Says("leave out rows 5..5"));
}

}  // namespace
}  // namespace cairn
