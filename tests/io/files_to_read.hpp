#pragma once
/// Files with random bytes, and memory into which they are read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "io/direct_io.hpp"
#include "io/file_system.hpp"
#include "io/reader.hpp"
#include "io/temporary_directory.hpp"
#include "support/read_faults.hpp"

namespace cairn::io {

inline constexpr std::int64_t kib = 1024, mib = kib * kib;
inline constexpr auto canary = std::byte{0x5a};

inline std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (auto& one : bytes) one = static_cast<char>(random());
  return bytes;
}

inline void forget_pages(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(descriptor);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

/// Memory for an extent at a chosen place in a page, with a margin around it.
class Room {
 public:
  Room(std::int64_t bytes, std::int64_t in_page)
      : bytes_(bytes), memory_(static_cast<std::size_t>(bytes) + 3 * page, canary) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    before_ = (page - begin % page) % page + static_cast<std::size_t>(in_page);
  }
  std::byte* begin() { return memory_.data() + before_; }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(memory_.data()) + before_,
            static_cast<std::size_t>(bytes_)};
  }
  bool whole() const {  // nothing was written to the margin
    const auto end = before_ + static_cast<std::size_t>(bytes_);
    const auto clean = [](auto first, auto last) {
      return std::all_of(first, last, [](std::byte one) { return one == canary; });
    };
    return clean(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(before_)) &&
           clean(memory_.begin() + static_cast<std::ptrdiff_t>(end), memory_.end());
  }

 private:
  std::int64_t bytes_;
  std::size_t before_;
  std::vector<std::byte> memory_;
};

struct Files {
  explicit Files(const Path& place) : directory(place) {}
  void add(std::size_t size) {
    const auto number = static_cast<unsigned>(paths.size());
    paths.push_back(directory.path() / cat("file", number));
    contents.push_back(random_bytes(size, 100 + number));
    write_file(*posix_file_system(), paths.back(), contents.back());
    forget_pages(paths.back());
  }
  std::string_view at(const Extent& extent) const {
    return std::string_view(contents[static_cast<std::size_t>(extent.file)])
        .substr(static_cast<std::size_t>(extent.offset), static_cast<std::size_t>(extent.bytes));
  }
  std::unique_ptr<Reader> read(std::vector<Extent> extents, DirectIo mode) const {
    return posix_file_system()->read_ahead(paths, std::move(extents), mode);
  }
  // Consecutive extents of these lengths, from the first byte of file 0 on.
  std::vector<Extent> in_a_row(const std::vector<std::int64_t>& lengths,
                               std::vector<Room>& rooms) const {
    std::vector<Extent> extents;
    std::int64_t at = 0;
    rooms.reserve(lengths.size());
    for (const auto length : lengths) {
      rooms.emplace_back(length, 16);
      extents.push_back({0, at, length, rooms.back().begin(), true});
      at += length;
    }
    return extents;
  }

  test::TemporaryDirectory directory;
  std::vector<Path> paths;
  std::vector<std::string> contents;
};

/// Tests of reading ahead, in each mode.
class ReadsAhead : public testing::TestWithParam<DirectIo> {
 protected:
  ~ReadsAhead() override { test::set_read_fault({}); }
  void expect_next(Reader& reader, const Files& files, const Extent& extent, const Room& room) {
    const auto right = files.at(extent);
    EXPECT_EQ(reader.next(), crc32c(right));
    EXPECT_TRUE(room.bytes() == right) << "offset " << extent.offset << ", " << extent.bytes;
    EXPECT_TRUE(room.whole());
  }
};

inline auto all_modes() {
  return testing::Values(DirectIo::automatic, DirectIo::on, DirectIo::off);
}
inline std::string name_of(const testing::TestParamInfo<DirectIo>& info) {
  return info.param == DirectIo::on ? "on" : info.param == DirectIo::off ? "off" : "automatic";
}

}  // namespace cairn::io
