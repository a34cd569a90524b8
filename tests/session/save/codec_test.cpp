// A layout that encodes what it stores: nobody knows how long a piece is before it is written.
#include <cstring>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "plan_cache_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/run_lengths.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::run_lengths_codec;
using test::RunLengthLayout;
using testing::HasSubstr;

constexpr std::int64_t row_elements = 600;

// Each rank has rows of zeros but for a stamp, which become much less, and of noise, which become
// twice as long.
struct NoisyRows {
  std::vector<double> calm, noise;
  State state;

  explicit NoisyRows(Group& group, std::int64_t rows = 6) {
    const auto share = rows / group.size(), first = share * group.rank();
    calm.resize(static_cast<std::size_t>(share * row_elements));
    noise.resize(calm.size());
    state.add("calm", slice(calm.data(), {rows, row_elements}, {first, 0}, {share, row_elements}));
    state.add("noise",
              slice(noise.data(), {rows, row_elements}, {first, 0}, {share, row_elements}));
    first_ = first * row_elements;
  }
  void fill(std::int64_t stamp) {
    for (std::size_t i = 0; i < calm.size(); ++i) {
      const auto at = first_ + static_cast<std::int64_t>(i);
      calm[i] = at % 700 == stamp % 700 ? static_cast<double>(stamp) : 0;
      noise[i] = noise_at(at, stamp);
    }
  }
  void spoil() { std::fill(calm.begin(), calm.end(), -1), noise = calm; }
  // Whether the bits are those of this stamp.
  bool has(std::int64_t stamp) {
    const auto found = std::pair(calm, noise);
    fill(stamp);
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
    };
    return same(found.first, calm) && same(found.second, noise);
  }

 private:
  static double noise_at(std::int64_t at, std::int64_t stamp) {
    auto bits = static_cast<std::uint64_t>(at * 1000 + stamp) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u;
    return static_cast<double>(bits ^ bits >> 31);
  }
  std::int64_t first_ = 0;
};

class Encoded : public PlanCache {
 protected:
  template <class F>
  void rows_job(int ranks, F&& body, std::shared_ptr<io::FileSystem> disk = nullptr) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto options = options_;
      if (disk) options.write.file_system = disk;
      CheckpointManager manager(group, "/run", options);
      NoisyRows rows(*group);
      body(manager, rows, *group);
    });
  }
  void save(int ranks, std::int64_t step) {
    rows_job(ranks, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
      rows.fill(step);
      manager.save(step, rows.state);
    });
  }
  // What a job of so many ranks finds; 0: nothing, -1: not what was saved.
  std::int64_t found(int ranks, std::shared_ptr<io::FileSystem> disk = nullptr) {
    std::int64_t seen = 0;
    rows_job(
        ranks,
        [&](CheckpointManager& manager, NoisyRows& rows, Group& group) {
          rows.spoil();
          const auto report = manager.restore_latest(rows.state);
          const bool good = !report || rows.has(report->step);
          std::int64_t bad = !good;
          group.all_reduce({&bad, 1}, Group::Op::sum);
          if (group.rank() == 0) seen = bad ? -1 : report ? report->step : 0;
        },
        disk);
    return seen;
  }
  CheckpointContents contents(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step));
  }
};

TEST_F(Encoded, AnyRanksReadWhatOthersSaved) {
  const RunLengthLayout layout;
  for (const auto& pair : {std::pair(2, 3), std::pair(3, 1), std::pair(1, 2)}) {
    const int n = pair.first, m = pair.second;
    for (unsigned seed = 0; seed < 6; ++seed) {
      test::NToMCase one(n, m, seed);
      one.asynchronous = seed % 2;
      ManagerOptions options;
      options.write.file_system = std::make_shared<io::MemoryFileSystem>();
      if (seed % 3 == 1) options.write.io_ranks = IoRanks::count(1);
      if (seed % 3 == 2) options.write.io_ranks = IoRanks{.joined = true};
      run_threads(n, [&](auto group) { one.save(group, "/run", options); });
      run_threads(m, [&](auto group) {
        EXPECT_EQ(one.restore(group, "/run", options), "") << n << " to " << m << ", seed " << seed;
      });
    }
  }
}

