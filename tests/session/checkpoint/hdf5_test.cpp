// What is particular to checkpoints that are HDF5 files; the conformance suite has the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/read_holders.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/read_tensor.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::Sample;
using testing::ElementsAre, testing::HasSubstr;
using testing::Not;

class Hdf5 : public testing::Test {
 protected:
  Hdf5() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.store.format = Format::hdf5;
  }
  void fresh() {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
  }
  // One rank saves a number.
  void save(std::int64_t step, double value, Format format = Format::hdf5) {
    auto options = options_;
    options.store.format = format;
    State state;
    state.add("u", value);
    CheckpointManager(serial_group(), "/run", options).save(step, state);
  }
  std::string text_of(const std::string& path) {
    return io::read_file(*files_, path, std::int64_t{1} << 30);
  }
  void replace(const std::string& path, const std::string& bytes) {
    files_->remove(path);
    io::write_file(*files_, path, bytes);
  }
  std::string verified(const std::string& prefix) {
    const auto report = verify_checkpoint({*files_, prefix});
    if (report.verdict() == Verdict::whole) return "";
    return report.findings.front().what;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

TEST_F(Hdf5, EachDTypeIsOneContiguousDataset) {
  std::vector<Sample> samples;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype || dtype_size(*dtype) == 0) continue;
    samples.push_back({cat("all/", dtype_name(*dtype)), *dtype, {7, 5}});
  }
  run_threads(3, [&](std::shared_ptr<Group> group) {
    test::SampleState mine(1);
    for (const auto& sample : samples) {
      Box box{{group->rank() * 2, 0}, {group->rank() == 2 ? 3 : 2, 5}};
      mine.add(sample, {box}, group->rank());
    }
    mine.fill();
    CheckpointManager manager(group, "/run", options_);
    manager.save(1, mine.state());
    const auto contents = manager.open(1);
    EXPECT_EQ(contents.format, Format::hdf5);
    EXPECT_EQ(contents.num_files, 1);
    for (const auto& sample : samples) {
      const auto* tensor = contents.find(sample.key);
      ASSERT_TRUE(tensor) << sample.key;
      EXPECT_EQ(tensor->dtype, sample.dtype);
      ASSERT_EQ(tensor->slices.size(), 1u);
      EXPECT_EQ(tensor->slices[0].box, Box::whole(sample.shape));
    }
    mine.poison();
    manager.restore_latest(mine.state());
    EXPECT_EQ(mine.check(1), "");
  });
  EXPECT_EQ(verified("/run/ckpt-1"), "");
}

TEST_F(Hdf5, StringsComeBackAsTheyWereAndFromWhoeverHasThem) {
  const std::vector<std::string> words{"", std::string("a\0b\0", 4), "caf\xc3\xa9", "\xff\xfe",
                                       std::string(100000, 'x')};
  run_threads(3, [&](std::shared_ptr<Group> group) {
    auto values = words;
    std::string alone = "one\n";
    std::vector<std::string> none;
    std::int64_t step = 3;
    State state;
    if (group->rank() == 2) state.add("only/words", values);
    state.add("alone", alone).add("none", none).add("step", step);
    CheckpointManager manager(group, "/run", options_);
    manager.save(1, state);
    std::vector<std::string> read(words.size());
    State wanted;
    alone.clear();
    step = 0;
    wanted.add("only/words", read).add("alone", alone).add("none", none).add("step", step);
    manager.restore(1, wanted);
    EXPECT_EQ(read, words);
    EXPECT_EQ(alone, "one\n");
    EXPECT_EQ(step, 3);
  });
  EXPECT_EQ(verified("/run/ckpt-1"), "");
}

