// HDF5 checkpoints whose tensors are chunks that went through filters. tests/interop/open_hdf5.py
// lets h5py judge them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "layout/bundle/index.hpp"
#include "layout/codec.hpp"
#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/forwarding_files.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/read_tensor.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

constexpr std::int64_t rows = 977, columns = 301;

// A file of HDF5 for libhdf5 to read.
class Bytes : public hdf5::ByteFile {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  void write(std::int64_t, std::span<const std::byte>) override { FAIL(); }
  void truncate(std::int64_t) override { FAIL(); }
  void flush() override {}
  std::int64_t size() const override { return std::ssize(bytes_); }

 private:
  std::string bytes_;
};

// What ranks hold of each tensor: rows, dealt out.
struct Fields {
  explicit Fields(Group& group, std::int64_t step) {
    const auto first = rows * group.rank() / group.size();
    const auto end = rows * (group.rank() + 1) / group.size();
    box = {{first, 0}, {end - first, columns}};
    for (auto row = first; row < end; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        smooth.push_back(smooth_at(step, row, column));
        noise.push_back(noise_at(step, row, column));
      }
    }
    small.assign(3, static_cast<std::int32_t>(step));
    state.add("deep/smooth", slice(smooth.data(), {rows, columns}, box.start, box.extent));
    state.add("noise", slice(noise.data(), {rows, columns}, box.start, box.extent));
    if (group.rank() == 0) state.add("small", whole(small.data(), {3}));
    state.add("word", text);
  }
  static double smooth_at(std::int64_t step, std::int64_t row, std::int64_t column) {
    return std::floor(std::sin(static_cast<double>(row + step) / 50) * 100) +
           static_cast<double>(column / 40);
  }
  static std::uint64_t noise_at(std::int64_t step, std::int64_t row, std::int64_t column) {
    auto bits = static_cast<std::uint64_t>(step * 1000003 + row * columns + column + 1);
    for (int i = 0; i < 3; ++i) bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9;
    return bits ^ bits >> 32;
  }
  void spoil() {
    std::fill(smooth.begin(), smooth.end(), -1);
    std::fill(noise.begin(), noise.end(), 77);
    std::fill(small.begin(), small.end(), -1);
  }

  Box box;
  std::vector<double> smooth;
  std::vector<std::uint64_t> noise;
  std::vector<std::int32_t> small;
  std::string text = "words";
  State state;
};

std::string of_whole(auto at, std::int64_t step) {
  std::string bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto value = at(step, row, column);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return bytes;
}

class Hdf5Codec : public testing::TestWithParam<StoreCodec> {
 protected:
  Hdf5Codec() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.store.format = Format::hdf5;
    options_.store.codec = GetParam();
  }
  void SetUp() override {
    const auto codec = Codec(static_cast<int>(GetParam()) - 1);
    if (!is_known(codec)) GTEST_SKIP() << "this build lacks " << codec_text(codec);
  }
  void save(int ranks, std::int64_t step, bool async = false) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      Fields fields(*group, step);
      if (async) {
        manager.save_async(step, fields.state);
        fields.spoil();
        manager.wait();
      } else {
        manager.save(step, fields.state);
      }
    });
  }
  void expect_restored(int ranks, std::int64_t step) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Fields fields(*group, step);
      const auto expected = fields.smooth;
      const auto noise = fields.noise;
      fields.spoil();
      CheckpointManager manager(group, "/run", options_);
      manager.restore(step, fields.state);
      EXPECT_TRUE(fields.smooth == expected);
      EXPECT_TRUE(fields.noise == noise);
      EXPECT_EQ(fields.text, "words");
      if (group->rank() == 0) {
        EXPECT_EQ(fields.small, std::vector<std::int32_t>(3, static_cast<std::int32_t>(step)));
      }
    });
  }
  // Step 10 is what it should be, as libhdf5 reads it.
  void expect_library_reads() {
    hdf5::ForeignFile file(
        std::make_unique<Bytes>(io::read_file(*files_, "/run/ckpt-10.h5", std::int64_t{1} << 30)));
    const auto expect = [&](const char* key, const std::string& bytes) {
      const auto found = file.find(key);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->shape, (Dims{rows, columns}));
      std::string read(bytes.size(), '\0');
      file.read(key, *found, Box::whole(found->shape), reinterpret_cast<std::byte*>(read.data()));
      EXPECT_TRUE(read == bytes) << key;
    };
    expect("deep/smooth", of_whole(Fields::smooth_at, 10));
    expect("noise", of_whole(Fields::noise_at, 10));
  }
  CheckpointContents contents(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step));
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options_;
};