TEST_F(Encoded, ChainsOfJobs) {
  const RunLengthLayout layout;
  options_.write.chunk_bytes = 4096;  // each rank wants parts of pieces
  std::int64_t step = 10;
  save(2, step);
  for (const int ranks : {3, 1}) {
    rows_job(ranks, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
      rows.spoil();
      EXPECT_EQ(manager.restore_latest(rows.state)->step, step);
      EXPECT_TRUE(rows.has(step));
      rows.fill(step + 10);
      manager.save_async(step + 10, rows.state);
      rows.spoil();
      manager.wait();
    });
    step += 10;
  }
  EXPECT_EQ(found(2), step);
}

TEST_F(Encoded, PiecesSayBothSizes) {
  const RunLengthLayout layout;
  save(2, 10);
  const auto stored = contents(10);
  std::map<std::int32_t, std::int64_t> ends;
  for (const auto& tensor : stored.tensors) {
    ASSERT_EQ(tensor.slices.size(), 2u);
    for (const auto& piece : tensor.slices) {
      EXPECT_EQ(piece.codec, run_lengths_codec);
      EXPECT_EQ(piece.raw_bytes, 3 * row_elements * 8);
      EXPECT_EQ(piece.offset, ends[piece.file]) << "the end of the last";
      ends[piece.file] += piece.stored_bytes;
      if (tensor.key == "calm") {
        EXPECT_LT(piece.stored_bytes, piece.raw_bytes / 50);
      } else {
        EXPECT_GT(piece.stored_bytes, piece.raw_bytes * 3 / 2);
      }
      const auto file = io::read_file(*files_, data_path(stored, piece.file), 1 << 24);
      EXPECT_EQ(crc32c(std::string_view(file).substr(static_cast<std::size_t>(piece.offset),
                                                     static_cast<std::size_t>(piece.stored_bytes))),
                piece.crc32c);
    }
  }
  EXPECT_EQ(verify_checkpoint(Address(files_, "/run/ckpt-10")).findings.size(), 0u);
  // Whole, and a part that begins and ends inside of pieces.
  const BundleReader reader("/run/ckpt-10", files_);
  const auto whole = reader.read("noise");
  ASSERT_EQ(whole.size(), 6u * row_elements * 8);
  const auto part = reader.read("noise", {{2, 100}, {2, 50}});
  for (const std::size_t row : {0, 1}) {
    EXPECT_EQ(part.substr(row * 400, 400), whole.substr(((2 + row) * row_elements + 100) * 8, 400));
  }
}

// What has no codec is written as ever, whatever this program knows.
TEST_F(Encoded, ALayoutWithoutACodecIsNotTouched) {
  save(2, 10);
  const auto bytes = [&](const io::Path& file) { return io::read_file(*files_, file, 1 << 24); };
  const auto plain = contents(10);
  {
    const AddedEncoding known(test::run_lengths);
    save(2, 20);
    EXPECT_EQ(found(1), 20);
  }
  const auto later = contents(20);
  for (std::size_t t = 0; t < plain.tensors.size(); ++t) {
    for (std::size_t s = 0; s < plain.tensors[t].slices.size(); ++s) {
      const auto &one = plain.tensors[t].slices[s], &other = later.tensors[t].slices[s];
      EXPECT_EQ(other.codec, Codec::none);
      EXPECT_EQ(one.offset, other.offset);
      EXPECT_EQ(other.stored_bytes, other.raw_bytes);
    }
  }
  EXPECT_EQ(bytes("/run/ckpt-10.index").size(), bytes("/run/ckpt-20.index").size());
}

