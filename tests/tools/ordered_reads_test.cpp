// Reads of other programs' files: the bytes are the same in any order, and are read ahead in the
// announced order.
#include "tools/ordered_reads.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/checksum.hpp"
#include "cairn/error.hpp"
#include "io/temporary_directory.hpp"

namespace cairn {
namespace {

// The disk fails once, before this read.
class FailsOnce : public io::Reader {
 public:
  FailsOnce(std::unique_ptr<io::Reader> reader, int turn)
      : reader_(std::move(reader)), turn_(turn) {}
  std::uint32_t next() override {
    const auto sum = reader_->next();
    if (turn_-- == 0) throw Error(Code::io, "the disk has failed");
    return sum;
  }

 private:
  std::unique_ptr<io::Reader> reader_;
  int turn_;
};

// Counts how often reads were announced, and of how many bytes.
class Watched : public io::FileSystemWrapper {
 public:
  Watched() : FileSystemWrapper(io::posix_file_system()) {}
  std::unique_ptr<io::Reader> read_ahead(std::vector<io::Path> files, std::vector<io::Extent> all,
                                         DirectIo mode) override {
    for (const auto& one : all) announced += one.bytes;
    auto reader = target().read_ahead(std::move(files), std::move(all), mode);
    return std::make_unique<FailsOnce>(std::move(reader), fails_at);
  }
  std::int64_t announced = 0;
  int fails_at = -1;  // a read
};

class Ordered : public testing::Test {
 protected:
  Ordered() {
    for (int file = 0; file < 2; ++file) {
      auto& all = bytes_[file];
      all.resize(static_cast<std::size_t>(3 * cached_bytes + 1000));
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::byte>((i * 2654435761U >> 13) + static_cast<unsigned>(file));
      }
      const auto path = directory_.path() / std::to_string(file);
      io::write_file(files_, path,
                     {reinterpret_cast<const char*>(all.data()), bytes_[file].size()});
      EXPECT_EQ(reads_.add({files_, path}), file);
    }
    // Reads of the second file, from byte 100 on, come first.
    reads_.expect("b", 0, 0, length(0));
    reads_.expect("a", 1, 100, length(1) - 100);
    reads_.expect("none", 1, 0, 0);
  }
  std::int64_t length(int file) const { return std::ssize(bytes_[file]); }
  void compare(int file, std::int64_t offset, std::int64_t size) {
    std::vector<std::byte> read(static_cast<std::size_t>(size));
    reads_.read(file, offset, read);
    EXPECT_EQ(std::memcmp(read.data(), bytes_[file].data() + offset, read.size()), 0)
        << file << " at " << offset;
  }

  test::TemporaryDirectory directory_;
  Watched files_;
  std::vector<std::byte> bytes_[2];
  OrderedReads reads_;
};

TEST_F(Ordered, AsWasTold) {
  // Reads of less than a piece, of more than one, across two, and of all that is left.
  std::int64_t at = 100;
  for (const auto size : {std::int64_t{7}, cached_bytes, 2 * cached_bytes - 7}) {
    compare(1, at, size);
    at += size;
  }
  compare(1, at, length(1) - at);
  compare(0, 0, length(0));
  EXPECT_EQ(files_.announced, length(0) + length(1) - 100);
}

TEST_F(Ordered, InAnyOtherOrder) {
  compare(1, 100, cached_bytes + 5);
  compare(1, 0, 200);
  compare(0, 1000, 2 * cached_bytes);
  compare(1, cached_bytes + 105, 1000);
  compare(0, 0, length(0));
  compare(1, 100, length(1) - 100);
}

TEST_F(Ordered, PastWhatWasTold) {
  compare(1, 100, length(1) - 100);
  compare(0, 0, length(0));
  compare(0, 0, length(0));
}

TEST_F(Ordered, AFileThatEndsBefore) {
  compare(1, 100, 50);
  files_.open_write(directory_.path() / "1")->resize(2 * cached_bytes);
  std::vector<std::byte> read(static_cast<std::size_t>(length(1) - 150));
  EXPECT_THROW(reads_.read(1, 150, read), Error);
}

TEST_F(Ordered, AFileThatIsReplaced) {
  const auto path = directory_.path() / "1", other = directory_.path() / "other";
  io::write_file(files_, other, std::string(static_cast<std::size_t>(length(1)), 'x'));
  files_.rename(other, path);
  compare(1, 100, cached_bytes + 5);
  compare(1, cached_bytes + 105, length(1) - cached_bytes - 105);
  compare(0, 0, length(0));
}

TEST_F(Ordered, AFileThatIsRemoved) {
  for (const auto* name : {"0", "1"}) files_.remove(directory_.path() / name);
  compare(1, 100, length(1) - 100);
  compare(0, 0, length(0));
}

TEST_F(Ordered, APieceThatIsAskedForAgain) {
  files_.fails_at = 1;
  compare(1, 100, cached_bytes);
  for (int i = 0; i < 2; ++i) compare(1, 100 + cached_bytes, cached_bytes);
  compare(1, 100 + 2 * cached_bytes, 1000);
}

}  // namespace
}  // namespace cairn
