// Ranks that share data files and write them with MPI-IO.
#include <gmock/gmock.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <random>
#include <string_view>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "io/file_system.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "mpi/mpi_files.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/ragged_case.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::Directory;
using test::first_ranks;
using ::testing::HasSubstr;

ManagerOptions sharing(int files, std::map<std::string, std::string> hints = {}) {
  ManagerOptions options;
  options.write.writer = Writer::mpi_io;
  options.write.mpi_io.files = files;
  options.write.mpi_io.hints = std::move(hints);
  return options;
}

// Returns "" or which tensor differs between the two checkpoints.
std::string difference(const fs::path& a, const fs::path& b) {
  const BundleReader one(a), other(b);
  const auto& tensors = one.contents().tensors;
  if (tensors.size() != other.contents().tensors.size()) return "another number of tensors";
  for (const auto& tensor : tensors) {
    if (tensor.key.starts_with("_cairn/")) continue;
    const auto* same = other.contents().find(tensor.key);
    if (!same || same->shape != tensor.shape || same->dtype != tensor.dtype ||
        same->sliced != tensor.sliced || same->slices.size() != tensor.slices.size()) {
      return cat("'", tensor.key, "' is described otherwise");
    }
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      if (tensor.slices[s].box != same->slices[s].box ||
          tensor.slices[s].crc32c != same->slices[s].crc32c) {
        return cat("slice ", s, " of '", tensor.key, "'");
      }
    }
    if (tensor.dtype == DType::string
            ? one.read_strings(tensor.key) != other.read_strings(tensor.key)
            : one.read(tensor.key) != other.read(tensor.key)) {
      return cat("the values of '", tensor.key, "'");
    }
  }
  return "";
}

TEST(MpiIo, NToMAndTheSameAsTheOtherWriter) {
  const auto world = mpi(MPI_COMM_WORLD);
  const int size = world->size();
  unsigned seed = 0;
  for (int n = 1; n <= size; ++n) {
    for (const int files : {1, 2, n}) {
      const int m = 1 + static_cast<int>(++seed) % size;
      SCOPED_TRACE(cat(n, " to ", m, " ranks, ", files, " files, seed ", seed));
      const Directory directory(*world);
      test::NToMCase one(n, m, seed);
      if (seed % 3 == 1) one.storage = Storage::dense;
      if (const auto group = first_ranks(n, world->rank())) {
        auto options = sharing(files);
        options.write.mpi_io.read_back = seed % 2 == 0;
        options.write.atomic_rename = seed % 4 != 0;
        one.save(group, directory.path() / "shared", options);
        one.save(group, directory.path() / "own", {});
        if (group->rank() == 0) {
          EXPECT_EQ(difference(directory.path() / "shared/ckpt-7", directory.path() / "own/ckpt-7"),
                    "");
        }
      }
      world->barrier();
      if (const auto group = first_ranks(m, world->rank())) {
        EXPECT_EQ(one.restore(group, directory.path() / "shared", {}), "");
      }
      world->barrier();
    }
  }
}

TEST(MpiIo, RaggedAndRankPrivate) {
  const auto world = mpi(MPI_COMM_WORLD);
  for (unsigned seed = 1; seed < 4; ++seed) {
    const Directory directory(*world);
    const test::RaggedCase one(world->size(), world->size(), seed);
    one.save(world, directory.path(), sharing(static_cast<int>(seed)));
    world->barrier();
    EXPECT_EQ(one.restore(world, directory.path(), {}), "") << "seed " << seed;
    world->barrier();
  }
}

// Each rank has many tensors, small and large, one with strides; some ranks have nothing.
struct Mixed {
  explicit Mixed(Group& group, int empty_every = 0) {
    const int rank = group.rank();
    state.add("step", step);
    if (empty_every > 0 && rank % empty_every == 1) return;
    for (int i = 0; i < 12; ++i) {
      const auto n = static_cast<std::int64_t>(i % 3 == 0 ? 40000 + 7 * i : 3 + i);
      arrays.emplace_back(static_cast<std::size_t>(n));
      for (std::size_t j = 0; j < arrays.back().size(); ++j) {
        arrays.back()[j] = rank * 1e6 + i * 1e5 + static_cast<double>(j);
      }
      state.add(cat("rank", rank, "/a", i), arrays.back());
    }
    wide.resize(300 * 210);
    for (std::size_t j = 0; j < wide.size(); ++j) wide[j] = rank + 0.5 * static_cast<double>(j);
    state.add(cat("rank", rank, "/inner"), slice(DType::float64, wide.data() + 5 * 210 + 5,
                                                 {290, 200}, {0, 0}, {290, 200}, {210, 1}));
  }
  std::int64_t step = 0;
  std::deque<std::vector<double>> arrays;
  std::vector<double> wide;
  State state;
};