INSTANTIATE_TEST_SUITE_P(All, Hdf5Codec,
                         testing::Values(StoreCodec::deflate, StoreCodec::zstd, StoreCodec::blosc),
                         [](const auto& one) {
                           return words(one.param)[static_cast<std::size_t>(one.param)];
                         });

TEST_P(Hdf5Codec, NToM) {
  for (const bool async : {false, true}) {
    const auto step = async ? 20 : 10;
    save(3, step, async);
    for (const int ranks : {1, 2, 7}) expect_restored(ranks, step);
    EXPECT_EQ(verify_checkpoint(Address(files_, cat("/run/ckpt-", step))).findings.size(), 0u);
  }
}

TEST_P(Hdf5Codec, WhatIsStored) {
  save(2, 10);
  const auto stored = contents(10);
  const auto* smooth = stored.find("deep/smooth");
  ASSERT_NE(smooth, nullptr);
  EXPECT_GT(smooth->slices.size(), 4u);
  std::int64_t bytes = 0;
  for (const auto& piece : smooth->slices) {
    EXPECT_EQ(piece.codec, Codec(static_cast<int>(GetParam()) - 1));
    bytes += piece.stored_bytes;
  }
  EXPECT_LT(bytes * 8, rows * columns * 8);
  // Noise is stored as it is, but for the last chunk, which is filled up.
  const auto* noise = stored.find("noise");
  std::int64_t noise_bytes = 0;
  for (const auto& piece : noise->slices) {
    EXPECT_EQ(piece.codec == Codec::none, piece.box.end(0) < rows);
    noise_bytes += piece.stored_bytes;
  }
  EXPECT_LE(noise_bytes, rows * columns * 8 * 1001 / 1000);
  EXPECT_EQ(stored.find("small")->slices.at(0).codec, Codec::none);
}

// Some bytes of HDF5 are right only at the commit.
TEST_P(Hdf5Codec, LibraryReadsIt) {
  if (GetParam() != StoreCodec::deflate) GTEST_SKIP() << "it takes a plugin";
  save(3, 10, true);
  expect_library_reads();
}

// All is durable and nothing is committed: a restart writes the chunk indexes.
TEST_P(Hdf5Codec, WrittenIsCompleted) {
  options_.write.owner_wait_seconds = 0;
  save(2, 10);
  files_->mark();
  std::shared_ptr<io::MemoryFileSystem> left;
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    Fields fields(*group, 20);
    manager.save_async(20, fields.state).wait_written();
    group->barrier();
    if (group->rank() == 0) left = files_->crash(files_->operation_count(), {.keep = false});
    group->barrier();
    manager.wait();
  });
  files_ = left;
  options_.write.file_system = left;
  EXPECT_FALSE(files_->status("/run/ckpt-20.h5"));
  expect_restored(3, 20);
  EXPECT_EQ(verify_checkpoint(Address(files_, "/run/ckpt-20")).findings.size(), 0u);
}

// -- bad bytes -----------------------------------------------------------------------------------

