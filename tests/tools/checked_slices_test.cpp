// Parts of stored slices that are larger than what is kept of them.
#include "tools/checked_slices.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// A checkpoint of one tensor, which one slice holds.
template <class T>
void save(const std::shared_ptr<io::FileSystem>& files, const io::Path& directory,
          const std::vector<T>& values, const Dims& shape) {
  set_log_sink({});
  State state;
  state.add("u", whole(values.data(), shape));
  ManagerOptions options;
  options.write.file_system = files;
  options.write.owner_wait_seconds = 0;
  CheckpointManager(serial_group(), directory, options).save(1, state);
}

TEST(CheckedSlices, AnyPartOfALargeSlice) {
  const Dims shape{7, 1100, 1024};  // 60 MiB in blocks of 4
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  save(disk, "/run", values, shape);
  const auto source = open_checkpoint({disk, "/run/ckpt-1"});
  const Progress none;
  CheckedSlices slices(source, none);
  const auto& tensor = *source->find("u");
  const auto strides = row_major_strides(shape);
  for (const Box& part : {Box{{0, 0, 0}, {7, 1100, 1}}, Box{{6, 1099, 1023}, {1, 1, 1}},
                          Box{{2, 500, 0}, {3, 300, 1024}}, Box{{0, 3, 5}, {7, 2, 700}},
                          Box{{1, 0, 0}, {4, 1100, 1024}}, Box{{3, 3, 3}, {0, 1, 1}}}) {
    std::vector<double> read(static_cast<std::size_t>(part.count()));
    slices.read(tensor, tensor.slices[0], part, reinterpret_cast<std::byte*>(read.data()));
    std::size_t at = 0;
    for (auto i = part.start[0]; i < part.end(0); ++i) {
      for (auto j = part.start[1]; j < part.end(1); ++j) {
        for (auto k = part.start[2]; k < part.end(2); ++k) {
          ASSERT_EQ(read[at++], static_cast<double>(i * strides[0] + j * strides[1] + k));
        }
      }
    }
  }
}

// Damage in the last block is found before the first one is handed out, and what changes after
// that is found when it is read again.
TEST(CheckedSlices, EachByteIsCheckedEachTime) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  std::vector<double> values(static_cast<std::size_t>(60 * mib / 8), 1);
  save(disk, "/run", values, {60, mib / 8});
  const auto source = open_checkpoint({disk, "/run/ckpt-1"});
  const auto& tensor = *source->find("u");
  const auto damage = [&](std::int64_t at) {
    const std::byte other{7};
    const auto file = disk->open_write(source.data(tensor.slices[0].file).path());
    file->write_at(tensor.slices[0].offset + at, {&other, 1});
    file->close();
  };
  const Progress none;
  std::vector<double> row(static_cast<std::size_t>(mib / 8));
  const auto read = [&](CheckedSlices& slices, std::int64_t number) {
    slices.read(tensor, tensor.slices[0], Box{{number, 0}, {1, mib / 8}},
                reinterpret_cast<std::byte*>(row.data()));
  };
  const auto fails = [&](CheckedSlices& slices, std::int64_t number,
                         const testing::Matcher<std::string>& text) {
    try {
      read(slices, number);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_EQ(error.tensor(), "u");
      EXPECT_THAT(error.what(), text);
    }
  };
  CheckedSlices slices(source, none);
  read(slices, 0);
  damage(30 * mib);
  fails(slices, 30, test::Says("does not read as it did before"));
  read(slices, 50);
  CheckedSlices others(source, none);
  fails(others, 0, testing::HasSubstr("checksum"));
}

}  // namespace
}  // namespace cairn