// All bytes are durable and encoded, nothing is committed: a restart completes the save.
TEST_F(Encoded, AKillBetweenEncodingAndCommit) {
  const RunLengthLayout layout;
  save(2, 10);
  const auto killed = [&] {
    rows_job(2, [&](CheckpointManager& manager, NoisyRows& rows, Group& group) {
      rows.fill(20);
      manager.save_async(20, rows.state).wait_written();
      group.barrier();
      crash();
    });
  };
  EXPECT_THROW(killed(), Crashed);
  EXPECT_FALSE(io::exists(*files_, "/run/ckpt-20.index"));
  EXPECT_EQ(found(3), 20);
  const auto stored = contents(20);
  EXPECT_EQ(stored.tensors.at(0).slices.at(0).codec, run_lengths_codec);
  EXPECT_EQ(verify_checkpoint(Address(files_, "/run/ckpt-20")).findings.size(), 0u);
}

// The disk that a power failure leaves after each operation of a save, blocking or not.
TEST_F(Encoded, EveryCrashLeavesTheOldOrTheNew) {
  const RunLengthLayout layout;
  for (const bool async : {false, true}) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    options_.write.part_records = true;
    rows_job(
        2,
        [&](CheckpointManager& manager, NoisyRows& rows, Group& group) {
          rows.fill(10);
          manager.save(10, rows.state);
          group.barrier();
          if (group.rank() == 0) disk->mark();
          group.barrier();
          rows.fill(20);
          if (async) {
            manager.save_async(20, rows.state);
            manager.wait();
          } else {
            manager.save(20, rows.state);
          }
          group.barrier();
        },
        disk);
    std::set<std::int64_t> seen;
    for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
      for (const bool keep : {true, false}) {
        const io::CrashChoice choice{.keep = keep};
        const auto step = found(stop % 2 + 1, disk->crash(stop, choice));
        EXPECT_TRUE(step == 10 || step == 20) << step << ": " << disk->describe(stop, choice);
        seen.insert(step);
      }
    }
    EXPECT_EQ(seen, (std::set<std::int64_t>{10, 20}));
  }
}

// Of a save whose plan is there: one sum, with a codec or without, though all sizes are others.
TEST_F(Encoded, StoredSizesTakeNoMessageOfSaveAsync) {
  const auto calls = [&] {
    std::vector<int> all;
    options_.write.file_system = std::make_shared<io::MemoryFileSystem>();
    run_threads(2, [&](std::shared_ptr<Group> inner) {
      const auto group = std::make_shared<CountingGroup>(inner);
      CheckpointManager manager(group, "/run", options_);
      NoisyRows rows(*group);
      for (std::int64_t step = 10; step <= 30; step += 10) {
        rows.fill(step);
        for (std::int64_t i = 0; i < step; ++i) rows.calm[static_cast<std::size_t>(7 * i)] = 1;
        group->reductions = group->others = 0;
        const auto handle = manager.save_async(step, rows.state);
        if (inner->rank() == 0) all.push_back(group->reductions), all.push_back(group->others);
        group->reductions = group->others = 0;
        handle.wait_written();
        EXPECT_EQ(group->reductions + group->others, 0);
        manager.wait();
        if (step == 10 && inner->rank() == 0) all.push_back(group->reductions + group->others);
      }
    });
    return all;
  };
  const auto plain = calls();
  const RunLengthLayout layout;
  EXPECT_EQ(calls(), plain);
  EXPECT_THAT(plain, testing::ElementsAre(testing::_, testing::_, testing::_, 1, 0, 1, 0));
}