TEST(MpiIo, FilesAreSharedInPagesAndGapsAreZeros) {
  const auto world = mpi(MPI_COMM_WORLD);
  const int size = world->size();
  for (const int files : {0, 1, 2, size, size + 5}) {
    SCOPED_TRACE(files);
    const Directory directory(*world);
    auto options = sharing(files);
    options.write.chunk_bytes = 100000;
    options.store.policy = std::make_shared<MaxShardSizePolicy>(90000);
    Mixed mine(*world);
    CheckpointManager(world, directory.path(), options).save(3, mine.state);
    if (world->rank() == 0) {
      const BundleReader reader(directory.path() / "ckpt-3");
      EXPECT_EQ(reader.contents().num_files, std::clamp(files, 1, size) + 1);
      std::map<int, std::map<std::int64_t, std::int64_t>> ranges;  // file, begin, end
      for (const auto& tensor : reader.contents().tensors) {
        for (const auto& stored : tensor.slices) {
          if (tensor.key.starts_with("_cairn/")) continue;
          ranges[stored.file][stored.offset] = stored.offset + stored.stored_bytes;
          EXPECT_TRUE(stored.stored_bytes < 65536 || stored.offset % 4096 == 0) << tensor.key;
        }
      }
      for (const auto& [file, parts] : ranges) {
        const auto path = directory.path() /
                          cat("ckpt-3.data-0000", file, "-of-0000", reader.contents().num_files);
        const auto bytes = io::read_file(*io::posix_file_system(), path, 1 << 30);
        std::int64_t end = 0;
        for (const auto& [begin, stop] : parts) {
          ASSERT_LE(end, begin);
          ASSERT_LT(begin - end, 4096);
          EXPECT_EQ(bytes.find_first_not_of('\0', static_cast<std::size_t>(end)) >=
                        static_cast<std::size_t>(begin),
                    true);
          end = stop;
        }
        EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), end);
      }
    }
    world->barrier();
  }
}

TEST(MpiIo, RanksWithNothingTakePart) {
  const auto world = mpi(MPI_COMM_WORLD);
  for (const int every : {1, 2, 3}) {
    const Directory directory(*world);
    Mixed mine(*world, every), copy(*world, every);
    CheckpointManager manager(world, directory.path(), sharing(2));
    manager.save(1, mine.state);
    for (auto& array : copy.arrays) std::fill(array.begin(), array.end(), -1.0);
    ASSERT_TRUE(manager.restore_latest(copy.state));
    EXPECT_EQ(copy.arrays, mine.arrays);
  }
}

TEST(MpiIo, TheExampleOfTheDocs) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory parent(*world);
  const auto directory = parent.path();
  cairn::ManagerOptions options;
  options.write.writer = cairn::Writer::mpi_io;
  options.write.mpi_io.files = 1;
  options.write.mpi_io.hints = {{"striping_factor", "16"}};
  cairn::CheckpointManager manager(cairn::mpi(MPI_COMM_WORLD), directory, options);
  Mixed mine(*world);
  manager.save(1, mine.state);
  EXPECT_EQ(manager.open(1).num_files, 2);
}

TEST(MpiIo, OtherFacesTakeIt) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const int size = world->size();
  std::vector<float> row(100, static_cast<float>(world->rank()));
  CheckpointOptions options;
  options.write.writer = Writer::mpi_io;
  options.write.mpi_io.files = 1;
  State state;
  state.add("u", slice(row.data(), {size, 100}, {world->rank(), 0}, {1, 100}));
  const auto prefix = Checkpoint(world, state, options).write(directory.path() / "face");
  EXPECT_EQ(BundleReader(prefix).contents().num_files, 2);

  const Mesh mesh({{"x", size}});
  ShardedOptions sharded;
  sharded.write.writer = Writer::mpi_io;
  sharded.write.mpi_io.files = 1;
  const auto other = sharded_save(world, mesh, directory.path() / "sharded", {"u"},
                                  {cat(size, " 100 ", world->rank(), ",1:0,100")},
                                  {whole(row.data(), {1, 100})}, sharded);
  EXPECT_EQ(BundleReader(other).contents().num_files, 2);
  EXPECT_EQ(BundleReader(other).read("u"), BundleReader(prefix).read("u"));
  world->barrier();
}

