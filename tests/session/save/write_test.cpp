// Where slices lie in a data file.
#include <gmock/gmock.h>

#include <algorithm>

#include "cairn/checkpoint_manager.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

TEST(Write, LargeSlicesBeginOnAPageBehindAGapOfZeros) {
  auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  std::vector<std::uint8_t> small(5, 0xff), large(65536, 0xff), after(7, 0xff);
  State state;
  state.add("a", small).add("b", large).add("c", after);
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  const auto contents = manager.open(1);
  const auto at = [&](const char* key) { return contents.find(key)->slices.at(0).offset; };
  EXPECT_EQ(at("a"), 0);
  EXPECT_EQ(at("b"), 4096);
  EXPECT_EQ(at("c"), 4096 + 65536) << "small ones are packed";
  const auto bytes = io::read_file(*files, "/run/ckpt-1.data-00000-of-00002", 1 << 20);
  ASSERT_EQ(bytes.size(), 4096u + 65536 + 7);
  EXPECT_EQ(bytes.find_first_not_of('\xff'), 5u);
  EXPECT_EQ(bytes.find_first_not_of('\0', 5), 4096u);
  EXPECT_EQ(bytes.find_first_not_of('\xff', 4096), bytes.npos);
}

// A disk that counts the writes to data files, and their bytes.
class CountingDisk : public io::MemoryFileSystem {
 public:
  std::unique_ptr<io::File> create(const io::Path& path) override {
    auto file = MemoryFileSystem::create(path);
    if (path.string().find("part-00000") == std::string::npos) return file;
    return std::make_unique<Counted>(std::move(file), *this);
  }
  std::vector<std::size_t> writes;
  std::size_t gathers_after = ~std::size_t{0};  // so many writes

 private:
  class Counted : public io::File {
   public:
    Counted(std::unique_ptr<io::File> file, CountingDisk& disk)
        : file_(std::move(file)), disk_(disk) {}
    bool gathers() const override { return disk_.writes.size() >= disk_.gathers_after; }
    void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
      disk_.writes.push_back(bytes.size());
      file_->write_at(offset, bytes);
    }
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
      file_->read_at(offset, bytes);
    }
    std::int64_t size() const override { return file_->size(); }
    void resize(std::int64_t bytes) override { file_->resize(bytes); }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

   private:
    std::unique_ptr<io::File> file_;
    CountingDisk& disk_;
  };
};

// Saves many small tensors, one that is written without a copy, and small ones again; then restores
// them.
void save_small_tensors(const std::shared_ptr<CountingDisk>& files) {
  ManagerOptions options;
  options.write.file_system = files;
  std::vector<std::vector<std::int32_t>> values;
  for (int i = 0; i < 700; ++i) values.emplace_back(i % 3 == 0 ? 1 : 1000, i);
  values[500].resize(100'000, 500);
  State state;
  for (std::size_t i = 0; i < values.size(); ++i)
    state.add("t" + std::to_string(1000 + i), values[i]);
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);

  std::size_t bytes = 0;
  for (const auto size : files->writes) bytes += size;
  const auto data = files->status("/run/ckpt-1.data-00000-of-00002")->size;
  EXPECT_EQ(bytes, static_cast<std::size_t>(data)) << "each byte once";
  EXPECT_THAT(files->writes, testing::Contains(400'000u)) << "without a copy";

  auto read = values;
  State target;
  for (auto& one : read) std::fill(one.begin(), one.end(), -1);
  for (std::size_t i = 0; i < read.size(); ++i) target.add("t" + std::to_string(1000 + i), read[i]);
  manager.restore(1, target);
  EXPECT_EQ(read, values);
}

TEST(Write, SmallTensorsGoToTheFileTogether) {
  auto files = std::make_shared<CountingDisk>();
  save_small_tensors(files);
  const auto bytes = files->status("/run/ckpt-1.data-00000-of-00002")->size;
  EXPECT_LE(files->writes.size(), static_cast<std::size_t>(2 + bytes / (200 << 10)));
}

TEST(Write, AFileThatGathersGetsSmallTensorsAsTheyAre) {
  auto files = std::make_shared<CountingDisk>();
  files->gathers_after = 3;
  save_small_tensors(files);
  EXPECT_GT(std::count(files->writes.begin(), files->writes.end(), 4000u), 100);
  EXPECT_GT(files->writes.front(), 200'000u) << "it does not from the beginning";
  EXPECT_THAT(files->writes, testing::Not(testing::Contains(0u)));
}

}  // namespace
}  // namespace cairn
