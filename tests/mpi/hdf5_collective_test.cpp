// Ranks that write the datasets of one HDF5 file through libhdf5.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <numeric>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/shared_files.hpp"
#include "io/file_system.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "layout/hdf5/library.hpp"
#include "mpi/mpi_kit.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/ragged_case.hpp"
#include "support/says.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::Directory;
using test::first_ranks;
using ::testing::HasSubstr;

ManagerOptions writing(Writer writer, std::map<std::string, std::string> hints = {}) {
  ManagerOptions options;
  options.store.format = Format::hdf5;
  options.write.writer = writer;
  options.write.mpi_io.hints = std::move(hints);
  return options;
}
const auto collective = [](std::map<std::string, std::string> hints = {}) {
  return writing(Writer::hdf5_collective, std::move(hints));
};

std::string bytes_of(const fs::path& path) {
  return io::read_file(*io::posix_file_system(), path, std::int64_t{1} << 32);
}

// Checks that libhdf5 and Cairn hold no object in this process.
void expect_nothing_open() {
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
  EXPECT_EQ(hdf5::Handle::open_count(), 0);
}

// Returns "" or how two checkpoints of the same state differ.
std::string difference(const fs::path& a, const fs::path& b) {
  auto files = io::posix_file_system();
  const auto one = read_contents(*files, a), other = read_contents(*files, b);
  if (one.tensors.size() != other.tensors.size()) return "another number of tensors";
  // The lengths of metadata decide where the rest is.
  const auto* meta = one.find("_cairn/meta");
  const auto* other_meta = other.find("_cairn/meta");
  const bool same_places = meta && other_meta &&
                           meta->slices.at(0).stored_bytes == other_meta->slices.at(0).stored_bytes;
  for (const auto& tensor : one.tensors) {
    if (tensor.key.starts_with("_cairn/")) continue;
    const auto* same = other.find(tensor.key);
    if (!same || same->shape != tensor.shape || same->dtype != tensor.dtype) {
      return cat("'", tensor.key, "' is described otherwise");
    }
    if (same->slices.size() != tensor.slices.size()) return cat("slices of '", tensor.key, "'");
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      if (tensor.slices[s].box != same->slices[s].box ||
          tensor.slices[s].crc32c != same->slices[s].crc32c ||
          (same_places && tensor.slices[s].offset != same->slices[s].offset)) {
        return cat("slice ", s, " of '", tensor.key, "'");
      }
    }
  }
  for (const auto& prefix : {a, b}) {
    const auto report = verify_checkpoint({*files, prefix});
    if (report.verdict() != Verdict::whole) return report.findings.front().what;
  }
  return "";
}

TEST(Hdf5Collective, NToMAndTheSameFilesAsTheOtherWriters) {
  const auto world = mpi(MPI_COMM_WORLD);
  const int size = world->size();
  unsigned seed = 0;
  for (int n = 1; n <= size; ++n) {
    for (int turn = 0; turn < 2; ++turn) {
      const int m = 1 + static_cast<int>(++seed) % size;
      SCOPED_TRACE(cat(n, " to ", m, " ranks, seed ", seed));
      const Directory directory(*world);
      const test::NToMCase one(n, m, seed);
      if (const auto group = first_ranks(n, world->rank())) {
        auto options = collective();
        options.write.mpi_io.read_back = seed % 2 == 0;
        one.save(group, directory.path() / "together", options);
        one.save(group, directory.path() / "apart", writing(Writer::posix));
        if (group->rank() == 0) {
          EXPECT_EQ(
              difference(directory.path() / "together/ckpt-7", directory.path() / "apart/ckpt-7"),
              "");
        }
      }
      world->barrier();
      if (const auto group = first_ranks(m, world->rank())) {
        EXPECT_EQ(one.restore(group, directory.path() / "together", {}), "");
      }
      world->barrier();
    }
  }
  expect_nothing_open();
}

TEST(Hdf5Collective, RaggedAndRankPrivate) {
  const auto world = mpi(MPI_COMM_WORLD);
  for (unsigned seed = 1; seed < 4; ++seed) {
    const Directory directory(*world);
    const test::RaggedCase one(world->size(), world->size(), seed);
    one.save(world, directory.path(), collective());
    world->barrier();
    EXPECT_EQ(one.restore(world, directory.path(), {}), "") << "seed " << seed;
    world->barrier();
  }
  expect_nothing_open();
}

