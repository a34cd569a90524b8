// A layout that encodes: the stored length of a piece is not known before it is written.
#include "base/checksum.hpp"
#include "codec_kit.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "support/n_to_m.hpp"
#include "support/says.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/safetensors.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using test::run_lengths_codec;
using test::RunLengthLayout;
using testing::HasSubstr;

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
  // Reads the whole tensor, and a part that begins and ends inside of pieces.
  const BundleReader reader("/run/ckpt-10", files_);
  for (const auto* key : {"calm", "noise"}) EXPECT_EQ(reader.read(key), values(key, 10));
  const auto whole = values("noise", 10), part = reader.read("noise", {{2, 100}, {2, 50}});
  ASSERT_EQ(part.size(), 800u);
  for (const std::size_t row : {0, 1}) {
    EXPECT_EQ(part.substr(row * 400, 400), whole.substr(((2 + row) * row_elements + 100) * 8, 400));
  }
}

// Other checkpoints are made from an encoded one, by programs that have the codec.
TEST_F(Encoded, OthersAreMadeOfIt) {
  {
    const RunLengthLayout layout;
    save(2, 10);
  }
  const AddedEncoding known(test::run_lengths);
  const auto source = open_checkpoint(Address(files_, "/run/ckpt-10"));
  const auto expect_values = [&](const char* prefix, Codec codec) {
    const BundleReader reader(prefix, files_);
    for (const auto* key : {"calm", "noise"}) {
      EXPECT_EQ(reader.read(key), values(key, 10)) << prefix;
      for (const auto& piece : reader.contents().find(key)->slices) EXPECT_EQ(piece.codec, codec);
    }
  };
  convert_checkpoint(source, Address(files_, "/made/ckpt-10"));
  expect_values("/made/ckpt-10", Codec::none);
  // A merge does not touch its bytes.
  MergeOptions options;
  options.file_system = files_;
  merge_checkpoints({"/run/ckpt-10"}, "/merged/ckpt-10", options);
  expect_values("/merged/ckpt-10", run_lengths_codec);
  const auto path =
      export_safetensors(source, Address(files_, "/made/model.safetensors"), "", {}, {});
  const auto file = io::read_file(*files_, path, 1 << 24);
  const auto all = values("calm", 10) + values("noise", 10);
  ASSERT_GT(file.size(), all.size());
  EXPECT_TRUE(file.ends_with(all));
}

// A layout without a codec writes plain bytes, whatever codecs this program knows.
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

// Neither save_async nor its thread sends one message more. The merge is that of a save with a new
// plan, except that nothing is kept for the next one: stored sizes differ from save to save.
TEST_F(Encoded, StoredSizesTakeNoMessageOfSaveAsync) {
  struct Calls {
    std::vector<std::pair<int, int>> begin, merge;  // reductions, others; of rank 0
  };
  const auto calls = [&] {
    Calls all;
    options_.write.file_system = std::make_shared<io::MemoryFileSystem>();
    run_threads(2, [&](std::shared_ptr<Group> inner) {
      const auto group = std::make_shared<CountingGroup>(inner);
      CheckpointManager manager(group, "/run", options_);
      NoisyRows rows(*group);
      const auto take = [&] {
        return std::pair(std::exchange(group->reductions, 0), std::exchange(group->others, 0));
      };
      for (std::int64_t step = 10; step <= 40; step += 10) {
        rows.fill(step);
        for (std::int64_t i = 0; i < step; ++i) rows.calm[static_cast<std::size_t>(7 * i)] = 1;
        take();
        const auto handle = manager.save_async(step, rows.state);
        const auto begin = take();
        handle.wait_written();
        EXPECT_EQ(take(), std::pair(0, 0));
        manager.wait();
        const auto merge = take();
        if (inner->rank() > 0) continue;
        all.begin.push_back(begin);
        all.merge.push_back(merge);
      }
    });
    return all;
  };
  const auto plain = calls();
  const RunLengthLayout layout;
  const auto encoded = calls();
  EXPECT_EQ(encoded.begin, plain.begin);
  for (std::size_t i = 1; i < plain.begin.size(); ++i) {
    EXPECT_EQ(plain.begin[i], std::pair(1, 0));
    EXPECT_EQ(encoded.merge[i], encoded.merge[0]);
  }
  EXPECT_EQ(encoded.merge[0], plain.merge[0]);
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

// Layouts where each rank must know beforehand where its bytes are refuse a codec.
TEST_F(Encoded, LayoutsOfSharedFilesSayThatTheyCannot) {
  const auto refused = [&] {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      test::expect_error(Code::unsupported, test::Says("codec 1000 (run lengths)"),
                         [&] { CheckpointManager(group, "/run", options_); });
    });
  };
  if (hdf5::available()) {
    options_.store.format = Format::hdf5;
    const RunLengthLayout layout(Format::hdf5);
    refused();
  }
  options_.store.format = Format::bundle;
  options_.write.writer = Writer::mpi_io;
  const RunLengthLayout layout;
  refused();
}

// An array that ranks write together is not encoded; it has a file of its own.
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