TEST_F(Hdf5, KeysThatHdf5CannotHoldAreOneErrorOfAllAndLeaveNothing) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    double a = 1, b = 2;
    State state;
    state.add("u", a).add("u/old", b);
    CheckpointManager manager(group, "/run", options_);
    try {
      manager.save(1, state);
      ADD_FAILURE() << "saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_EQ(error.tensor(), "u/old");
      EXPECT_THAT(error.what(), HasSubstr("'u' is a tensor"));
    }
    State good;
    good.add("u", a);
    manager.save(1, good);
  });
  EXPECT_THAT(files_->list("/run"), ElementsAre(".cairn", "checkpoint", "ckpt-1.h5"));
}

TEST_F(Hdf5, TakesOptionsThatFitIt) {
  const auto refused = [&](const ManagerOptions& options) -> std::string {
    try {
      CheckpointManager(serial_group(), "/run", options);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported);
      return error.what();
    }
  };
  auto options = options_;
  options.write.atomic_rename = false;
  EXPECT_THAT(refused(options), test::Says("its commit is a rename"));
  fresh();
  options = options_;
  const auto none = [](const std::string&) { return std::vector<std::string>{}; };
  options.hooks.savers.push_back({"one", none, [](const std::string&) {}});
  EXPECT_THAT(refused(options), test::Says("registered savers"));
  EXPECT_EQ(refused(options_), "");
}

TEST_F(Hdf5, RanksAgreeOnTheFormat) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    auto options = options_;
    if (group->rank() == 1) options.store.format = Format::bundle;
    try {
      CheckpointManager(group, "/run", options);
      ADD_FAILURE() << "made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::disagreement);
    }
  });
}

// The device is that of the memory, not of the rank that wrote; io ranks make no difference.
TEST_F(Hdf5, SaysWhichDeviceTaskHeldEachSlice) {
  for (const bool io_ranks : {false, true}) {
    SCOPED_TRACE(io_ranks);
    fresh();
    if (io_ranks) options_.write.io_ranks = IoRanks::one_a_node();
    options_.store.device_of = [](int rank, const LocalTensor& tensor) {
      DeviceTask task;
      task.job = "sim";
      task.task = rank;
      task.device_type = tensor.device_type;
      return task;
    };
    run_threads(3, [&](std::shared_ptr<Group> group) {
      const auto rank = group->rank();
      std::vector<float> u(8, static_cast<float>(rank)), v(4), both(3);
      std::vector<std::string> words{"a"};
      std::vector<double> none;
      State state;
      state.add("u", slice(u.data(), {6, 4}, {2 * (2 - rank), 0}, {2, 4}));
      if (rank == 1) {
        auto on_device = whole(v.data(), {4});
        on_device.device_type = "CUDA";
        state.add("dir/v", on_device).add("words", words);
      }
      if (rank > 0) state.add("both", whole(both.data(), {3}));
      state.add("none", none);
      CheckpointManager(group, "/run", options_).save(1, state);
    });
    const auto contents = read_contents(*files_, "/run/ckpt-1");
    const auto holders = read_holders({*files_, contents});
    ASSERT_TRUE(holders);
    const auto held = [&](const std::string& key) {
      std::string text;
      for (const auto& one : holders->tensors.at(key)) {
        text += cat(box_text(one.box), " by ", holders->tasks.at(one.task), "; ");
      }
      return text;
    };
    EXPECT_EQ(held("u"),
              "rows 0..1 × 0..3 by /job:sim/replica:0/task:2/device:CPU:0; "
              "rows 2..3 × 0..3 by /job:sim/replica:0/task:1/device:CPU:0; "
              "rows 4..5 × 0..3 by /job:sim/replica:0/task:0/device:CPU:0; ");
    EXPECT_EQ(held("dir/v"), "rows 0..3 by /job:sim/replica:0/task:1/device:CUDA:0; ");
    EXPECT_EQ(held("words"), "rows 0..0 by /job:sim/replica:0/task:1/device:CPU:0; ");
    EXPECT_THAT(held("both"),
                testing::AnyOf(HasSubstr("task:1/device:CPU"), HasSubstr("task:2/device:CPU")));
    EXPECT_THAT(held("both"), testing::StartsWith("rows 0..2 by "));
    EXPECT_EQ(holders->tensors.at("none").size(), 1u);
    EXPECT_EQ(holders->tensors.size(), contents.tensors.size());
    EXPECT_EQ(verified("/run/ckpt-1"), "");

    // The device is under a checksum, and no restore needs it.
    auto bytes = text_of("/run/ckpt-1.h5");
    const auto at = bytes.find("/job:sim");
    ASSERT_NE(at, bytes.npos);
    bytes[at + 5] = 'S';
    replace("/run/ckpt-1.h5", bytes);
    EXPECT_THAT(verified("/run/ckpt-1"), HasSubstr("_cairn/slices"));
    EXPECT_THROW(read_holders({*files_, contents}), Error);
    std::vector<float> v(4);
    State wanted;
    wanted.add("dir/v", whole(v.data(), {4}));
    CheckpointManager(serial_group(), "/run", options_).restore(1, wanted);
  }
}