// Tensors that each differ from the others in one way; some ranks have nothing.
struct Mixed {
  explicit Mixed(Group& group) {
    const int rank = group.rank(), size = group.size();
    state.add("step", step).add("words", words).add("empty", none);
    if (size > 1 && rank == 1) return;
    // Small tensors of one rank.
    for (int i = 0; i < 15; ++i) {
      auto& array = arrays.emplace_back(static_cast<std::size_t>(1 + i % 7));
      std::iota(array.begin(), array.end(), 1000.0 * rank + i);
      state.add(cat("rank", rank, "/a", i), array);
    }
    // Rows of all ranks but that one, longer than a run.
    const int rows = size > 1 ? size - 1 : 1, row = rank > 1 ? rank - 1 : rank;
    wide.resize(30000);
    std::iota(wide.begin(), wide.end(), 1e6 * rank);
    state.add("wide", slice(wide.data(), {rows, 30000}, {row, 0}, {1, 30000}));
    // Several runs in each round, from memory in another order.
    flat.resize(10000);
    std::iota(flat.begin(), flat.end(), 1e6 * rank);
    state.add("flat", slice(flat.data(), {rows * 10000}, {row * 10000}, {10000}));
    turned = flat;
    state.add("turned", slice(DType::float64, turned.data(), {100, 100 * rows}, {0, 100 * row},
                              {100, 100}, {1, 100}));
  }
  void poison() {
    for (auto& array : arrays) std::fill(array.begin(), array.end(), -1.0);
    std::fill(wide.begin(), wide.end(), -1.0);
    std::fill(flat.begin(), flat.end(), -1.0);
    std::fill(turned.begin(), turned.end(), -1.0);
    step = -1;
  }
  std::int64_t step = 5;
  std::vector<std::string> words{"a", std::string("b\0c", 3), ""};
  std::vector<double> none;
  std::deque<std::vector<double>> arrays;
  std::vector<double> wide, flat, turned;
  State state;
};

TEST(Hdf5Collective, OneOfEverythingAtEachChunkSize) {
  const auto world = mpi(MPI_COMM_WORLD);
  for (const std::int64_t chunk : {16384, 100000, 16 << 20}) {
    SCOPED_TRACE(chunk);
    const Directory directory(*world);
    Mixed mine(*world);
    auto options = collective();
    options.write.chunk_bytes = chunk;
    CheckpointManager manager(world, directory.path() / "together", options);
    manager.save(1, mine.state);
    options.write.writer = Writer::posix;
    CheckpointManager(world, directory.path() / "apart", options).save(1, mine.state);
    if (world->rank() == 0) {
      EXPECT_EQ(difference(directory.path() / "together/ckpt-1", directory.path() / "apart/ckpt-1"),
                "");
    }
    const auto right = mine.flat;
    const auto arrays = mine.arrays;
    mine.poison();
    ASSERT_TRUE(manager.restore_latest(mine.state));
    EXPECT_EQ(mine.flat, right);
    EXPECT_EQ(mine.turned, right);
    EXPECT_EQ(mine.arrays, arrays);
    EXPECT_EQ(mine.step, 5);
    world->barrier();
  }
  expect_nothing_open();
}

TEST(Hdf5Collective, OnlyWhatRankZeroStores) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  std::vector<std::string> words{"only", "words"}, copy(2);
  State state, wanted;
  state.add("words", words);
  wanted.add("words", copy);
  CheckpointManager manager(world, directory.path(), collective());
  manager.save(1, state);
  ASSERT_TRUE(manager.restore_latest(wanted));
  EXPECT_EQ(copy, words);
}

TEST(Hdf5Collective, OverwritesAndKeepsTheLast) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  auto options = collective();
  options.keep.last = 2;
  options.overwrite = true;
  std::vector<double> row(5000);
  State state;
  state.add("u", slice(row.data(), {world->size(), 5000}, {world->rank(), 0}, {1, 5000}));
  CheckpointManager manager(world, directory.path(), options);
  for (const int step : {1, 2, 2, 3}) {
    std::fill(row.begin(), row.end(), row[0] + 1);
    manager.save(step, state);
  }
  std::fill(row.begin(), row.end(), 0);
  ASSERT_TRUE(manager.restore_latest(state));
  EXPECT_EQ(row, std::vector<double>(5000, 4.0));
  world->barrier();
  if (world->rank() == 0) {
    EXPECT_FALSE(fs::exists(directory.path() / "ckpt-1.h5"));
    EXPECT_TRUE(fs::exists(directory.path() / "ckpt-2.h5"));
  }
  world->barrier();
}