TEST_F(Encoded, AProgramWithoutTheCodecNamesIt) {
  {
    const RunLengthLayout layout;
    save(2, 10);
  }
  rows_job(2, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
    rows.spoil();
    const auto before = rows.calm;
    for (const auto& restore :
         std::vector<std::function<void()>>{[&] { manager.restore_latest(rows.state); },
                                            [&] { manager.restore(10, rows.state); }}) {
      test::expect_error(Code::unsupported, HasSubstr("codec 1000"), restore);
    }
    EXPECT_EQ(rows.calm, before);
    EXPECT_EQ(rows.noise, before);
  });
  const BundleReader reader("/run/ckpt-10", files_);
  test::expect_error(Code::unsupported, HasSubstr("codec 1000"), [&] { reader.read("calm"); });
  const auto report = verify_checkpoint(Address(files_, "/run/ckpt-10"));
  ASSERT_EQ(report.findings.size(), 2u);
  for (const auto& finding : report.findings) {
    EXPECT_EQ(finding.kind, Finding::Kind::unknown);
    EXPECT_THAT(finding.what, HasSubstr("codec 1000"));
  }
  const RunLengthLayout layout;
  EXPECT_EQ(found(1), 10) << "it is left as it was";
}

TEST_F(Encoded, DamageIsNoGarbage) {
  const RunLengthLayout layout;
  save(2, 10);
  save(2, 20);
  const auto piece = contents(20).tensors.at(1).slices.at(1);
  flip(data_path(contents(20), piece.file).string(), piece.offset + piece.stored_bytes / 2);
  rows_job(3, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
    test::expect_error(Code::data_loss, HasSubstr("tensor 'noise'"),
                       [&] { manager.restore(20, rows.state); });
  });
  EXPECT_EQ(found(3), 10);
}

TEST_F(Encoded, ReplicasAreComparedByWhatTheyHold) {
  const RunLengthLayout layout;
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    std::vector<double> same(5000, 3);
    State state;
    state.add("same", whole(same.data(), {5000}));
    manager.save(10, state);
    same[77] = group->rank() == 2 ? 4 : 3;
    test::expect_error(Code::disagreement, HasSubstr("same"), [&] { manager.save(20, state); });
  });
}

TEST_F(Encoded, FrozenTensorsAreWrittenInFull) {
  const RunLengthLayout layout;
  options_.frozen.keys = {"calm"};
  rows_job(2, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
    rows.fill(10);
    manager.save(10, rows.state);
    manager.save(20, rows.state);
    EXPECT_TRUE(rows.has(10));
  });
  EXPECT_EQ(contents(20).find("calm")->slices.at(0).codec, run_lengths_codec);
}

// Where each must know beforehand where its bytes lie.
TEST_F(Encoded, LayoutsOfSharedFilesSayThatTheyCannot) {
  const auto refused = [&] {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      test::expect_error(Code::unsupported, HasSubstr("codec 1000 (run lengths)"),
                         [&] { CheckpointManager(group, "/run", options_); });
    });
  };
  {
    options_.store.format = Format::hdf5;
    const RunLengthLayout layout(Format::hdf5);
    refused();
  }
  options_.store.format = Format::bundle;
  options_.write.writer = Writer::mpi_io;
  const RunLengthLayout layout;
  refused();
}

// One array that ranks write together keeps its place, in a file of its own.
TEST_F(Encoded, DenseTensorsAreStoredAsTheyAre) {
  const RunLengthLayout layout;
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    NoisyRows rows(*group);
    std::vector<double> dense(rows.noise.size(), group->rank());
    const std::int64_t all = 2 * std::ssize(dense);
    rows.state.add("dense", stored(Storage::dense, slice(dense.data(), {all},
                                                         {all / 2 * group->rank()}, {all / 2})));
    rows.fill(10);
    manager.save(10, rows.state);
    std::fill(dense.begin(), dense.end(), -1);
    rows.spoil();
    manager.restore(10, rows.state);
    EXPECT_EQ(dense, std::vector<double>(dense.size(), group->rank()));
    EXPECT_TRUE(rows.has(10));
  });
  EXPECT_EQ(contents(10).find("dense")->slices.at(0).codec, Codec::none);
  EXPECT_EQ(contents(10).find("noise")->slices.at(0).codec, run_lengths_codec);
}

}  // namespace
}  // namespace cairn
