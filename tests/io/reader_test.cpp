// Reading ahead: whatever the extents, their order and alignment, each gets the bytes of the file
// and their checksum, or the error of a plain read; and no other memory is written.
#include "io/reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "io/expect_error.hpp"
#include "io/files_to_read.hpp"
#include "support/rounds.hpp"
#include "testing/memory.hpp"

namespace cairn::io {
namespace {

class ReadAhead : public ReadsAhead {};
INSTANTIATE_TEST_SUITE_P(Modes, ReadAhead, all_modes(), name_of);

std::vector<Path> reading_places() {
  std::vector<Path> all{std::filesystem::current_path()};
  if (std::filesystem::is_directory("/dev/shm")) all.emplace_back("/dev/shm");
  return all;
}

TEST_P(ReadAhead, AnyExtents) {
  for (const auto& place : reading_places()) {
    Files files(place);
    for (const auto size : {9 * mib + 777, std::int64_t{5000}, 3 * mib, std::int64_t{4096}}) {
      files.add(static_cast<std::size_t>(size));
    }
    for (unsigned seed = 1; seed <= static_cast<unsigned>(test::rounds(30)); ++seed) {
      SCOPED_TRACE(cat(place.string(), ", seed ", seed));
      std::mt19937 random(seed);
      const auto below = [&](std::int64_t n) {
        return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
      };
      for (const auto& path : files.paths) {
        if (below(2) == 0) forget_pages(path);
      }
      // Mostly consecutive, with gaps; sometimes elsewhere in a file, or in another one.
      std::vector<Extent> extents;
      std::vector<Room> rooms;
      rooms.reserve(60);
      int file = 0;
      std::int64_t at = 0;
      for (int i = 0; i < 60; ++i) {
        const auto size =
            static_cast<std::int64_t>(files.contents[static_cast<std::size_t>(file)].size());
        switch (below(8)) {
          case 0:
            file = static_cast<int>(below(4));
            at = 0;
            break;
          case 1:
            at = below(size);
            break;
          case 2:
            at += below(100 * kib);
            break;
          default:
            break;
        }
        const auto end =
            static_cast<std::int64_t>(files.contents[static_cast<std::size_t>(file)].size());
        if (at >= end) at = 0;
        const std::int64_t largest[] = {10, 4096, 200 * kib, 5 * mib};
        const auto length = std::min(end - at, 1 + below(largest[below(4)]));
        // Half of them are aligned like the pages of the file, so that they can be read into place.
        rooms.emplace_back(length,
                           below(2) == 0 ? at % static_cast<std::int64_t>(page) : below(4096));
        const bool looked_at = below(8) == 0;
        extents.push_back({file, at, length, looked_at ? nullptr : rooms.back().begin(),
                           !looked_at && below(4) != 0});
        at += length;
      }
      const auto reader = files.read(extents, GetParam());
      const auto last = below(4) == 0 ? below(60) : 60;  // some are abandoned in the middle
      for (std::int64_t i = 0; i < last; ++i) {
        const auto n = static_cast<std::size_t>(i);
        const auto right = files.at(extents[n]);
        EXPECT_EQ(reader->next(), crc32c(right)) << "extent " << i;
        if (extents[n].to) {
          EXPECT_TRUE(rooms[n].bytes() == right) << "extent " << i;
        }
        EXPECT_TRUE(rooms[n].whole()) << "extent " << i;
      }
    }
  }
}

TEST_P(ReadAhead, MemoryThatIsUsedTwiceIsWrittenInItsTurnOnly) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(6 * mib));
  Room room(mib, 0);
  std::vector<Extent> extents;
  for (int i = 0; i < 6; ++i) extents.push_back({0, i * mib, mib, room.begin(), false});
  const auto reader = files.read(extents, GetParam());
  for (const auto& extent : extents) expect_next(*reader, files, extent, room);
}