// Other language interfaces set it by name, as does the example of the docs.
TEST(Hdf5Collective, TheExampleOfTheDocs) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory parent(*world);
  const auto directory = parent.path();
  cairn::ManagerOptions options;
  options.store.format = cairn::Format::hdf5;
  options.write.writer = cairn::Writer::hdf5_collective;
  cairn::CheckpointManager manager(cairn::mpi(MPI_COMM_WORLD), directory, options);
  Mixed mine(*world);
  manager.save(1, mine.state);
  EXPECT_EQ(manager.open(1).format, Format::hdf5);

  std::vector<float> row(100, static_cast<float>(world->rank()));
  CheckpointOptions face;
  face.store.format = Format::hdf5;
  face.write.writer = Writer::hdf5_collective;
  State state;
  state.add("u", slice(row.data(), {world->size(), 100}, {world->rank(), 0}, {1, 100}));
  Checkpoint(world, state, face).write(directory / "face");
  EXPECT_TRUE(fs::exists(directory / "face.h5"));
  world->barrier();
}

TEST(Hdf5Collective, WhatDoesNotGoTogetherIsRefusedBeforeAnythingIsMade) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const auto refused = [&](std::shared_ptr<Group> group, const ManagerOptions& options, Code code,
                           const std::string& text) {
    test::expect_error([&] { CheckpointManager(group, directory.path() / "run", options); }, code,
                       HasSubstr(text));
    EXPECT_FALSE(fs::exists(directory.path() / "run"));
  };
  refused(serial_group(), collective(), Code::unsupported,
          "needs the ranks of an MPI communicator");
  world->barrier();
  auto bundles = collective();
  bundles.store.format = Format::bundle;
  refused(world, bundles, Code::invalid_argument, "Writer::hdf5_collective cannot write bundles");
  refused(world, collective({{"", "x"}}), Code::invalid_argument, "the hint ''");
  auto served = collective();
  served.write.io_ranks = IoRanks::count(1);
  refused(world, served, Code::invalid_argument, "does not go with io ranks");
  if (world->size() == 1) return;
  const auto odd = world->rank() == world->size() - 1;
  refused(world, writing(odd ? Writer::posix : Writer::hdf5_collective), Code::disagreement,
          "the writer");
  refused(world, collective(odd ? SharedFiles::Hints{{"a", "b"}} : SharedFiles::Hints{}),
          Code::disagreement, "the writer");
}

// A file as a save lays it out, with bytes after it that HDF5 knows nothing of.
class LaidOut {
 public:
  LaidOut(Group& group, const fs::path& path, std::vector<hdf5::NewDataset> datasets)
      : path_(path) {
    hdf5::NewFile file;
    file.datasets = std::move(datasets);
    file.meta = "{}";
    skeleton_ = hdf5::lay_out(file);
    if (group.rank() == 0) {
      const auto out = io::posix_file_system()->create(path);
      for (const auto& [offset, bytes] : skeleton_.extents) {
        out->write_at(offset, std::as_bytes(std::span(bytes)));
      }
      const std::string tail(64, 't');
      out->write_at(skeleton_.size, std::as_bytes(std::span(tail)));
    }
    group.barrier();
  }
  std::int64_t offset(std::size_t dataset) const { return skeleton_.offsets.at(dataset); }
  std::int64_t size() const { return skeleton_.size; }

 private:
  fs::path path_;
  hdf5::Skeleton skeleton_;
};

// The order of a save depends on this: libhdf5 changes nothing but the elements that it is given
// and the bytes after its own end.
TEST(Hdf5Collective, LeavesTheStructureAlone) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const int size = world->size(), rank = world->rank();
  const auto path = directory.path() / "file.h5";
  const LaidOut laid(*world, path,
                     {{"group/a", DType::float64, {size, 5, 3}},
                      {"b", DType::boolean, {4}},
                      {"c", DType::complex64, {}}});
  const auto before = bytes_of(path);
  world->barrier();
  const auto file = world->dataset_files()->open(path, {});
  const std::int64_t zero = 0;
  const Dims first{rank, 0, 0}, second{rank, 3, 0}, extent{1, 2, 3};
  const DatasetFile::Block blocks[] = {{first, extent}, {second, extent}};
  std::vector<double> values(12, rank + 1.0);
  file->write_all("group/a", blocks, std::as_bytes(std::span(values)).data());
  const std::int64_t four = 4;
  const DatasetFile::Block whole{{&zero, 1}, {&four, 1}}, scalar{};
  const std::byte ones[8] = {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}};
  const bool last = rank == size - 1;
  file->write_all("b", last ? std::span(&whole, 1) : std::span<const DatasetFile::Block>{}, ones);
  file->write_all("c", rank == 0 ? std::span(&scalar, 1) : std::span<const DatasetFile::Block>{},
                  ones);
  file->flush();
  file->close();
  world->barrier();
  auto expected = before.substr(0, static_cast<std::size_t>(laid.size()));
  for (int r = 0; r < size; ++r) {
    const std::vector<double> theirs(6, r + 1.0);
    for (const int row : {0, 3}) {
      const auto at = laid.offset(0) + ((r * 5 + row) * 3) * 8;
      std::memcpy(expected.data() + at, theirs.data(), 48);
    }
  }
  std::memcpy(expected.data() + laid.offset(1), ones, 4);
  std::memcpy(expected.data() + laid.offset(2), ones, 8);
  const auto after = bytes_of(path);
  EXPECT_TRUE(after.substr(0, expected.size()) == expected);
  EXPECT_LE(after.size(), before.size());
  expect_nothing_open();
  world->barrier();
}

