// What only the disk can show: other processes, links, pipes and full file systems.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <vector>

#include "base/text.hpp"
#include "io/descriptor.hpp"
#include "io/expect_error.hpp"
#include "io/file_system.hpp"
#include "io/local_path.hpp"
#include "io/shared_pages.hpp"
#include "io/system_error.hpp"
#include "io/temporary_directory.hpp"
#include "support/forwarding_files.hpp"
#include "support/says.hpp"
#include "support/stale_looks.hpp"
#include "testing/memory.hpp"

namespace cairn::io {
namespace {

// Files that another node replaces when they are open, so many times.
class ReplacedFiles : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  int times = 0;

 private:
  class Replaced : public File {
   public:
    void write_at(std::int64_t, std::span<const std::byte>) override {}
    void read_at(std::int64_t, std::span<std::byte>) const override {
      throw_read_error(ESTALE, "read", "it");
    }
    std::int64_t size() const override { return 3; }
    void resize(std::int64_t) override {}
    void sync() override {}
    void close() override {}
  };
  std::unique_ptr<File> opened(const Path&, std::unique_ptr<File> file, bool) override {
    if (times-- > 0) return std::make_unique<Replaced>();
    return file;
  }
};

TEST(SmallFile, IsReadAnewWhenAnotherNodeHasReplacedIt) {
  const auto disk = std::make_shared<MemoryFileSystem>();
  write_file(*disk, "/new", "new");
  ReplacedFiles files(disk);
  files.times = 3;
  EXPECT_EQ(read_file(files, "/new", 10), "new");
  files.times = 3;
  EXPECT_EQ(try_read_file(files, "/new", 10), "new");
  files.times = 1000;
  EXPECT_CAIRN_ERROR(read_file(files, "/new", 10), Code::io, "it was removed");
}

TEST(LocalPath, TakesPathsAndFileAddressesOnly) {
  for (const char* path : {"run/ckpt", "/run/ckpt", "./s3://x", "a:b", "C:/x", "/s3://x", ""}) {
    EXPECT_EQ(local_path(path), Path(path));
  }
  EXPECT_EQ(local_path("file:///run/ckpt"), Path("/run/ckpt"));
  EXPECT_EQ(local_path("file://localhost/run"), Path("/run"));
  EXPECT_CAIRN_ERROR(local_path("file://host/run"), Code::invalid_argument,
                     "names no file of this machine");
  EXPECT_EQ(local_path("s3://bucket/run"), Path("s3://bucket/run"));
  EXPECT_CAIRN_ERROR(local_path("s3:/bucket/run"), Code::invalid_argument, "one slash");
  EXPECT_CAIRN_ERROR(local_path("gs://bucket/run"), Code::unsupported, "AWS_ENDPOINT_URL");
  EXPECT_CAIRN_ERROR(local_path("gs://bucket/run"), Code::unsupported, "gcsfuse");
  EXPECT_CAIRN_ERROR(local_path("hdfs://n/run"), Code::unsupported, "knows none for hdfs://");
}

TEST(Posix, ErrorsByNumber) {
  EXPECT_EQ(system_error(ENOSPC, "write", "/x").code(), Code::no_space);
  EXPECT_EQ(system_error(EDQUOT, "write", "/x").code(), Code::no_space);
  EXPECT_EQ(system_error(ENOENT, "write", "/x").code(), Code::not_found);
  EXPECT_EQ(system_error(EEXIST, "write", "/x").code(), Code::already_exists);
  EXPECT_EQ(system_error(ENOLCK, "lock", "/x").code(), Code::unsupported);
  EXPECT_EQ(system_error(ENOSYS, "lock", "/x").code(), Code::unsupported);
  EXPECT_EQ(system_error(EOPNOTSUPP, "lock", "/x").code(), Code::unsupported);
  EXPECT_EQ(system_error(EIO, "sync", "/x").code(), Code::io);
  EXPECT_EQ(system_error(ETIMEDOUT, "sync", "/x").code(), Code::unavailable);
  EXPECT_EQ(system_error(ENOTCONN, "sync", "/x").code(), Code::unavailable);
  const auto error = system_error(EROFS, "create file", "/d/x");
  EXPECT_EQ(error.what(),
            test::wording("cannot create file: /d/x (Read-only file system). The file system is "
                          "mounted read-only: use another directory."));
  EXPECT_EQ(error.path(), "/d/x");
}

// As when another node replaces the file again and again.
TEST(Posix, ANameThatLedToAFileThatIsGoneIsLookedUpAgain) {
  const test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  const auto path = directory.path() / "x";
  write_file(*files, path, "bytes");
  test::set_stale_looks(5);
  EXPECT_EQ(read_file(*files, path, 100), "bytes");
  test::set_stale_looks(5);
  EXPECT_EQ(files->status(path)->size, 5);
  test::set_stale_looks(100000);
  EXPECT_CAIRN_ERROR(files->open_read(path), Code::io, "cannot open file");
  EXPECT_CAIRN_ERROR(files->status(path), Code::io, "cannot examine");
  test::set_stale_looks(0);
}

// As on NFS, which opens what it remembers of a name, and says only of the open file that it is
// gone.
TEST(Posix, ANameThatOpensAFileThatIsGoneIsAskedForAnew) {
  const test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  const auto path = directory.path() / "x";
  write_file(*files, path, "bytes");
  test::remember_gone_files();
  EXPECT_EQ(read_file(*files, path, 100), "bytes");
  struct FailingReads : FileSystemWrapper {
    FailingReads() : FileSystemWrapper(posix_file_system()) {}
    std::unique_ptr<File> open_read(const Path& of) override {
      if (!asked) throw_read_error(ESTALE, "read", of);
      return FileSystemWrapper::open_read(of);
    }
    std::optional<Status> status(const Path& of) override {
      asked = true;
      return FileSystemWrapper::status(of);
    }
    bool asked = false;
  } reads;
  EXPECT_EQ(read_file(reads, path, 100), "bytes");
}

// The first lock that keeps another writer of the whole file out.
struct flock lock_of(const Path& path) {
  const int other = ::open(path.c_str(), O_RDWR);
  struct flock found = {};
  found.l_type = F_WRLCK;
  EXPECT_EQ(::fcntl(other, F_OFD_GETLK, &found), 0);
  ::close(other);
  return found;
}

// Where a program locks a part of a file, NFS writes no more than the program did.
TEST(Posix, FilesOnNfsAreLockedInPartWhileTheyAreWritten) {
  const test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  const auto path = directory.path() / "x";
  const auto bytes = std::as_bytes(std::span("bytes", 5));
  const auto elsewhere = files->create(path);
  elsewhere->write_at(0, bytes);
  EXPECT_EQ(lock_of(path).l_type, F_UNLCK);
  test::set_nfs(true);
  const auto first = files->open_write(path), second = files->open_write(path);
  EXPECT_EQ(lock_of(path).l_type, F_UNLCK);
  for (int times = 0; times < 2; ++times) {
    for (const auto* file : {&first, &second}) (*file)->write_at(0, bytes);
    for (const auto* file : {&first, &second}) {
      const auto lock = lock_of(path);
      EXPECT_EQ(lock.l_type, F_RDLCK);  // many may hold it
      EXPECT_EQ(lock.l_start, off_t{1} << 62);
      EXPECT_EQ(lock.l_len, 1);
      (*file)->sync();
    }
    EXPECT_EQ(lock_of(path).l_type, F_UNLCK);  // MPI-IO may want to lock the whole file
  }
  test::set_nfs(false);
}

// As beside MPI-IO, which locks whole files.
TEST(Posix, WhereNothingCanBeLockedOnNfsBytesGoPastThePageCache) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "x";
  write_file(*posix_file_system(), path, "bytes");
  const Descriptor one(::open(path.c_str(), O_RDWR)), other(::open(path.c_str(), O_RDWR));
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &whole), 0);
  if (::fcntl(other.get(), F_SETFL, O_RDWR | O_DIRECT) != 0) GTEST_SKIP() << "no O_DIRECT here";
  test::set_nfs(true);
  SharedPages pages;
  pages.begin_write(one.get(), path);
  EXPECT_NE(::fcntl(one.get(), F_GETFL) & O_DIRECT, 0);
  test::set_nfs(false);
}