class BadChunk : public Hdf5Codec {
 protected:
  // The state's step 20 is bad, and 10 is good.
  void save_both() {
    save(2, 10);
    save(2, 20);
  }
  // Changes a piece in the checksum table, and seals the table again.
  void change(const std::string& key, const std::function<void(std::string& bytes, Piece&)>& how,
              std::size_t number = 0) {
    const io::Path path = "/run/ckpt-20.h5";
    auto all = contents(20);
    auto bytes = io::read_file(*files_, path, std::int64_t{1} << 30);
    for (auto& tensor : all.tensors) {
      if (tensor.key == key) how(bytes, tensor.slices.at(number ? tensor.slices.size() - 1 : 0));
    }
    auto tensors = all.tensors;
    tensors.insert(tensors.end(), all.own.begin(), all.own.end());
    const auto table = bundle::build_index(1, tensors);
    const auto file_bytes = std::ssize(bytes);
    auto seal = hdf5::decode_seal(std::string_view(bytes).substr(bytes.size() - hdf5::seal_bytes),
                                  file_bytes);
    ASSERT_EQ(std::ssize(table) <= seal.table_bytes + 16, true);
    seal.table_bytes = std::ssize(table);
    seal.table_crc32c = crc32c(table);
    bytes.replace(static_cast<std::size_t>(seal.table_offset), table.size(), table);
    bytes.replace(bytes.size() - hdf5::seal_bytes, hdf5::seal_bytes, hdf5::encode_seal(seal));
    files_->remove(path);
    io::write_file(*files_, path, bytes);
  }
  void expect_bad(Code code, const std::string& key, const std::string& why) {
    const auto named =
        testing::AllOf(testing::HasSubstr(cat("tensor '", key, "'")), testing::HasSubstr(why));
    run_threads(3, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      Fields fields(*group, 20);
      test::expect_error(code, named, [&] { manager.restore(20, fields.state); });
      if (code != Code::data_loss) return;
      EXPECT_EQ(manager.restore_latest(fields.state)->step, 10);
    });
    const auto report = verify_checkpoint(Address(files_, "/run/ckpt-20"));
    EXPECT_EQ(report.verdict(), code == Code::data_loss ? Verdict::damaged : Verdict::unknown);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().key, key);
  }
  static void take_checksum(std::string& bytes, Piece& piece) {
    piece.crc32c = crc32c(std::string_view(bytes).substr(
        static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.stored_bytes)));
  }
};

INSTANTIATE_TEST_SUITE_P(All, BadChunk,
                         testing::Values(StoreCodec::deflate, StoreCodec::zstd, StoreCodec::blosc),
                         [](const auto& one) {
                           return words(one.param)[static_cast<std::size_t>(one.param)];
                         });

TEST_P(BadChunk, DamagedBytes) {
  save_both();
  change("deep/smooth", [](std::string& bytes, Piece& piece) {
    bytes[static_cast<std::size_t>(piece.offset + piece.stored_bytes / 2)] ^= 1;
  });
  expect_bad(Code::data_loss, "deep/smooth", "checksum of ");
}

TEST_P(BadChunk, ThatDoesNotDecode) {
  save_both();
  change("deep/smooth", [](std::string& bytes, Piece& piece) {
    for (std::int64_t i = 0; i < piece.stored_bytes; ++i) {
      bytes[static_cast<std::size_t>(piece.offset + i)] ^= 0x5a;
    }
    take_checksum(bytes, piece);
  });
  expect_bad(Code::data_loss, "deep/smooth", "cannot be decoded");
}

// The table says less than the chunk has.
TEST_P(BadChunk, ThatDecodesToMore) {
  save_both();
  change(
      "deep/smooth", [](std::string&, Piece& piece) { piece.raw_bytes = piece.box.count() * 8; },
      1);
  expect_bad(Code::data_loss, "deep/smooth", "cannot be decoded");
}

TEST_P(BadChunk, ThatDecodesToLess) {
  save_both();
  change("deep/smooth", [](std::string&, Piece& piece) { piece.raw_bytes += 8; });
  expect_bad(Code::data_loss, "deep/smooth", "cannot be decoded");
}

// No memory of that size is asked for.
TEST_P(BadChunk, Bomb) {
  save_both();
  change("deep/smooth", [](std::string& bytes, Piece& piece) {
    piece.raw_bytes = std::int64_t{1} << 32;
    piece.stored_bytes = 16;
    take_checksum(bytes, piece);
  });
  expect_bad(Code::data_loss, "deep/smooth", "never become");
}

