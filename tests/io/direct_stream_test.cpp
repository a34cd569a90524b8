// Writes past the page cache: whatever the order, sizes and alignment of writes, the file has the
// bytes of a plain file. The same must hold where a file system does not allow such writes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/text.hpp"
#include "io/direct_io.hpp"
#include "io/expect_error.hpp"
#include "io/file_system.hpp"
#include "io/temporary_directory.hpp"
#include "support/rounds.hpp"

namespace cairn::io {
namespace {

// Memory that begins on a page, like that of a pool.
struct Aligned {
  explicit Aligned(std::size_t size)
      : begin(static_cast<std::byte*>(std::aligned_alloc(page, (size + page - 1) / page * page))) {}
  ~Aligned() { std::free(begin); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* begin;
};

// A working directory on a disk, and one in memory if the machine has that.
std::vector<std::filesystem::path> places() {
  std::vector<std::filesystem::path> all{std::filesystem::current_path()};
  if (std::filesystem::is_directory("/dev/shm")) all.emplace_back("/dev/shm");
  return all;
}

std::string read_all(const Path& path) {
  return read_file(*posix_file_system(), path, std::int64_t{1} << 30);
}

class DirectStream : public testing::TestWithParam<DirectIo> {};
INSTANTIATE_TEST_SUITE_P(Modes, DirectStream,
                         testing::Values(DirectIo::automatic, DirectIo::on, DirectIo::off),
                         [](const auto& info) {
                           return info.param == DirectIo::on    ? "on"
                                  : info.param == DirectIo::off ? "off"
                                                                : "automatic";
                         });

TEST_P(DirectStream, AnyWritesGiveTheBytesOfAPlainFile) {
  const auto disk = posix_file_system();
  for (const auto& place : places()) {
    const test::TemporaryDirectory directory(place);
    for (int seed = 1; seed <= test::rounds(24); ++seed) {
      SCOPED_TRACE(cat(place.string(), ", seed ", seed));
      std::mt19937_64 random(static_cast<unsigned>(seed));
      const auto below = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
      };
      constexpr std::size_t source_bytes = std::size_t{5} << 20;
      const Aligned source(source_bytes);
      for (std::size_t i = 0; i < source_bytes; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(source.begin + i, &word, sizeof word);
      }
      const auto path = directory.path() / cat("file", seed);
      // Half of the files are overwritten.
      std::string model;
      if (seed % 2 == 0) {
        model.assign(below(std::size_t{6} << 20), 'o');
        write_file(*disk, path, model);
      }
      const auto file = seed % 2 == 0 ? disk->open_write(path) : disk->create(path);
      file->stream(GetParam());
      if (below(2) == 0) file->expect(std::int64_t{4} << 20);  // which need not be so
      std::size_t at = 0;
      for (int i = 0; i < 40; ++i) {
        // Mostly consecutive, now and then at the next page; sometimes back over earlier bytes.
        switch (below(6)) {
          case 0:
            at = (at + page - 1) / page * page;
            break;
          case 1:
            at = below(std::size_t{6} << 20);
            break;
          default:
            break;
        }
        const std::size_t largest[] = {10, page, 100'000, std::size_t{3} << 20};
        const auto size = 1 + below(largest[below(4)]);
        auto from = below(source_bytes - size);
        if (below(2) == 0) from = from / page * page;
        const std::span bytes(source.begin + from, size);
        if (model.size() < at + size) model.resize(at + size);
        std::memcpy(model.data() + at, bytes.data(), size);
        if (below(2) == 0) {
          file->write_behind(static_cast<std::int64_t>(at), bytes);
        } else {
          std::vector<std::byte> gone(bytes.begin(), bytes.end());
          file->write_at(static_cast<std::int64_t>(at), gone);
          std::fill(gone.begin(), gone.end(), std::byte{0xee});
        }
        at += size;
        if (below(15) == 0) file->sync();
      }
      if (below(2) == 0) {
        model.resize(below(model.size()));
        file->resize(static_cast<std::int64_t>(model.size()));
      }
      EXPECT_EQ(file->size(), static_cast<std::int64_t>(model.size()));
      file->sync();
      file->close();
      ASSERT_TRUE(read_all(path) == model);
    }
  }
}

// Then small writes need not be gathered before.
TEST_P(DirectStream, GathersWhatIsExpectedToBeMuch) {
  const test::TemporaryDirectory directory(std::filesystem::current_path());
  const std::string small = "small";
  for (const auto expected : {std::int64_t{0}, std::int64_t{4096}, std::int64_t{8} << 20}) {
    const auto path = directory.path() / cat(expected);
    const auto file = posix_file_system()->create(path);
    file->stream(GetParam());
    file->expect(expected);
    EXPECT_EQ(file->gathers(), GetParam() == DirectIo::automatic && expected > 4096);
    for (int i = 0; i < 3; ++i) {
      file->write_at(5 * i, std::as_bytes(std::span(small)));
    }
    file->sync();
    file->close();
    EXPECT_EQ(read_all(path), "smallsmallsmall");
  }
}

// Ranks write runs of dense tensors in this way: neighbours share pages.
TEST_P(DirectStream, WritersOfOneFileDoNotTouchEachOthersBytes) {
  const test::TemporaryDirectory directory(std::filesystem::current_path());
  const auto path = directory.path() / "shared";
  write_file(*posix_file_system(), path, "");
  constexpr std::size_t part = (std::size_t{3} << 20) + 1234;
  constexpr int writers = 3;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      const std::string bytes(part, static_cast<char>('a' + writer));
      const auto file = posix_file_system()->open_write(path);
      file->stream(GetParam());
      file->write_at(static_cast<std::int64_t>(part) * writer, std::as_bytes(std::span(bytes)));
      file->sync();
      file->close();
    });
  }
  for (auto& thread : threads) thread.join();
  std::string expected;
  for (int writer = 0; writer < writers; ++writer)
    expected.append(part, static_cast<char>('a' + writer));
  EXPECT_TRUE(read_all(path) == expected);
}