// As on sshfs, when another host has made the file since this one looked.
TEST(Posix, AFileThatIsThereIsNotCalledForbidden) {
  const test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  write_file(*files, directory.path() / "x", "bytes");
  for (const auto& [name, code] :
       {std::pair("x", Code::already_exists), std::pair("y", Code::io)}) {
    test::set_stale_looks(1, EPERM);
    EXPECT_CAIRN_ERROR(files->create(directory.path() / name), code, "cannot create file");
  }
  EXPECT_EQ(read_file(*files, directory.path() / "x", 100), "bytes");
}

TEST(Posix, ACallThatIsInterruptedForEverFails) {
  int calls = 0;
  const auto result = retried([&] {
    ++calls;
    errno = EINTR;
    return -1;
  });
  EXPECT_EQ(result, -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_GT(calls, 1000);
  calls = 0;
  EXPECT_EQ(retried([&] { return errno = EINTR, ++calls < 100 ? -1 : calls; }), 100);
}

TEST(Posix, LinksToDevicesAreRefused) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "device";
  ASSERT_EQ(::symlink("/dev/null", path.c_str()), 0);
  EXPECT_CAIRN_ERROR(posix_file_system()->create(path), Code::already_exists, "File exists");
  EXPECT_CAIRN_ERROR(posix_file_system()->open_read(path), Code::data_loss,
                     "it is no regular file");
}