TEST_F(Hdf5, ObjectGraphsAndTheOtherFace) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<float> u(3, static_cast<float>(group->rank() + 1));
    State state;
    state.add("layer/u", slice(u.data(), {6}, {group->rank() * 3}, {3}));
    CheckpointOptions options;
    options.store.format = Format::hdf5;
    options.store.object_graph = true;
    options.write.file_system = files_;
    Checkpoint checkpoint(group, state, options);
    const auto path = checkpoint.save("/run/model");
    EXPECT_EQ(path, "/run/model-1");
    EXPECT_EQ(latest_checkpoint(group, "/run", files_), "/run/model-1");
    std::fill(u.begin(), u.end(), 0.f);
    checkpoint.restore(path).assert_consumed();
    EXPECT_EQ(u[0], static_cast<float>(group->rank() + 1));
    checkpoint.write("/run/exactly");
    checkpoint.write("/run/exactly");
    checkpoint.read("/run/exactly").assert_existing_objects_matched();
  });
  EXPECT_EQ(verified("/run/exactly"), "");
  EXPECT_TRUE(files_->status("/run/exactly.h5"));
}

TEST_F(Hdf5, LiesBesideBundlesInOneDirectory) {
  save(1, 1, Format::bundle);
  save(2, 2);
  save(3, 3, Format::bundle);
  save(4, 4);
  double u = 0;
  State state;
  state.add("u", u);
  for (const auto format : {Format::bundle, Format::hdf5}) {
    options_.store.format = format;
    CheckpointManager manager(serial_group(), "/run", options_);
    EXPECT_EQ(manager.steps().size(), 4u);
    EXPECT_EQ(manager.restore_latest(state)->step, 4);
    EXPECT_EQ(u, 4);
    for (int step = 1; step <= 4; ++step) {
      manager.restore(step, state);
      EXPECT_EQ(u, step);
      EXPECT_EQ(manager.open(step).format, step % 2 ? Format::bundle : Format::hdf5);
      EXPECT_EQ(read_holders({*files_, manager.open(step)}).has_value(), step % 2 == 0);
    }
    manager.restore(4, state);
  }
  options_.keep.last = 2;
  options_.store.format = Format::hdf5;
  save(5, 5);
  EXPECT_THAT(files_->list("/run"), ElementsAre(".cairn", "checkpoint", "ckpt-4.h5", "ckpt-5.h5"));
}

TEST_F(Hdf5, AStepOfTheOtherFormatExists) {
  for (const auto first : {Format::bundle, Format::hdf5}) {
    fresh();
    options_.overwrite = false;
    const auto second = first == Format::bundle ? Format::hdf5 : Format::bundle;
    save(7, 1, first);
    try {
      save(7, 2, second);
      FAIL() << "saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::already_exists);
    }
    options_.overwrite = true;
    save(7, 2, second);
    EXPECT_EQ(files_->list("/run").size(), second == Format::hdf5 ? 3u : 5u);
    double u = 0;
    State state;
    state.add("u", u);
    EXPECT_EQ(CheckpointManager(serial_group(), "/run", options_).restore_latest(state)->step, 7);
    EXPECT_EQ(u, 2);
  }
}