TEST_P(ReadAhead, AFileThatEndsEarlyFailsWhatLiesBehindItsEnd) {
  for (const auto end :
       {std::int64_t{0}, std::int64_t{1}, mib + 4096, 2 * mib, 2 * mib + 5, 5 * mib - 1}) {
    SCOPED_TRACE(cat("end ", end));
    Files files(std::filesystem::current_path());
    files.add(static_cast<std::size_t>(5 * mib));
    files.add(static_cast<std::size_t>(mib));
    std::vector<Room> rooms;
    auto extents =
        files.in_a_row({mib, 4096, 3 * mib - 4096 - 5, 5, 600'000, mib - 600'000}, rooms);
    Room other(mib, 16);
    extents.push_back({1, 0, mib, other.begin(), true});
    ASSERT_EQ(::truncate(files.paths[0].c_str(), end), 0);
    const auto reader = files.read(extents, GetParam());
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      if (extents[i].offset + extents[i].bytes <= end) {
        expect_next(*reader, files, extents[i], rooms[i]);
      } else {
        EXPECT_CAIRN_ERROR(reader->next(), Code::data_loss, files.paths[0].string());
      }
    }
    expect_next(*reader, files, extents.back(), other);
  }
}

TEST_P(ReadAhead, AFileThatIsNotThereFailsItsExtentsOnly) {
  Files files(std::filesystem::current_path());
  for (int i = 0; i < 3; ++i) files.add(static_cast<std::size_t>(3 * mib));
  std::filesystem::remove(files.paths[1]);
  std::vector<Room> rooms;
  std::vector<Extent> extents;
  rooms.reserve(6);
  for (int i = 0; i < 6; ++i) {
    rooms.emplace_back(mib + 3, 0);
    extents.push_back({i / 2, (i % 2) * mib, mib + 3, rooms.back().begin(), true});
  }
  const auto reader = files.read(extents, GetParam());
  for (std::size_t i = 0; i < 6; ++i) {
    if (extents[i].file == 1) {
      EXPECT_CAIRN_ERROR(reader->next(), Code::not_found, files.paths[1].string());
    } else {
      expect_next(*reader, files, extents[i], rooms[i]);
    }
  }
}

TEST_P(ReadAhead, CallsThatReturnLessAreGoneOnWith) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(5 * mib + 99));
  for (const std::int64_t most : {4096, 5000, 1'000'000, 512}) {
    SCOPED_TRACE(most);
    std::vector<Room> rooms;
    const auto extents = files.in_a_row({mib, 3 * mib, 17, mib + 82}, rooms);
    forget_pages(files.paths[0]);
    test::set_read_fault([&](const test::ReadCall& call) {
      return call.path == files.paths[0] ? most : static_cast<std::int64_t>(call.bytes);
    });
    const auto reader = files.read(extents, GetParam());
    for (std::size_t i = 0; i < extents.size(); ++i)
      expect_next(*reader, files, extents[i], rooms[i]);
    test::set_read_fault({});
  }
}

// In a child process, because a refusal is remembered.
template <class F>
void in_a_child(F&& test) {
  const pid_t child = ::fork();
  if (child == 0) {
    test();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(ReadAhead, AFileSystemThatRefusesIsReadPlainly) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(5 * mib));
  const int direct = ::open(files.paths[0].c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0) GTEST_SKIP() << "this file system does so";
  ::close(direct);
  in_a_child([&] {
    std::atomic<int> refused = 0;
    test::set_read_fault([&](const test::ReadCall& call) {
      if (!call.direct) return static_cast<std::int64_t>(call.bytes);
      ++refused;
      return std::int64_t{-EINVAL};
    });
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<Room> rooms;
      const auto extents = files.in_a_row({mib, 4 * mib}, rooms);
      forget_pages(files.paths[0]);
      const int before = refused;
      const auto reader = files.read(extents, GetParam());
      for (std::size_t i = 0; i < 2; ++i) expect_next(*reader, files, extents[i], rooms[i]);
      // The file system is asked once, and never again.
      EXPECT_EQ(refused > before, turn == 0 && GetParam() != DirectIo::off) << "turn " << turn;
    }
  });
}