TEST(Posix, APipeDoesNotHang) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_CAIRN_ERROR(posix_file_system()->open_read(path), Code::data_loss,
                     cat("cannot open file: ", path.string(), " (it is no regular file)"));
}

TEST(Posix, ReservedSpaceIsZerosAndAHole) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "a";
  auto file = posix_file_system()->create(path);
  constexpr std::int64_t size = 1 << 20, at = 128 << 10, length = 64 << 10;
  file->reserve(0);
  EXPECT_EQ(file->size(), 0);
  EXPECT_EQ(file->next_hole(0), 0);
  file->reserve(size);
  if (file->size() == 0) GTEST_SKIP() << "this file system reserves nothing";
  EXPECT_EQ(file->size(), size);
  const std::string text(length, 'x');
  file->write_at(at, std::as_bytes(std::span(text)));
  EXPECT_GE(file->next_hole(at), at + length);
  EXPECT_EQ(file->next_hole(size + 5), size + 5);
  // If the file system reports holes, it reports both of these. (Bytes that were read may count as
  // written.)
  const auto first = file->next_hole(0), second = file->next_hole(at);
  std::string all(size, '?');
  file->read_at(0, std::as_writable_bytes(std::span(all)));
  EXPECT_EQ(all, std::string(at, '\0') + text + std::string(size - at - length, '\0'));
  if (first == size) GTEST_SKIP() << "this file system does not tell of holes";
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, at + length);
}

TEST(Posix, WriteBeyondTheFileSizeLimitIsReportedAfterWhatFits) {
  // In a child process, since the limit is the process's. The first call writes 1000 bytes, the
  // next none.
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "a";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int result = 1;
    try {
      auto file = posix_file_system()->create(path);
      const std::string text(5000, 'x');
      file->write_at(0, std::as_bytes(std::span(text)));
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool told = message.find("cannot write 4000 bytes at offset 1000") == 0 &&
                        message.find("File too large") != std::string::npos;
      result = told && error.code() == Code::io ? 0 : 2;
    }
    ::_exit(result);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(std::filesystem::file_size(path), 1000u);
}

TEST(Posix, LockOfAnotherProcessHoldsUntilItDies) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "lock";
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = posix_file_system()->try_lock(path);
    const char answer = lock ? 'y' : 'n';
    char end;
    if (::write(ready[1], &answer, 1) != 1 || ::read(go[0], &end, 1) != 1) ::_exit(1);
    ::_exit(0);  // like a crash: no destructor runs
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(posix_file_system()->try_lock(path));
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(posix_file_system()->try_lock(path));
  for (int descriptor : {ready[0], ready[1], go[0], go[1]}) ::close(descriptor);
}

TEST(Posix, AForkedChildNeitherKeepsNorDropsTheLock) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "lock";
  auto lock = posix_file_system()->try_lock(path);
  int done[2], go[2];
  ASSERT_EQ(::pipe(done), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    lock.reset();  // the parent's
    char end;
    if (::write(done[1], "x", 1) != 1 || ::read(go[0], &end, 1) != 1) ::_exit(1);
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(done[0], &answer, 1), 1);
  EXPECT_FALSE(posix_file_system()->try_lock(path));
  lock.reset();
  EXPECT_TRUE(posix_file_system()->try_lock(path));
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (int descriptor : {done[0], done[1], go[0], go[1]}) ::close(descriptor);
}

TEST(Posix, ALockIsTakenAgainWhereItsFileIsStillThere) {
  using Again = Lock::Again;
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "lock";
  const auto files = posix_file_system();
  const auto lock = files->try_lock(path);
  ASSERT_TRUE(lock->let_go());
  auto other = files->try_lock(path);
  ASSERT_TRUE(other);
  EXPECT_EQ(lock->try_again(), Again::busy);
  other.reset();
  EXPECT_EQ(lock->try_again(), Again::held);
  EXPECT_FALSE(files->try_lock(path));
  ASSERT_TRUE(lock->let_go());
  files->remove(path);
  EXPECT_EQ(lock->try_again(), Again::gone);
  other = files->try_lock(path);  // makes another file
  EXPECT_EQ(lock->try_again(), Again::gone);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(other->let_go() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a child has let go the lock of its parent";
  EXPECT_FALSE(files->try_lock(path));
}

TEST(Posix, AnOpenDirectoryIsTheSameWhateverHasItsPath) {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "run", moved = directory.path() / "moved";
  const auto files = posix_file_system();
  EXPECT_THROW(files->open_directory(path), Error);
  files->create_directory(path);
  const auto opened = files->open_directory(path);
  files->create(path / "a");
  EXPECT_EQ(opened->list(), std::vector<std::string>{"a"});
  files->create(path / "b");
  EXPECT_EQ(opened->list(), (std::vector<std::string>{"a", "b"}));
  files->rename(path, moved);
  files->create_directory(path);
  files->remove(moved / "a");
  EXPECT_EQ(opened->list(), std::vector<std::string>{"b"});
  opened->sync();
  EXPECT_THAT(files->list(path), testing::IsEmpty());
}

TEST(Posix, DescriptorsAreClosedOnExec) {
  test::TemporaryDirectory directory;
  auto file = posix_file_system()->create(directory.path() / "a");
  const auto lock = posix_file_system()->try_lock(directory.path() / "lock");
  posix_file_system()->create_directory(directory.path() / "d");
  const auto opened = posix_file_system()->open_directory(directory.path() / "d");
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (gone || target.parent_path() != directory.path()) continue;
    ++found;
    EXPECT_TRUE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) << target;
  }
  EXPECT_EQ(found, 3);
}