TEST(MpiIo, WhatDoesNotGoTogetherIsRefusedBeforeAnythingIsMade) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  const auto refused = [&](std::shared_ptr<Group> group, const ManagerOptions& options, Code code,
                           const std::string& text) {
    test::expect_error([&] { CheckpointManager(group, directory.path() / "run", options); }, code,
                       HasSubstr(text));
    EXPECT_FALSE(fs::exists(directory.path() / "run"));
  };
  refused(serial_group(), sharing(1), Code::unsupported, "needs the ranks of an MPI communicator");
  world->barrier();
  refused(world, sharing(-1), Code::invalid_argument, "MpiIoOptions::files is -1");
  refused(world, sharing(1, {{"", "x"}}), Code::invalid_argument, "the hint ''");
  refused(world, sharing(1, {{std::string(400, 'k'), "x"}}), Code::invalid_argument, "characters");
  auto served = sharing(1);
  served.write.io_ranks = IoRanks::count(1);
  refused(world, served, Code::invalid_argument, "does not go with io ranks");
  if (world->size() == 1) return;
  auto automatic = sharing(1);
  automatic.write.io_ranks = IoRanks::automatic(1);  // not asked for: the writer goes without
  CheckpointManager(world, directory.path() / "automatic", automatic);
  const auto odd = world->rank() == world->size() - 1;
  refused(world, sharing(odd ? 2 : 1), Code::disagreement, "the writer");
  refused(world, sharing(1, odd ? SharedFiles::Hints{{"a", "b"}} : SharedFiles::Hints{}),
          Code::disagreement, "the writer");
}

TEST(MpiIo, VersionsThatLoseBytes) {
  EXPECT_TRUE(loses_bytes_among_aggregators("Open MPI v4.1.4, package: Debian"));
  EXPECT_TRUE(loses_bytes_among_aggregators("Open MPI v4.1.6"));
  EXPECT_TRUE(loses_bytes_among_aggregators("Open MPI v5.0.5, package"));
  EXPECT_FALSE(loses_bytes_among_aggregators("Open MPI v4.0.9"));
  EXPECT_FALSE(loses_bytes_among_aggregators("Open MPI v4.1.7"));
  EXPECT_FALSE(loses_bytes_among_aggregators("Open MPI v5.0.6, package"));
  EXPECT_FALSE(loses_bytes_among_aggregators("MPICH Version: 4.1.2"));
}

// What was found out about Open MPI 4.1.4, by the program that calls pwrite.
TEST(MpiIo, PathsThatOpenMpiHasNoRoomFor) {
  for (const auto* version :
       {"Open MPI v4.1.4, package", "Open MPI v5.0.7", "Open MPI v6.0.0rc2"}) {
    EXPECT_EQ(longest_path(version, nullptr, nullptr), 235u);
    EXPECT_EQ(longest_path(version, "ompio", "sm,lockedfile"), 235u);
    EXPECT_EQ(longest_path(version, "^romio321", "^sm"), 235u);
    EXPECT_EQ(longest_path(version, "^ompio", nullptr), 0u);
    EXPECT_EQ(longest_path(version, "romio321", nullptr), 0u);
    EXPECT_EQ(longest_path(version, nullptr, "^sm,lockedfile"), 0u);
    EXPECT_EQ(longest_path(version, nullptr, "individual"), 0u);
  }
  EXPECT_EQ(longest_path("MPICH Version:\t4.0.2", nullptr, nullptr), 0u);
}

std::size_t longest_path_here() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  EXPECT_EQ(MPI_Get_library_version(version, &length), MPI_SUCCESS);
  return longest_path(version, std::getenv("OMPI_MCA_io"), std::getenv("OMPI_MCA_sharedfp"));
}

// A directory so deep that the paths of its files have more than 235 bytes.
fs::path make_deep(Group& group, const Directory& place) {
  const auto deep = place.path() / std::string(130, 'd') / std::string(130, 'e');
  if (group.rank() == 0) fs::create_directories(deep);
  group.barrier();
  return deep;
}