// One rank cannot take part: no rank waits for it, and the file can still be used.
TEST(Hdf5Collective, WhatOneRankCannotPrepareNobodyWrites) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const int size = world->size(), rank = world->rank();
  const auto path = directory.path() / "file.h5";
  const LaidOut laid(*world, path, {{"a", DType::int32, {size}}});
  const auto file = world->dataset_files()->open(path, {});
  const std::int64_t at = rank, one = 1;
  const DatasetFile::Block good{{&at, 1}, {&one, 1}}, flat{};
  const std::int32_t value = 7 + rank;
  const auto* bytes = std::as_bytes(std::span(&value, 1)).data();
  const bool last = rank == size - 1;
  test::expect_error(
      [&] {
        file->write_all("a", {last ? &flat : &good, 1}, bytes);
      },
      last ? Code::internal : Code::io,
      HasSubstr(last ? "it has 1 dimensions, a block of it 0" : "another rank cannot take part"));
  test::expect_error(
      [&] {
        file->write_all("none", {&good, 1}, bytes);
      },
      Code::io, test::Says("dataset 'none' cannot be written"));
  file->write_all("a", {&good, 1}, bytes);
  file->close();
  world->barrier();
  std::int32_t found = 0;
  std::memcpy(&found, bytes_of(path).data() + laid.offset(0) + 4 * rank, 4);
  EXPECT_EQ(found, value);
  expect_nothing_open();
  world->barrier();
}

TEST(Hdf5Collective, AFileThatIsNoneIsOneErrorOfAll) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const auto path = directory.path() / "file.h5";
  if (world->rank() == 0) io::write_file(*io::posix_file_system(), path, "no HDF5 at all");
  world->barrier();
  test::expect_error([&] { world->dataset_files()->open(path, {}); }, Code::io,
                     test::Says("HDF5 cannot open"));
  expect_nothing_open();
  world->barrier();
}

TEST(Hdf5Collective, BeyondTwoGibibytesInOneCall) {
  // Takes 2 GiB of memory and of disk on each rank, so it runs only on request.
  if (!std::getenv("CAIRN_LARGE_TESTS")) GTEST_SKIP() << "set CAIRN_LARGE_TESTS to run it";
  const auto group = first_ranks(2, mpi(MPI_COMM_WORLD)->rank());
  if (!group) return;
  const Directory directory(*group);
  const auto path = directory.path() / "file.h5";
  const std::int64_t bytes = (std::int64_t{1} << 31) + 4097;
  const LaidOut laid(*group, path, {{"a", DType::uint8, {group->size(), bytes}}});
  std::vector<std::byte> mine(static_cast<std::size_t>(bytes),
                              static_cast<std::byte>(7 + group->rank()));
  mine.front() = mine[std::size_t{1} << 31] = mine.back() = std::byte{1};
  const auto file = group->dataset_files()->open(path, {});
  const Dims start{group->rank(), 0}, extent{1, bytes};
  const DatasetFile::Block block{start, extent};
  file->write_all("a", {&block, 1}, mine.data());
  file->close();
  std::vector<std::byte> there(std::size_t{1} << 24);
  const auto read = io::posix_file_system()->open_read(path);
  for (std::size_t from = 0; from < mine.size(); from += there.size()) {
    there.resize(std::min(there.size(), mine.size() - from));
    read->read_at(laid.offset(0) + group->rank() * bytes + static_cast<std::int64_t>(from), there);
    ASSERT_TRUE(std::equal(there.begin(), there.end(), mine.begin() + static_cast<long>(from)))
        << from;
  }
  group->barrier();  // before rank 0 removes it
}

}  // namespace
}  // namespace cairn