TEST_P(BadChunk, ThatDecodesToOtherValues) {
  save_both();
  change("deep/smooth", [](std::string&, Piece& piece) { piece.raw_crc32c ^= 1; });
  expect_bad(Code::data_loss, "deep/smooth", "decoded bytes is");
}

TEST_P(BadChunk, OfAFilterThatIsNotThere) {
  save_both();
  change("deep/smooth", [](std::string&, Piece& piece) { piece.codec = Codec(99); });
  expect_bad(Code::unsupported, "deep/smooth", "codec 99");
}

TEST(Hdf5CodecOptions, BundlesAndSharedFilesAreRefused) {
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.codec = StoreCodec::automatic;
  test::expect_error(Code::unsupported, test::Says("a bundle takes no store.codec"),
                     [&] { CheckpointManager(serial_group(), "/run", options); });
  options.store.format = Format::hdf5;
  options.write.writer = Writer::mpi_io;
  test::expect_error(Code::unsupported, test::Says("store.codec does not go with"),
                     [&] { CheckpointManager(serial_group(), "/run", options); });
}

// Into another codec, into none, and into a bundle.
TEST_P(Hdf5Codec, Convert) {
  save(2, 10);
  const auto source = open_checkpoint(Address(files_, "/run/ckpt-10"));
  const auto expect = [&](const std::string& prefix, Codec codec, bool chunks) {
    const auto made = open_checkpoint(Address(files_, prefix));
    for (const auto* key : {"deep/smooth", "noise"}) {
      const auto& tensor = *made->find(key);
      EXPECT_EQ(tensor.sliced, chunks);
      EXPECT_EQ(read_numbers(made, tensor, Box::whole(tensor.shape)),
                std::string_view(key) == "noise" ? of_whole(Fields::noise_at, 10)
                                                 : of_whole(Fields::smooth_at, 10));
    }
    EXPECT_EQ(made->find("deep/smooth")->slices.at(0).codec, codec);
    EXPECT_EQ(verify_checkpoint(Address(files_, prefix)).findings.size(), 0u);
  };
  convert_checkpoint(source, Address(files_, "/other/ckpt-10.h5"), {.codec = StoreCodec::deflate});
  expect("/other/ckpt-10", Codec::deflate, true);
  convert_checkpoint(source, Address(files_, "/plain/ckpt-10.h5"), {});
  expect("/plain/ckpt-10", Codec::none, false);
  convert_checkpoint(source, Address(files_, "/bundle/ckpt-10"), {});
  expect("/bundle/ckpt-10", Codec::none, false);
}

// Each chunk is read and decoded by one rank of the job, and not at all if no rank wants it.
TEST_P(Hdf5Codec, AChunkIsDecodedOnce) {
  save(3, 10);
  const auto stored = contents(10);
  std::int64_t all = 0;
  for (const auto& piece : stored.find("deep/smooth")->slices) all += piece.stored_bytes;
  run_threads(4, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", options_);
    std::vector<double> mine(rows * columns);
    State state;
    state.add("deep/smooth", whole(mine.data(), {rows, columns}));
    EXPECT_EQ(manager.restore(10, state, {.unused = Unused::silent}).bytes_read, all);
    EXPECT_EQ(std::memcmp(mine.data(), of_whole(Fields::smooth_at, 10).data(), mine.size() * 8), 0);
  });
}