// Text for a closed standard error must not get into a file, so all three are closed here.
TEST(Posix, NoFileIsStandardInputOutputOrError) {
  test::TemporaryDirectory directory;
  const auto path = [&](const char* name) { return directory.path() / name; };
  auto& files = *posix_file_system();
  write_file(files, path("there"), "0123456789");
  int kept[3];
  std::cout.flush();
  for (int number = 0; number < 3; ++number) {
    kept[number] = ::fcntl(number, F_DUPFD_CLOEXEC, 10);
    ::close(number);
  }
  std::string wrong;
  try {
    const auto made = files.create(path("made"));
    made->stream(DirectIo::on);
    const std::vector<std::byte> block(std::size_t{3} << 20);
    made->write_at(0, block);
    const auto read = files.open_read(path("there")), written = files.open_write(path("there"));
    const auto sole = files.open_sole(path("made"));
    const auto lock = files.try_lock(path("lock"));
    const auto folder = files.open_directory(directory.path());
    folder->sync();
    auto reader = files.read_ahead({path("there")}, {{0, 0, 10, nullptr}}, DirectIo::automatic);
    reader->next();
    for (int number = 0; number < 3; ++number) {
      if (::fcntl(number, F_GETFD) >= 0) wrong += std::to_string(number);
    }
    made->sync();
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  for (int number = 0; number < 3; ++number) {
    ::dup2(kept[number], number);
    ::close(kept[number]);
  }
  EXPECT_EQ(wrong, "");
}

TEST(Posix, ModesAreTakenFromWhatIsCopiedAndMadeAnew) {
  test::TemporaryDirectory directory;
  const auto path = [&](const char* name) { return directory.path() / name; };
  const auto mode = [&](const char* name) {
    struct stat status = {};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0);
    return status.st_mode & 07777u;
  };
  auto& files = *posix_file_system();
  const auto before = ::umask(022);
  write_file(files, path("open"), "x");
  EXPECT_EQ(files.status(path("open"))->access, 0644u);
  ASSERT_EQ(::chmod(path("open").c_str(), 0640), 0);
  copy(files, path("open"), path("copy"));
  EXPECT_EQ(mode("copy"), 0640u);
  files.limit_access(path("copy"), 0666);
  EXPECT_EQ(mode("copy"), 0640u);
  files.limit_access(path("copy"), 0600);
  EXPECT_EQ(mode("copy"), 0600u);
  ASSERT_EQ(::chmod(path("open").c_str(), 0666), 0);
  copy(files, path("open"), path("second"));
  EXPECT_EQ(mode("second"), 0644u) << "and what the umask says";
  files.open_sole(path("open"));
  EXPECT_EQ(mode("open"), 0644u);
  ::umask(077);
  files.open_write(path("open"));
  EXPECT_EQ(mode("open"), 0644u) << "it goes on as what it is";
  files.open_sole(path("open"));
  EXPECT_EQ(mode("open"), 0600u);
  ::umask(0);
  files.open_sole(path("open"));
  EXPECT_EQ(mode("open"), 0600u) << "no more open than it was";
  ::umask(before);
}

TEST(Posix, NothingStaysOpen) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  test::TemporaryDirectory directory;
  const auto files = posix_file_system();
  const auto before = count();
  replace_file(*files, directory.path() / "a", "text");
  read_file(*files, directory.path() / "a", 10);
  files->create(directory.path() / "b").reset();
  files->list(directory.path());
  files->open_directory(directory.path())->sync();
  files->try_lock(directory.path() / "lock").reset();
  EXPECT_THROW(read_file(*files, directory.path() / "a", 1), Error);
  EXPECT_THROW(files->open_read(directory.path()), Error);
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace cairn::io
