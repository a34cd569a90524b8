// What every file system must do, tested on the disk, on the one in memory and through a wrapper.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "base/text.hpp"
#include "io/expect_error.hpp"
#include "io/file_system.hpp"
#include "io/temporary_directory.hpp"
#include "testing/memory.hpp"

namespace cairn::io {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Conformance : public ::testing::TestWithParam<const char*> {
 protected:
  Conformance() {
    if (std::string(GetParam()) == "posix") {
      files_ = posix_file_system();
      directory_ = temporary_.path();
    } else {
      files_ = std::make_shared<MemoryFileSystem>();
      files_->create_directory("/d");
      directory_ = "/d";
    }
    if (std::string(GetParam()) == "wrapper") files_ = std::make_shared<FileSystemWrapper>(files_);
  }
  FileSystem& files() { return *files_; }
  Path at(const std::string& name) const { return directory_ / name; }
  std::string read(const std::string& name) { return read_file(files(), at(name), 1 << 20); }

  test::TemporaryDirectory temporary_;
  std::shared_ptr<FileSystem> files_;
  Path directory_;
};

INSTANTIATE_TEST_SUITE_P(On, Conformance, ::testing::Values("posix", "memory", "wrapper"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Conformance, ResizedFilesAreCutOrZeros) {
  write_file(files(), at("a"), "hello world");
  auto file = files().open_write(at("a"));
  file->resize(5);
  EXPECT_EQ(file->size(), 5);
  file->resize(8);
  file->write_behind(7, bytes_of("!"));
  file->sync();
  file->close();
  EXPECT_EQ(read("a"), std::string("hello\0\0!", 8));
  EXPECT_CAIRN_ERROR(file->resize(1), Code::io, "cannot resize");
  EXPECT_CAIRN_ERROR(files().open_read(at("a"))->resize(1), Code::io, "cannot make 1 bytes long");
  EXPECT_TRUE(files().has_one_name(at("a")));
  EXPECT_FALSE(files().has_one_name(at("none")));
}

TEST_P(Conformance, ALinkIsAnotherNameOfTheSameBytes) {
  write_file(files(), at("a"), "hello");
  EXPECT_EQ(files().status(at("a"))->names, 1);
  ASSERT_TRUE(files().try_link(at("a"), at("b")));
  EXPECT_EQ(files().status(at("a"))->id, files().status(at("b"))->id);
  EXPECT_EQ(files().status(at("b"))->names, 2);
  EXPECT_FALSE(files().has_one_name(at("a")));
  EXPECT_FALSE(files().open_sole(at("b")));
  files().open_write(at("b"))->write_at(0, bytes_of("j"));
  EXPECT_EQ(read("a"), "jello");
  EXPECT_CAIRN_ERROR(files().try_link(at("a"), at("b")), Code::already_exists, "cannot link");
  EXPECT_CAIRN_ERROR(files().try_link(at("none"), at("c")), Code::not_found, "cannot link");
  // Both are names of one file: the rename does nothing, and both stay.
  files().rename(at("a"), at("b"));
  EXPECT_EQ(files().list(directory_), (std::vector<std::string>{"a", "b"}));
  files().remove(at("a"));
  EXPECT_EQ(read("b"), "jello");
  EXPECT_TRUE(files().has_one_name(at("b")));
  ASSERT_TRUE(files().open_sole(at("b")));
  files().remove(at("b"));
  EXPECT_FALSE(files().status(at("b")));
}

TEST_P(Conformance, WrittenBytesAreReadBack) {
  auto file = files().create(at("a"));
  file->write_at(0, bytes_of("hello world"));
  file->write_at(6, bytes_of("there"));
  file->write_at(20, bytes_of("end"));
  EXPECT_EQ(file->size(), 23);
  std::string back(23, 'x');
  file->read_at(0, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, std::string("hello there\0\0\0\0\0\0\0\0\0end", 23));
  file->sync();
  file->close();
  EXPECT_EQ(read("a"), back);
  const auto status = files().status(at("a"));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->size, 23);
  EXPECT_FALSE(status->is_directory);
  EXPECT_GT(status->modified_seconds, 1.5e9);
}

TEST_P(Conformance, EmptyWriteDoesNotExtend) {
  auto file = files().create(at("a"));
  file->write_at(100, {});
  EXPECT_EQ(file->size(), 0);
  file->read_at(0, {});
}

TEST_P(Conformance, ReadBeyondTheEndIsDataLoss) {
  write_file(files(), at("a"), "12345");
  const auto file = files().open_read(at("a"));
  std::array<std::byte, 4> four;
  EXPECT_CAIRN_ERROR(
      file->read_at(2, four), Code::data_loss,
      cat("file ends too early: ", at("a").string(), " (1 bytes are wanted at offset 5)"));
  EXPECT_CAIRN_ERROR(file->read_at(9, four), Code::data_loss, "(4 bytes are wanted at offset 9)");
  file->read_at(1, four);
  EXPECT_EQ(four[3], std::byte{'5'});
}

TEST_P(Conformance, SeveralWriteDisjointPartsOfOneFile) {
  EXPECT_CAIRN_ERROR(files().open_write(at("a")), Code::not_found, "cannot open file");
  files().create(at("a"))->close();
  const auto low = files().open_write(at("a")), high = files().open_write(at("a"));
  high->write_at(6, std::as_bytes(std::span("world", 5)));
  high->sync();
  low->write_at(0, std::as_bytes(std::span("hello", 5)));
  low->sync();
  EXPECT_EQ(read("a"), std::string("hello\0world", 11));
  std::array<std::byte, 1> one{};
  low->read_at(10, one);
  EXPECT_EQ(one[0], std::byte{'d'});
  files().create_directory(at("sub"));
  EXPECT_CAIRN_ERROR(files().open_write(at("sub")), Code::io, "Is a directory");
}

TEST_P(Conformance, NegativeOffsetsAreRefused) {
  auto file = files().create(at("a"));
  std::array<std::byte, 1> one{};
  EXPECT_CAIRN_ERROR(file->write_at(-1, one), Code::io, "Invalid argument");
  EXPECT_CAIRN_ERROR(file->read_at(-1, one), Code::io, "Invalid argument");
}

TEST_P(Conformance, CreateIsExclusive) {
  write_file(files(), at("a"), "first");
  EXPECT_CAIRN_ERROR(files().create(at("a")), Code::already_exists,
                     cat("cannot create file: ", at("a").string(), " (File exists). Remove it"));
  EXPECT_CAIRN_ERROR(write_file(files(), at("a"), "second"), Code::already_exists, "File exists");
  EXPECT_EQ(read("a"), "first");
  files().create_directory(at("sub"));
  EXPECT_CAIRN_ERROR(files().create(at("sub")), Code::already_exists, "File exists");
  EXPECT_CAIRN_ERROR(files().create_directory(at("sub")), Code::already_exists,
                     "cannot create directory");
  EXPECT_CAIRN_ERROR(files().create_directory(at("a")), Code::already_exists, "File exists");
}

TEST_P(Conformance, MissingThingsAreNotFound) {
  EXPECT_CAIRN_ERROR(
      files().open_read(at("no")), Code::not_found,
      cat("cannot open file: ", at("no").string(), " (No such file or directory). Check the path"));
  EXPECT_CAIRN_ERROR(files().create(at("no/a")), Code::not_found, "cannot create file");
  EXPECT_CAIRN_ERROR(files().create_directory(at("no/a")), Code::not_found, "create directory");
  EXPECT_CAIRN_ERROR(files().remove(at("no")), Code::not_found, "cannot remove file");
  EXPECT_CAIRN_ERROR(files().remove_directory(at("no")), Code::not_found, "remove directory");
  EXPECT_CAIRN_ERROR(files().rename(at("no"), at("b")), Code::not_found, "cannot rename to");
  EXPECT_CAIRN_ERROR(files().list(at("no")), Code::not_found, "cannot list directory");
  EXPECT_CAIRN_ERROR(files().sync_directory(at("no")), Code::not_found, "directory");
  EXPECT_CAIRN_ERROR(files().free_bytes(at("no")), Code::not_found, "free space");
  EXPECT_CAIRN_ERROR(files().try_lock(at("no/lock")), Code::not_found, "lock");
  EXPECT_FALSE(files().status(at("no")));
  EXPECT_FALSE(exists(files(), at("no/a")));
  write_file(files(), at("a"), "");
  EXPECT_CAIRN_ERROR(files().rename(at("a"), at("no/a")), Code::not_found, "cannot rename to");
}

// A file in the place of a directory stops everyone, even root.
TEST_P(Conformance, FileInPlaceOfDirectory) {
  write_file(files(), at("a"), "x");
  EXPECT_CAIRN_ERROR(files().create(at("a/b")), Code::io, "(Not a directory). A part of the path");
  EXPECT_CAIRN_ERROR(files().open_read(at("a/b")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(files().create_directory(at("a/b")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(files().list(at("a")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(files().sync_directory(at("a")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(files().remove_directory(at("a")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(files().try_lock(at("a/lock")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(create_directories(files(), at("a/b/c")), Code::io, "Not a directory");
  EXPECT_CAIRN_ERROR(create_directories(files(), at("a")), Code::io, "Not a directory");
  EXPECT_FALSE(files().status(at("a/b")));
}

TEST_P(Conformance, DirectoryInPlaceOfFile) {
  files().create_directory(at("sub"));
  EXPECT_CAIRN_ERROR(files().open_read(at("sub")), Code::data_loss, "no regular file");
  EXPECT_CAIRN_ERROR(files().remove(at("sub")), Code::io, "Is a directory");
  EXPECT_CAIRN_ERROR(files().try_lock(at("sub")), Code::io, "Is a directory");
  write_file(files(), at("a"), "x");
  EXPECT_CAIRN_ERROR(files().rename(at("a"), at("sub")), Code::io, "Is a directory");
  EXPECT_CAIRN_ERROR(files().rename(at("sub"), at("a")), Code::io, "Not a directory");
}

TEST_P(Conformance, RenameReplaces) {
  write_file(files(), at("a"), "new");
  write_file(files(), at("b"), "old");
  const auto old = files().open_read(at("b"));
  files().rename(at("a"), at("b"));
  EXPECT_EQ(read("b"), "new");
  EXPECT_FALSE(exists(files(), at("a")));
  std::string still(3, ' ');
  old->read_at(0, std::as_writable_bytes(std::span(still)));
  EXPECT_EQ(still, "old");
  files().rename(at("b"), at("b"));
  EXPECT_EQ(read("b"), "new");
}

TEST_P(Conformance, RenameOfDirectories) {
  files().create_directory(at("x"));
  files().create_directory(at("y"));
  write_file(files(), at("x/f"), "1");
  EXPECT_CAIRN_ERROR(files().rename(at("x"), at("x/below")), Code::io, "Invalid argument");
  files().rename(at("x"), at("y"));
  EXPECT_EQ(read("y/f"), "1");
  files().create_directory(at("z"));
  EXPECT_CAIRN_ERROR(files().rename(at("z"), at("y")), Code::io, "Directory not empty");
  files().rename(at("y"), at("z/inner"));
  EXPECT_EQ(read("z/inner/f"), "1");
}

TEST_P(Conformance, RemovedFileStaysReadableWhileOpen) {
  write_file(files(), at("a"), "text");
  auto file = files().open_read(at("a"));
  files().remove(at("a"));
  EXPECT_FALSE(exists(files(), at("a")));
  EXPECT_EQ(file->size(), 4);
  write_file(files(), at("a"), "other");
  EXPECT_EQ(file->size(), 4);
}

TEST_P(Conformance, DirectoriesAreRemovedWhenEmpty) {
  files().create_directory(at("sub"));
  write_file(files(), at("sub/a"), "");
  EXPECT_CAIRN_ERROR(files().remove_directory(at("sub")), Code::io, "(Directory not empty)");
  files().remove(at("sub/a"));
  files().remove_directory(at("sub"));
  EXPECT_FALSE(exists(files(), at("sub")));
}

TEST_P(Conformance, ListIsAscendingAndShowsHiddenFiles) {
  for (const char* name : {"b", "a-10", "a-9", ".hidden", "B"}) write_file(files(), at(name), "");
  files().create_directory(at("sub"));
  EXPECT_EQ(files().list(directory_),
            (std::vector<std::string>{".hidden", "B", "a-10", "a-9", "b", "sub"}));
  EXPECT_TRUE(files().list(at("sub")).empty());
}

TEST_P(Conformance, TrailingSlashNamesTheDirectory) {
  create_directories(files(), at("x/y/"));
  EXPECT_TRUE(files().status(at("x/y"))->is_directory);
  EXPECT_EQ(files().list(at("x/")), std::vector<std::string>{"y"});
}

TEST_P(Conformance, FreeBytesArePlausible) {
  const auto bytes = files().free_bytes(directory_);
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, std::int64_t{1} << 55);
}

TEST_P(Conformance, LockExcludesInTheSameProcessToo) {
  auto first = files().try_lock(at("lock"));
  ASSERT_TRUE(first);
  EXPECT_TRUE(exists(files(), at("lock")));
  EXPECT_FALSE(files().try_lock(at("lock")));
  // Reading and closing the file must not drop the lock, as it would with process locks.
  read("lock");
  EXPECT_FALSE(files().try_lock(at("lock")));
  EXPECT_TRUE(files().try_lock(at("other")));
  first.reset();
  auto second = files().try_lock(at("lock"));
  EXPECT_TRUE(second);
  files().remove(at("lock"));
  EXPECT_TRUE(files().try_lock(at("lock"))) << "a new file of that name is another lock";
}

TEST_P(Conformance, ManyThreadsCreateOneWins) {
  std::atomic<int> created = 0, refused = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      write_file(files(), at(cat("own", i)), cat(i));
      try {
        write_file(files(), at("shared"), cat(i));
        ++created;
      } catch (const Error& error) {
        if (error.code() == Code::already_exists) ++refused;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(created, 1);
  EXPECT_EQ(refused, 7);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(read(cat("own", i)), cat(i));
}

TEST_P(Conformance, ManyThreadsReadOneFile) {
  std::string content;
  for (int i = 0; i < 100000; ++i) content += static_cast<char>(i % 251);
  write_file(files(), at("a"), content);
  const auto file = files().open_read(at("a"));
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        std::string part(97, ' ');
        const auto offset = (t * 7919 + i * 104729) % 99000;
        file->read_at(offset, std::as_writable_bytes(std::span(part)));
        if (part != content.substr(static_cast<std::size_t>(offset), 97)) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Conformance, AClosedFileRefusesEverything) {
  auto file = files().create(at("a"));
  file->close();
  file->close();
  std::array<std::byte, 1> one{};
  EXPECT_CAIRN_ERROR(file->write_at(0, one), Code::io, "Bad file descriptor");
  EXPECT_CAIRN_ERROR(file->read_at(0, one), Code::io, "Bad file descriptor");
  EXPECT_CAIRN_ERROR(file->sync(), Code::io, "Bad file descriptor");
  EXPECT_CAIRN_ERROR(file->size(), Code::io, "Bad file descriptor");
}

TEST_P(Conformance, AFileOpenedToReadMayBeSyncedButNotWritten) {
  write_file(files(), at("a"), "1");
  auto file = files().open_read(at("a"));
  file->sync();
  std::array<std::byte, 1> one{};
  EXPECT_CAIRN_ERROR(file->write_at(0, one), Code::io, "Bad file descriptor");
}

TEST_P(Conformance, ReadFileRefusesWhatIsTooLarge) {
  write_file(files(), at("a"), "12345");
  EXPECT_EQ(read_file(files(), at("a"), 5), "12345");
  EXPECT_CAIRN_ERROR(read_file(files(), at("a"), 4), Code::data_loss,
                     "(5 bytes, at most 4 are plausible)");
}

TEST_P(Conformance, ReplaceFileOverADeadProcessesLeftover) {
  write_file(files(), at("a.tmp"), "half wri");
  replace_file(files(), at("a"), "one");
  EXPECT_EQ(read("a"), "one");
  replace_file(files(), at("a"), "two");
  EXPECT_EQ(read("a"), "two");
  EXPECT_EQ(files().list(directory_), std::vector<std::string>{"a"});
}

TEST_P(Conformance, CreateDirectoriesMakesParents) {
  create_directories(files(), at("x/y/z"));
  create_directories(files(), at("x/y/z"));
  create_directories(files(), at("x/y"));
  EXPECT_EQ(files().list(at("x/y")), std::vector<std::string>{"z"});
}

}  // namespace
}  // namespace cairn::io