TEST_P(DirectStream, MoreFilesAtATimeThanThereAreBuffers) {
  const test::TemporaryDirectory directory(std::filesystem::current_path());
  constexpr int count = 12;
  std::vector<std::unique_ptr<File>> files;
  const std::string piece(std::size_t{1} << 20, 'p'), end = "the end";
  for (int i = 0; i < count; ++i) {
    files.push_back(posix_file_system()->create(directory.path() / cat(i)));
    files.back()->stream(GetParam());
    files.back()->write_at(0, std::as_bytes(std::span(piece)));
  }
  for (auto& file : files) {
    file->write_at(static_cast<std::int64_t>(piece.size()), std::as_bytes(std::span(end)));
    file.reset();  // without a sync or close
  }
  for (int i = 0; i < count; ++i) EXPECT_TRUE(read_all(directory.path() / cat(i)) == piece + end);
}

TEST_P(DirectStream, AFailedWriteIsToldByTheSyncAtTheLatest) {
  const test::TemporaryDirectory directory(std::filesystem::current_path());
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{std::size_t{3} << 20, std::size_t{3} << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int result = 1;
    const Aligned bytes(std::size_t{8} << 20);
    std::memset(bytes.begin, 1, std::size_t{8} << 20);
    const auto file = posix_file_system()->create(directory.path() / "a");
    file->stream(GetParam());
    try {
      file->write_behind(0, {bytes.begin, std::size_t{8} << 20});
      file->sync();
    } catch (const Error& error) {
      result =
          error.code() == Code::io && cat(error.what()).find("File too large") != std::string::npos
              ? 0
              : 2;
    }
    // A second sync fails, too: nobody may believe later that the bytes are durable.
    try {
      if (GetParam() != DirectIo::off) file->sync(), result = 3;
    } catch (const Error&) {
    }
    ::_exit(result);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// In a file that exists, several requests are in progress when one fails. Bytes that were written
// before it may be there or not; no others may.
TEST_P(DirectStream, OneFailedWriteAmongSeveralIsToldAndEndsTheFile) {
  constexpr std::size_t size = std::size_t{24} << 20, limit_of_files = std::size_t{10} << 20,
                        last = std::size_t{3} << 20;
  for (const bool on_pages : {true, false}) {
    for (const bool syncs : {true, false}) {
      SCOPED_TRACE(cat(on_pages ? "on pages" : "on none", syncs ? ", synced" : ", given up"));
      const test::TemporaryDirectory directory(std::filesystem::current_path());
      const auto path = directory.path() / "a";
      write_file(*posix_file_system(), path, std::string(size, 'o'));
      const pid_t child = ::fork();
      if (child == 0) {
        const rlimit limit{limit_of_files, limit_of_files};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const Aligned memory(size + page);
        const std::span bytes(memory.begin + (on_pages ? 0 : 8), size - 100);
        std::ranges::fill(bytes, std::byte{'n'});
        auto file = posix_file_system()->open_write(path);
        file->stream(GetParam());
        const auto fails = [](const auto& action) {
          try {
            action();
          } catch (const Error& error) {
            return error.code() == Code::io &&
                   cat(error.what()).find("File too large") != std::string::npos;
          }
          return false;
        };
        const auto write = [&] {
          constexpr std::size_t piece = (std::size_t{1} << 20) + 4097;
          for (std::size_t at = 0; at < bytes.size(); at += piece) {
            file->write_behind(static_cast<std::int64_t>(at),
                               bytes.subspan(at, std::min(piece, bytes.size() - at)));
          }
        };
        const bool early = fails(write);
        bool told = true;
        if (syncs) {
          told = GetParam() == DirectIo::off ? early : fails([&] { file->sync(); });
        } else {
          file.reset();
        }
        // Nothing is written any more: what is changed now must not reach the file.
        std::memset(bytes.data() + limit_of_files - last, 'x', last);
        file.reset();
        ::_exit(told ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 0);
      const auto found = read_all(path);
      ASSERT_EQ(found.size(), size);
      EXPECT_EQ(found.find('x'), std::string::npos);
      EXPECT_EQ(found.substr(limit_of_files), std::string(size - limit_of_files, 'o'));
      EXPECT_NE(found.find('n'), std::string::npos);
    }
  }
}

// The caller's thread writes partial pages at once. Beyond a limit that is an error, too, and no
// signal that ends the process.
TEST_P(DirectStream, PartOfAPageBeyondTheLimitOfFilesIsAnError) {
  const test::TemporaryDirectory directory(std::filesystem::current_path());
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr std::size_t limit_of_files = std::size_t{4} << 20;
    const rlimit limit{limit_of_files, limit_of_files};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string bytes(limit_of_files, 'n');
    const auto file = posix_file_system()->create(directory.path() / "a");
    file->stream(GetParam());
    file->write_at(0, std::as_bytes(std::span(bytes)));
    int told = 0;
    for (const std::size_t at : {limit_of_files, 2 * limit_of_files + 5}) {
      try {
        file->write_at(static_cast<std::int64_t>(at), std::as_bytes(std::span(bytes).first(100)));
        file->sync();
      } catch (const Error& error) {
        if (cat(error.what()).find("File too large") != std::string::npos) ++told;
      }
    }
    ::_exit(told == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(OneName, HardAndSymbolicLinksAreOtherNames) {
  const test::TemporaryDirectory directory;
  const auto disk = posix_file_system();
  const auto file = directory.path() / "file", other = directory.path() / "other";
  write_file(*disk, file, "x");
  EXPECT_TRUE(disk->has_one_name(file));
  ASSERT_TRUE(disk->try_link(file, other));
  EXPECT_FALSE(disk->has_one_name(file));
  disk->remove(other);
  EXPECT_TRUE(disk->has_one_name(file));
  ASSERT_EQ(::symlink(file.c_str(), other.c_str()), 0);
  EXPECT_FALSE(disk->has_one_name(other));
  EXPECT_FALSE(disk->has_one_name(directory.path()));
  EXPECT_FALSE(disk->has_one_name(directory.path() / "none"));
}

}  // namespace
}  // namespace cairn::io