// Such a path would end the process: "buffer overflow detected".
TEST(MpiIo, ALongPathIsRefusedOrWritten) {
  auto group = mpi(MPI_COMM_WORLD);
  const Directory place(*group);
  const auto deep = make_deep(*group, place);
  std::vector<double> row(100, group->rank());
  State state;
  state.add("u", slice(row.data(), {group->size(), 100}, {group->rank(), 0}, {1, 100}));
  std::int64_t step = 0;
  for (const auto writer : {Writer::mpi_io, Writer::hdf5_collective}) {
    ManagerOptions options;
    options.write.writer = writer;
    if (writer == Writer::hdf5_collective) options.store.format = Format::hdf5;
    if (options.store.format == Format::hdf5 && !hdf5::available()) continue;
    CheckpointManager manager(group, deep, options);
    const auto error = test::error_of([&] { manager.save(++step, state); });
    const auto texts = all_gather(*group, error ? error->what() : "");
    EXPECT_THAT(texts, ::testing::Each(texts.front()));
    if (longest_path_here() == 0) {
      EXPECT_FALSE(error) << error->what();
      continue;
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::invalid_argument);
    EXPECT_THAT(error->what(), test::Says("MPI-IO of Open MPI takes paths of at most 235 bytes"));
    EXPECT_TRUE(manager.steps().empty());
  }
  // The other writer needs no such paths.
  CheckpointManager manager(group, deep, ManagerOptions());
  EXPECT_NO_THROW(manager.save(++step, state));
  std::fill(row.begin(), row.end(), -1);
  ASSERT_TRUE(manager.restore_latest(state));
  EXPECT_EQ(row, std::vector<double>(100, group->rank()));
}

TEST(MpiIo, APathWithAColonIsWrittenOrRefusedWithTheReason) {
  auto group = mpi(MPI_COMM_WORLD);
  const Directory place(*group);
  const auto* chosen = std::getenv("OMPI_MCA_io");
  const bool is_open_mpi = group->shared_files()->library().starts_with("Open MPI");
  // As CTest sets it. Open MPI's ROMIO refuses such a path, MPICH's has taken it since version 5.
  const bool is_its_romio = is_open_mpi && chosen && std::string_view(chosen) == "^ompio";
  double value = group->rank();
  State state;
  state.add("u", slice(&value, {group->size()}, {group->rank()}, {1}));
  std::int64_t step = 0;
  for (const auto writer : {Writer::mpi_io, Writer::hdf5_collective}) {
    ManagerOptions options;
    options.write.writer = writer;
    if (writer == Writer::hdf5_collective) options.store.format = Format::hdf5;
    if (options.store.format == Format::hdf5 && !hdf5::available()) continue;
    CheckpointManager manager(group, place.path() / "at 12:30", options);
    const auto error = test::error_of([&] { manager.save(++step, state); });
    const auto texts = all_gather(*group, error ? error->what() : "");
    EXPECT_THAT(texts, ::testing::Each(texts.front()));
    if (is_open_mpi) {
      ASSERT_EQ(error.has_value(), is_its_romio) << (error ? error->what() : "");
    }
    if (!error) {
      EXPECT_EQ(std::ssize(manager.steps()), step);
      continue;
    }
    EXPECT_EQ(error->code(), Code::io);
    EXPECT_THAT(error->what(), test::Says("ROMIO takes what is before the ':' of a path"));
    EXPECT_THAT(error->what(), HasSubstr("use Writer::posix"));
    EXPECT_TRUE(manager.steps().empty());
  }
  EXPECT_EQ(name_for_mpi("a/b"), "a/b");
  EXPECT_EQ(name_for_mpi("ufs:a/b"), (fs::current_path() / "ufs:a/b").string());
}

// One rank would open the file, which is collective, while the others have an error.
TEST(MpiIo, ALongPathIsRefusedOnAllRanksWhereOneHasNoRoomForIt) {
  auto group = mpi(MPI_COMM_WORLD);
  if (group->size() == 1) GTEST_SKIP() << "there is one rank";
  if (longest_path_here() == 0) GTEST_SKIP() << "paths may be as long as they like";
  const Directory place(*group);
  const auto path = make_deep(*group, place) / "file";
  // MPI has read it before. No other thread of this process uses the environment at this moment.
  if (group->rank() == 0) setenv("OMPI_MCA_sharedfp", "^lockedfile", 1);
  MpiFiles files(MPI_COMM_WORLD, group->rank());
  const auto error = test::error_of([&] { files.open(path, 0, {}); });
  if (group->rank() == 0) unsetenv("OMPI_MCA_sharedfp");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::invalid_argument);
}

TEST(MpiIo, OmpioTakesSeveralAggregatorsByItself) {
  for (const auto& [ranks, most] :
       {std::pair(1, 1), std::pair(15, 1), std::pair(16, 2), std::pair(24, 3), std::pair(32, 4)}) {
    EXPECT_EQ(most_aggregators(ranks, {}), most) << ranks;
  }
  EXPECT_EQ(most_aggregators(7, {.max_aggregators_ratio = 2}), 3);
  EXPECT_EQ(most_aggregators(7, {.max_aggregators_ratio = 0}), 7);
  EXPECT_EQ(most_aggregators(32, {.num_aggregators = 1}), 1);
  EXPECT_EQ(most_aggregators(4, {.num_aggregators = 8}), 4);
  EXPECT_EQ(most_aggregators(4, {.grouping_option = 6}), 4);
}