TEST_P(ReadAhead, WhatCannotBeReadIsToldInItsTurn) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(8 * mib));
  const std::vector<std::int64_t> lengths{mib, 512 * kib, 512 * kib, 3 * mib, 7, 3 * mib - 7};
  std::int64_t bad = 0;
  for (std::size_t broken = 0; broken < lengths.size(); ++broken, bad += lengths[broken - 1]) {
    SCOPED_TRACE(broken);
    std::vector<Room> rooms;
    const auto extents = files.in_a_row(lengths, rooms);
    forget_pages(files.paths[0]);
    const auto place = bad + lengths[broken] / 2;
    test::set_read_fault([&](const test::ReadCall& call) {
      const bool hit = call.path == files.paths[0] && call.offset <= place &&
                       place < call.offset + static_cast<std::int64_t>(call.bytes);
      return hit ? std::int64_t{-EIO} : static_cast<std::int64_t>(call.bytes);
    });
    const auto reader = files.read(extents, GetParam());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (i == broken) {
        EXPECT_CAIRN_ERROR(reader->next(), Code::io, files.paths[0].string());
      } else {
        expect_next(*reader, files, extents[i], rooms[i]);
      }
    }
    test::set_read_fault({});
  }
}

TEST_P(ReadAhead, MoreAtATimeThanThereAreBuffers) {
  Files files(std::filesystem::current_path());
  files.add(static_cast<std::size_t>(6 * mib));
  forget_pages(files.paths[0]);
  std::vector<std::thread> threads;
  for (int i = 0; i < 7; ++i) {
    threads.emplace_back([&] {
      std::vector<Room> rooms;
      const auto extents = files.in_a_row({3 * mib, 3 * mib}, rooms);
      const auto reader = files.read(extents, GetParam());
      for (std::size_t k = 0; k < 2; ++k) expect_next(*reader, files, extents[k], rooms[k]);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Reader, OneOfADiskInMemoryReadsWhenAsked) {
  MemoryFileSystem disk;
  const auto bytes = random_bytes(static_cast<std::size_t>(3 * mib), 7);
  write_file(disk, "/a", bytes);
  Room room(3 * mib - 1, 0);
  const auto reader = disk.read_ahead({"/b", "/a"},
                                      {{0, 0, 1, nullptr, false},
                                       {1, 1, 3 * mib - 1, room.begin(), true},
                                       {1, 3 * mib, 1, nullptr, false}},
                                      DirectIo::on);
  EXPECT_CAIRN_ERROR(reader->next(), Code::not_found, "/b");
  EXPECT_EQ(reader->next(), crc32c(std::string_view(bytes).substr(1)));
  EXPECT_TRUE(room.bytes() == std::string_view(bytes).substr(1));
  EXPECT_CAIRN_ERROR(reader->next(), Code::data_loss, "/a");
}

// A wrapper of a file system that overrides open_read sees each file that is read.
TEST(Reader, OfAWrapperReadsWhatTheWrapperOpens) {
  class Counted : public FileSystemWrapper {
   public:
    Counted() : FileSystemWrapper(posix_file_system()) {}
    std::unique_ptr<File> open_read(const Path& path) override {
      ++opened;
      return FileSystemWrapper::open_read(path);
    }
    int opened = 0;
  } files;
  const test::TemporaryDirectory place;
  const auto path = place.path() / "a";
  const auto bytes = random_bytes(100, 7);
  write_file(files, path, bytes);
  EXPECT_EQ(files.opened, 0);
  EXPECT_EQ(files.read_ahead({path}, {{0, 0, 100, nullptr, false}}, DirectIo::on)->next(),
            crc32c(bytes));
  EXPECT_EQ(files.opened, 1);
  EXPECT_EQ(files.identity(), files.target().identity());
}

TEST(Rings, AProcessHasFourAtMost) {
  std::vector<Ring> rings;
  while (auto ring = take_ring()) {
    rings.push_back(std::move(ring));
    ASSERT_LE(rings.size(), 4u);
  }
  EXPECT_EQ(rings.size(), 4u);
  const auto* touched = rings.back().get();
  rings.pop_back();
  EXPECT_EQ(take_ring().get(), touched) << "kept, as it is touched";
}

}  // namespace
}  // namespace cairn::io