TEST_F(Hdf5, FilesOfOthersAreNeitherListedNorReplaced) {
  save(1, 1);
  const std::string foreign = "\211HDF\r\n\032\n and so on, by another program";
  io::write_file(*files_, "/run/ckpt-2.h5", foreign);
  double u = 0;
  State state;
  state.add("u", u);
  CheckpointManager manager(serial_group(), "/run", options_);
  EXPECT_EQ(manager.steps().size(), 1u);
  EXPECT_EQ(manager.restore_latest(state)->step, 1);
  try {
    manager.save(2, state);
    FAIL() << "saved";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::already_exists);
    EXPECT_THAT(error.what(), test::Says("Cairn did not write it"));
  }
  EXPECT_EQ(text_of("/run/ckpt-2.h5"), foreign);
  try {
    manager.restore(2, state);
    FAIL() << "restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_THAT(error.what(), test::Says("none that Cairn wrote"));
  }
}

// Every byte of a file is covered by some check.
TEST_F(Hdf5, EachFlippedByteIsFoundAndNoneRestoresWrongly) {
  const Sample sample{"group/u", DType::float32, {50, 3}};
  const std::vector<std::string> words{"one", "two"};
  test::SampleState mine(1);
  mine.add(sample, {Box::whole(sample.shape)}, 0);
  mine.add_string("words", words);
  mine.fill();
  CheckpointManager(serial_group(), "/run", options_).save(1, mine.state());
  const auto good = text_of("/run/ckpt-1.h5");
  options_.read_only = true;
  options_.restore.fall_back = false;
  std::size_t restored = 0, refused = 0;
  // All bytes at the end of the file, and a sample of the others.
  for (std::size_t at = 0; at < good.size(); at += at + 300 < good.size() ? 7 : 1) {
    SCOPED_TRACE(cat("byte ", at, " of ", good.size()));
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    replace("/run/ckpt-1.h5", bad);
    ASSERT_EQ(verify_checkpoint({*files_, "/run/ckpt-1"}).verdict(), Verdict::damaged);
    test::SampleState read(1);
    std::vector<std::string> read_words(2);
    read.add(sample, {Box::whole(sample.shape)}, 0);
    read.state().add("words", read_words);
    try {
      CheckpointManager(serial_group(), "/run", options_).restore(1, read.state());
      ASSERT_EQ(read.check(1), "");
      ASSERT_EQ(read_words, words);
      ++restored;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::data_loss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(restored, 0u);  // bytes that only HDF5's readers need
  EXPECT_GT(refused, 0u);
}

// The damage is found before the table is parsed.
TEST_F(Hdf5, ADamagedTableIsFoundByItsOwnChecksum) {
  save(1, 1);
  const auto good = text_of("/run/ckpt-1.h5");
  const auto seal =
      hdf5::decode_seal(good.substr(good.size() - 64), static_cast<std::int64_t>(good.size()));
  options_.read_only = true;
  for (const std::int64_t at : {std::int64_t{0}, seal.table_bytes / 2, seal.table_bytes - 1}) {
    auto bad = good;
    bad[static_cast<std::size_t>(seal.table_offset + at)] ^= 1;
    replace("/run/ckpt-1.h5", bad);
    double u = 0;
    State state;
    state.add("u", u);
    try {
      CheckpointManager(serial_group(), "/run", options_).restore(1, state);
      FAIL() << "restored";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_THAT(error.what(), test::Says("the checksum table of the HDF5 file is damaged"));
    }
  }
}

TEST_F(Hdf5, ACutFileIsDamagedAndPassedOver) {
  save(1, 1);
  save(2, 2);
  const auto good = text_of("/run/ckpt-2.h5");
  double u = 0;
  State state;
  state.add("u", u);
  for (const auto bytes : {good.size() - 1, good.size() - 64, good.size() - 128, good.size() / 2,
                           std::size_t{4096}, std::size_t{2000}}) {
    SCOPED_TRACE(cat(bytes, " bytes of ", good.size()));
    replace("/run/ckpt-2.h5", good.substr(0, bytes));
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-2"}).verdict(), Verdict::damaged);
    options_.read_only = true;
    CheckpointManager manager(serial_group(), "/run", options_);
    const auto report = manager.restore_latest(state);
    EXPECT_EQ(report->step, 1);
    ASSERT_EQ(report->skipped.size(), 1u);
    EXPECT_THAT(report->skipped[0], test::Says("does not end as Cairn left it"));
    EXPECT_EQ(u, 1);
  }
  replace("/run/ckpt-2.h5", good + "and more");
  EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-2"}).verdict(), Verdict::damaged);
  // A damaged step is replaced by the next save of it.
  options_.read_only = false;
  save(2, 5);
  EXPECT_EQ(verified("/run/ckpt-2"), "");
}

TEST_F(Hdf5, VerifyFirstTouchesNothingBeforeAllIsProved) {
  const Sample sample{"u", DType::float64, {100, 100}};
  test::SampleState mine(1);
  mine.add(sample, {Box::whole(sample.shape)}, 0);
  mine.fill();
  CheckpointManager(serial_group(), "/run", options_).save(1, mine.state());
  auto bytes = text_of("/run/ckpt-1.h5");
  const auto contents = read_contents(*files_, "/run/ckpt-1");
  bytes[static_cast<std::size_t>(contents.find("u")->slices[0].offset + 79999)] ^= 1;
  replace("/run/ckpt-1.h5", bytes);
  options_.restore.verify_first = true;
  std::vector<double> u(10000, 3.0);
  State state;
  state.add("u", whole(u.data(), {100, 100}));
  EXPECT_THROW(CheckpointManager(serial_group(), "/run", options_).restore(1, state), Error);
  EXPECT_EQ(u, std::vector<double>(10000, 3.0));
}

TEST_F(Hdf5, AStateOfAnotherDtypeOrShapeIsRefused) {
  save(1, 1);
  CheckpointManager manager(serial_group(), "/run", options_);
  float one = 0;
  State other_dtype;
  other_dtype.add("u", one);
  EXPECT_THROW(manager.restore(1, other_dtype), Error);
  std::vector<double> many(2);
  State other_shape;
  other_shape.add("u", many);
  EXPECT_THROW(manager.restore(1, other_shape), Error);
  RestoreOptions options;
  options.convert = Conversion::exact;
  manager.restore(1, other_dtype, options);
  EXPECT_EQ(one, 1.f);
}

TEST_F(Hdf5, ManySmallTensors) {
  std::vector<double> values(10000);
  State state;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i);
    state.add(cat("group-", i % 10, "/t", i), values[i]);
  }
  CheckpointManager manager(serial_group(), "/run", options_);
  const auto before = files_->operation_count();
  manager.save(1, state);
  EXPECT_LT(files_->operation_count() - before, 12000u);  // one write a tensor, and little more
  std::fill(values.begin(), values.end(), -1.0);
  manager.restore(1, state);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<double>(i));
  EXPECT_LT(text_of("/run/ckpt-1.h5").size(), 12u << 20);
}

TEST_F(Hdf5, PinsHoldIt) {
  options_.keep.last = 1;
  save(1, 1);
  {
    CheckpointManager manager(serial_group(), "/run", options_);
    manager.pin(1);
  }
  save(2, 2);
  save(3, 3);
  EXPECT_THAT(files_->list("/run"), ElementsAre(".cairn", "checkpoint", "ckpt-1.h5", "ckpt-3.h5"));
}

}  // namespace
}  // namespace cairn