// A small limit takes the place of the largest int.
TEST(MpiIo, MoreThanACountHoldsIsOneCall) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  MpiFiles files(MPI_COMM_WORLD, world->rank(), 1000);
  const auto path = directory.path() / "file";
  for (const std::size_t bytes : {999u, 1000u, 1001u, 3000u, 123457u}) {
    if (world->rank() == 0) io::posix_file_system()->create(path)->close();
    world->barrier();
    std::vector<std::byte> mine(bytes);
    std::mt19937 random(static_cast<unsigned>(world->rank()));
    for (auto& byte : mine) byte = static_cast<std::byte>(random());
    const auto file = files.open(path, 0, {});
    const auto at = static_cast<std::int64_t>(bytes) * world->rank();
    // The last rank has no bytes.
    const bool last = world->rank() + 1 == world->size() && world->size() > 1;
    file->write_at_all(at, last ? std::span<const std::byte>{} : mine);
    file->sync();
    file->close();
    std::vector<std::byte> there(bytes);
    if (!last) io::posix_file_system()->open_read(path)->read_at(at, there);
    EXPECT_TRUE(last || there == mine) << bytes;
    world->barrier();
    if (world->rank() == 0) fs::remove(path);
  }
}

TEST(MpiIo, NumbersThatAreNotFiniteAreNoted) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  auto options = sharing(1);
  options.write.mpi_io.hints.clear();
  options.restore.finite = true;
  options.write.chunk_bytes = 4096;
  CheckpointManager manager(world, directory.path(), options);
  std::vector<float> u(3001), v(3001);
  State state;
  const auto size = static_cast<std::int64_t>(u.size());
  const auto row = [&](std::vector<float>& values) {
    return slice(values.data(), {world->size(), size}, {world->rank(), 0}, {1, size});
  };
  state.add("u", row(u)).add("v", stored(Storage::dense, row(v)));
  manager.save(1, state);
  const bool last = world->rank() + 1 == world->size();
  if (last) u.back() = -std::numeric_limits<float>::infinity();
  manager.save(2, state);
  if (last) u.back() = 0, v.front() = std::numeric_limits<float>::quiet_NaN();
  manager.save(3, state);
  using testing::ElementsAre;
  EXPECT_THAT(manager.open(1).meta->not_finite->keys, testing::IsEmpty());
  EXPECT_THAT(manager.open(2).meta->not_finite->turned, ElementsAre("u"));
  EXPECT_THAT(manager.open(3).meta->not_finite->turned, ElementsAre("v"));
  EXPECT_EQ(manager.restore_latest(state)->step, 1);
}

TEST(MpiIo, BeyondTwoGibibytes) {
  // Takes 2 GiB of memory and of disk on each rank, so it runs only on request.
  if (!std::getenv("CAIRN_LARGE_TESTS")) GTEST_SKIP() << "set CAIRN_LARGE_TESTS to run it";
  const auto group = first_ranks(2, mpi(MPI_COMM_WORLD)->rank());
  if (!group) return;
  const Directory directory(*group);
  const std::size_t bytes = (std::size_t{1} << 31) + 4097;
  std::vector<std::byte> mine(bytes, static_cast<std::byte>(7 + group->rank()));
  mine.front() = mine[(std::size_t{1} << 31) - 1] = mine.back() = std::byte{1};
  const auto path = directory.path() / "file";
  if (group->rank() == 0) io::posix_file_system()->create(path)->close();
  group->barrier();
  const auto file = group->shared_files()->open(path, 0, {});
  const auto at = static_cast<std::int64_t>(bytes) * group->rank();
  file->write_at_all(at, mine);
  file->close();
  std::vector<std::byte> there(std::size_t{1} << 24);
  const auto read = io::posix_file_system()->open_read(path);
  for (std::size_t from = 0; from < bytes; from += there.size()) {
    there.resize(std::min(there.size(), bytes - from));
    read->read_at(at + static_cast<std::int64_t>(from), there);
    ASSERT_TRUE(std::equal(there.begin(), there.end(), mine.begin() + static_cast<long>(from)))
        << from;
  }
  group->barrier();  // before rank 0 removes it
}

}  // namespace
}  // namespace cairn