// The same where ranks want only some rows, other ones than were saved by one rank: a chunk that
// nobody wants is not read, whatever it holds.
TEST_P(Hdf5Codec, OfAPartOnlyItsChunksAreDecoded) {
  options_.write.chunk_bytes = 64 << 10;
  save(3, 10);
  constexpr std::int64_t first[] = {100, 150}, end[] = {200, 400};  // some by both ranks
  std::int64_t wanted = 0;
  int others = 0;
  const auto file = files_->open_write("/run/ckpt-10.h5");
  for (const auto& piece : contents(10).find("deep/smooth")->slices) {
    if (piece.box.end(0) > first[0] && piece.box.start[0] < end[1]) {
      wanted += piece.stored_bytes;
    } else {
      const std::vector<std::byte> bad(static_cast<std::size_t>(piece.stored_bytes));
      file->write_at(piece.offset, bad);
      ++others;
    }
  }
  EXPECT_GT(others, 4);
  const auto all = of_whole(Fields::smooth_at, 10);
  run_threads(2, [&](std::shared_ptr<Group> group) {
    const auto from = first[group->rank()], rest = end[group->rank()] - from;
    CheckpointManager manager(group, "/run", options_);
    std::vector<double> mine(static_cast<std::size_t>(rest * columns));
    State state;
    state.add("deep/smooth", slice(mine.data(), {rows, columns}, {from, 0}, {rest, columns}));
    EXPECT_EQ(manager.restore(10, state, {.unused = Unused::silent}).bytes_read, wanted);
    EXPECT_EQ(std::memcmp(mine.data(), all.data() + from * columns * 8, mine.size() * 8), 0);
  });
}

// A chunk index of two levels, read by libhdf5 (LibraryReadsIt has one).
TEST_P(Hdf5Codec, ManyChunks) {
  if (GetParam() != StoreCodec::deflate) GTEST_SKIP() << "it takes a plugin";
  options_.write.chunk_bytes = 4096;
  save(2, 10);
  EXPECT_GT(contents(10).find("noise")->slices.size(), 64u);
  expect_library_reads();
}

// One of three levels, with chunks that are parts of planes.
TEST_P(Hdf5Codec, VeryManyChunks) {
  options_.write.chunk_bytes = 4096;
  const Dims shape{2500, 3, 200};
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i / 7);
  State state;
  state.add("x", whole(values.data(), shape));
  CheckpointManager manager(serial_group(), "/run", options_);
  manager.save(10, state);
  EXPECT_GT(contents(10).find("x")->slices.size(), 4096u);
  const auto saved = values;
  std::fill(values.begin(), values.end(), -1);
  manager.restore(10, state);
  EXPECT_TRUE(values == saved);
  if (GetParam() != StoreCodec::deflate) return;  // the library needs a plugin
  hdf5::ForeignFile file(
      std::make_unique<Bytes>(io::read_file(*files_, "/run/ckpt-10.h5", std::int64_t{1} << 30)));
  std::fill(values.begin(), values.end(), -1);
  file.read("x", *file.find("x"), Box::whole(shape), reinterpret_cast<std::byte*>(values.data()));
  EXPECT_TRUE(values == saved);
}

// Readers of XDMF files see the dataset, and not its chunks.
TEST_P(Hdf5Codec, XdmfShowsTheDataset) {
  options_.store.xdmf.emplace();
  save(2, 10);
  const auto text = io::read_file(*files_, "/run/ckpt.xdmf", 1 << 20);
  const std::string dataset = "ckpt-10.h5:/deep/smooth";
  const auto at = text.find(dataset);
  ASSERT_NE(at, text.npos) << text;
  EXPECT_EQ(text.find(dataset, at + 1), text.npos) << text;
}

// A disk with little room.
class LittleRoom : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::int64_t free_bytes(const io::Path&) override { return rows * columns * 8; }
};

// How much room a save needs is known only when its chunks are encoded.
TEST_P(Hdf5Codec, RoomForRawBytesIsNotAskedFor) {
  options_.write.file_system = std::make_shared<LittleRoom>(files_);
  std::vector<double> zeros(2 * rows * columns);
  State state;
  state.add("zeros", whole(zeros.data(), {std::ssize(zeros)}));
  CheckpointManager(serial_group(), "/run", options_).save(10, state);
  options_.store.codec = StoreCodec::none;
  test::expect_error(Code::no_space, testing::HasSubstr("20"),
                     [&] { CheckpointManager(serial_group(), "/run", options_).save(20, state); });
}

}  // namespace
}  // namespace cairn
