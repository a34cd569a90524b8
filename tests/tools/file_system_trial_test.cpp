// The trial of a file system: a right one passes, and each fault is found and named. The second
// process is one of this process's objects, whose locks exclude it as another process's do.
#include "tools/file_system_trial.hpp"

#include <gmock/gmock.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "cairn/error.hpp"
#include "io/temporary_directory.hpp"
#include "support/says.hpp"
#include "tools/file_system_attempts.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

class SecondHere : public SecondProcess {
 public:
  SecondHere(std::shared_ptr<io::FileSystem> files, const io::Path& directory)
      : errands_(std::in_place, Address(std::move(files), directory)) {}
  std::string run(const std::string& errand) override {
    if (!errands_) throw Gone{{Code::io, "the second process has ended"}};
    return errands_->run(errand);
  }
  void end() override { errands_.reset(); }

 private:
  std::optional<Errands> errands_;
};

// Forwards to a file; the faults below change one operation.
class Forwarded : public io::File {
 public:
  explicit Forwarded(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    file_->write_at(offset, bytes);
  }
  void stream(DirectIo mode) override { file_->stream(mode); }
  bool gathers() const override { return file_->gathers(); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    file_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return file_->size(); }
  void resize(std::int64_t bytes) override { file_->resize(bytes); }
  void reserve(std::int64_t bytes) override { file_->reserve(bytes); }
  std::int64_t next_hole(std::int64_t from) const override { return file_->next_hole(from); }
  bool punch(std::int64_t at, std::int64_t bytes) override { return file_->punch(at, bytes); }
  void sync() override { file_->sync(); }
  void close() override { file_->close(); }

 protected:
  std::unique_ptr<io::File> file_;
};

class Wrapped : public io::FileSystemWrapper {
 public:
  Wrapped() : FileSystemWrapper(io::posix_file_system()) {}
};

// Removes the target of a rename first; continues when the other process has seen that.
class RenameInTwoSteps : public Wrapped {
 public:
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    try {
      return Wrapped::open_read(path);
    } catch (const Error&) {
      const std::lock_guard guard(mutex_);
      missed_ = true;
      changed_.notify_all();
      throw;
    }
  }
  void rename(const io::Path& from, const io::Path& to) override {
    std::unique_lock guard(mutex_);
    if (to.filename() == "watched" && !shown_) {
      shown_ = true;
      missed_ = false;
      Wrapped::remove(to);
      changed_.wait(guard, [&] { return missed_; });
    }
    Wrapped::rename(from, to);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool missed_ = false, shown_ = false;
};

struct RenameRefused : Wrapped {
  void rename(const io::Path& from, const io::Path& to) override {
    if (to.filename() != "watched") return Wrapped::rename(from, to);
    throw Error(Code::unsupported, "cannot rename");
  }
};

struct RenameNewReplaces : Wrapped {
  void rename_new(const io::Path& from, const io::Path& to) override { Wrapped::rename(from, to); }
};

struct NoExclusion : Wrapped {
  std::unique_ptr<io::Lock> try_lock(const io::Path&) override {
    return std::make_unique<io::Lock>();
  }
};

struct NoLocks : Wrapped {
  std::unique_ptr<io::Lock> try_lock(const io::Path&) override {
    throw Error(Code::unsupported, "cannot lock");
  }
};

// A lock of this process excludes others, but is never free again.
class LockStays : public Wrapped {
 public:
  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    if (path.filename() != "dying") return Wrapped::try_lock(path);
    return std::exchange(taken_, true) ? nullptr : std::make_unique<io::Lock>();
  }

 private:
  bool taken_ = false;
};

struct NoLinks : Wrapped {
  bool try_link(const io::Path&, const io::Path&) override { return false; }
};

struct LinksUncounted : Wrapped {
  std::optional<io::Status> status(const io::Path& path) override {
    auto found = Wrapped::status(path);
    if (found) found->names = 1;
    return found;
  }
};

struct FileSyncFails : Wrapped {
  struct Bad : Forwarded {
    using Forwarded::Forwarded;
    void sync() override { throw Error(Code::io, "cannot sync"); }
  };
  std::unique_ptr<io::File> create(const io::Path& path) override {
    auto file = Wrapped::create(path);
    if (path.filename() != "synced") return file;
    return std::make_unique<Bad>(std::move(file));
  }
};

struct DirectorySyncFails : Wrapped {
  void sync_directory(const io::Path&) override { throw Error(Code::io, "cannot sync"); }
};

struct MadeTwice : Wrapped {
  std::unique_ptr<io::File> create(const io::Path& path) override {
    if (io::exists(target(), path)) target().remove(path);
    return Wrapped::create(path);
  }
};

struct FullDirectoryRemoved : Wrapped {
  void remove_directory(const io::Path& path) override { std::filesystem::remove_all(path); }
};

struct ShortNames : Wrapped {
  std::unique_ptr<io::File> create(const io::Path& path) override {
    if (path.filename().string().size() > 200) throw Error(Code::io, "the name is too long");
    return Wrapped::create(path);
  }
};

// The bytes of a file that was read once stay as they were.
class Stale : public Wrapped {
 public:
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    if (path.filename() == "seen" && io::exists(target(), path)) {
      const auto first = path.parent_path() / "first";
      if (!io::exists(target(), first)) io::copy(target(), path, first);
      return Wrapped::open_read(first);
    }
    return Wrapped::open_read(path);
  }
};

// The second open of a name leads to the file that the first one found.
class LooksLate : public Wrapped {
 public:
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    if (path.filename() != "held") return Wrapped::open_read(path);
    const auto first = path.parent_path().parent_path() / "first-held";
    if (++opens_ == 1) Wrapped::try_link(path, first);
    return Wrapped::open_read(opens_ == 2 ? first : path);
  }

 private:
  int opens_ = 0;
};

// A directory that was listed once has the same names ever after.
class ListedOnce : public Wrapped {
 public:
  std::vector<std::string> list(const io::Path& path) override {
    const auto found = lists_.emplace(path.string(), std::vector<std::string>());
    if (found.second) found.first->second = Wrapped::list(path);
    return found.first->second;
  }

 private:
  std::map<std::string, std::vector<std::string>> lists_;
};

// Reads of an open file fail when it has no name any more.
struct NameGone : Wrapped {
  struct Bad : Forwarded {
    Bad(std::unique_ptr<io::File> file, io::Path path)
        : Forwarded(std::move(file)), path_(std::move(path)) {}
    void read_at(std::int64_t at, std::span<std::byte> bytes) const override {
      if (!std::filesystem::exists(path_)) throw Error(Code::io, "Stale file handle");
      Forwarded::read_at(at, bytes);
    }
    io::Path path_;
  };
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    return std::make_unique<Bad>(Wrapped::open_read(path), path);
  }
};

// Holes, and what is given back, have other bytes than zeros.
struct HolesDiffer : Wrapped {
  struct Bad : Forwarded {
    using Forwarded::Forwarded;
    void read_at(std::int64_t at, std::span<std::byte> bytes) const override {
      Forwarded::read_at(at, bytes);
      for (auto& byte : bytes) byte = byte == std::byte(0) ? std::byte(1) : byte;
    }
  };
  std::unique_ptr<io::File> open_read(const io::Path& path) override {
    return std::make_unique<Bad>(Wrapped::open_read(path));
  }
};

struct PunchKeeps : Wrapped {
  struct Bad : Forwarded {
    using Forwarded::Forwarded;
    bool punch(std::int64_t, std::int64_t) override { return true; }
  };
  std::unique_ptr<io::File> create(const io::Path& path) override {
    return std::make_unique<Bad>(Wrapped::create(path));
  }
};

struct DirectLosesBytes : Wrapped {
  std::unique_ptr<io::File> create(const io::Path& path) override {
    if (path.filename() != "direct") return Wrapped::create(path);
    struct Bad : Forwarded {
      using Forwarded::Forwarded;
      void write_at(std::int64_t at, std::span<const std::byte> bytes) override {
        Forwarded::write_at(at + 512, bytes.subspan(512));
      }
    };
    return std::make_unique<Bad>(Wrapped::create(path));
  }
};

// A write begins at its page's beginning, with zeros where the file ended when it was opened.
struct WholePages : Wrapped {
  struct Bad : Forwarded {
    explicit Bad(std::unique_ptr<io::File> file)
        : Forwarded(std::move(file)), end_(Forwarded::size()) {}
    void write_at(std::int64_t at, std::span<const std::byte> bytes) override {
      const auto begin = std::max(at / 4096 * 4096, end_);
      if (begin < at) Forwarded::write_at(begin, std::vector<std::byte>(at - begin));
      Forwarded::write_at(at, bytes);
      end_ = at + static_cast<std::int64_t>(bytes.size());
    }
    std::int64_t end_;
  };
  std::unique_ptr<io::File> open_write(const io::Path& path) override {
    return std::make_unique<Bad>(Wrapped::open_write(path));
  }
};

// A clone is the original.
struct ClonesAreLinks : Wrapped {
  std::unique_ptr<io::File> create_clone(const io::Path& from, const io::Path& to) override {
    Wrapped::try_link(from, to);
    return Wrapped::open_write(to);
  }
};

// What `change` makes of what the file system says of a file.
class Says : public Wrapped {
 public:
  explicit Says(std::function<void(io::Status&)> change) : change_(std::move(change)) {}
  std::optional<io::Status> status(const io::Path& path) override {
    auto found = Wrapped::status(path);
    if (found) change_(*found);
    return found;
  }

 private:
  std::function<void(io::Status&)> change_;
};

template <class Files>
std::shared_ptr<io::FileSystem> made() {
  return std::make_shared<Files>();
}
std::shared_ptr<io::FileSystem> says(std::function<void(io::Status&)> change) {
  return std::make_shared<Says>(std::move(change));
}

std::vector<Trial> try_in(const io::Path& place, std::shared_ptr<io::FileSystem> files,
                          bool other_host = false) {
  const test::TemporaryDirectory directory(place);
  SecondHere other(files, directory.path());
  TrialOptions options;
  options.other_host = other_host;
  options.patience_seconds = 0.05;
  options.renames = 50;
  return try_file_system({files, directory.path()}, other, options);
}

std::vector<Trial> try_files(std::shared_ptr<io::FileSystem> files, bool other_host = false) {
  return try_in(std::filesystem::temp_directory_path(), std::move(files), other_host);
}

const Trial* of(const std::vector<Trial>& trials, const std::string& what) {
  for (const auto& one : trials) {
    if (one.what.starts_with(what)) return &one;
  }
  return nullptr;
}

class RightFileSystem : public testing::TestWithParam<const char*> {};

TEST_P(RightFileSystem, MayHaveCheckpoints) {
  if (!std::filesystem::is_directory(GetParam())) GTEST_SKIP() << "no " << GetParam();
  const auto trials = try_in(GetParam(), io::posix_file_system());
  EXPECT_EQ(trials.size(), 20u);
  for (const auto& one : trials) {
    EXPECT_LE(one.fitness, Fitness::without) << one.what << ": " << one.found;
    EXPECT_EQ(one.way_out.empty(), one.fitness == Fitness::good) << one.what;
  }
  for (const auto* what : {"a rename", "locks", "pages", "fsync", "close-to-open", "holes"}) {
    EXPECT_EQ(of(trials, what)->fitness, Fitness::good) << what << of(trials, what)->found;
  }
  EXPECT_LE(worst_of(trials), Fitness::without);
}

INSTANTIATE_TEST_SUITE_P(Here, RightFileSystem, testing::Values("/tmp", "/dev/shm"));

struct Fault {
  const char* name;
  std::shared_ptr<io::FileSystem> (*files)();
  const char* requirement;
  Fitness fitness;
  const char* found;
  const char* way_out;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

constexpr auto none = "Do not keep checkpoints here";

class FaultyFileSystem : public testing::TestWithParam<Fault> {};

TEST_P(FaultyFileSystem, IsFoundAndNamed) {
  const auto& fault = GetParam();
  const auto trials = try_files(fault.files());
  const auto* found = of(trials, fault.requirement);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->fitness, fault.fitness) << found->found;
  EXPECT_THAT(found->found, HasSubstr(fault.found));
  EXPECT_THAT(found->way_out, HasSubstr(fault.way_out));
  EXPECT_GE(worst_of(trials), fault.fitness);
}

INSTANTIATE_TEST_SUITE_P(
    One, FaultyFileSystem,
    testing::Values(
        Fault{"rename", made<RenameInTwoSteps>, "a rename replaces", Fitness::option,
              "found the name: missing", "atomic_rename"},
        Fault{"rename_refused", made<RenameRefused>, "a rename replaces", Fitness::option,
              "cannot rename", "atomic_rename"},
        Fault{"rename_new", made<RenameNewReplaces>, "a rename that must not", Fitness::option,
              "replaced", "atomic_rename"},
        Fault{"lock", made<NoExclusion>, "locks", Fitness::unfit, "one file twice", none},
        Fault{"no_locks", made<NoLocks>, "locks", Fitness::without, "there are none", "120 s"},
        Fault{"lock_stays", made<LockStays>, "locks end", Fitness::unfit, "still taken", none},
        Fault{"no_links", made<NoLinks>, "hard links", Fitness::without, "there are none",
              "written again"},
        Fault{"links_uncounted", made<LinksUncounted>, "hard links", Fitness::option,
              "counts as one", "Freeze no tensors"},
        Fault{"sync", made<FileSyncFails>, "fsync", Fitness::unfit, "cannot sync", none},
        Fault{"sync_directory", made<DirectorySyncFails>, "fsync", Fitness::unfit, "cannot sync",
              none},
        Fault{"made_twice", made<MadeTwice>, "files and directories that are made once",
              Fitness::unfit, "anew", none},
        Fault{"full_directory", made<FullDirectoryRemoved>, "directories", Fitness::unfit,
              "a full one was removed", none},
        Fault{"names", made<ShortNames>, "names of 255", Fitness::option, "too long", "short"},
        Fault{"stale", made<Stale>, "close-to-open", Fitness::unfit, "cannot be seen", none},
        Fault{"listed_once", made<ListedOnce>, "close-to-open", Fitness::unfit,
              "the name of a file", "dir_cache=no"},
        Fault{"name_gone", made<NameGone>, "an open file", Fitness::without, "Stale", "Pin"},
        Fault{"holes", made<HolesDiffer>, "holes", Fitness::unfit, "a hole has other bytes", none},
        Fault{"punch", made<PunchKeeps>, "space", Fitness::unfit, "giving back", none},
        Fault{"pages", made<WholePages>, "pages", Fitness::unfit, "bytes are lost", none},
        Fault{"direct", made<DirectLosesBytes>, "direct I/O", Fitness::option, "other bytes",
              "write.direct_io = off"},
        Fault{"clones", made<ClonesAreLinks>, "blocks", Fitness::option, "changed the original",
              "skip_unchanged"},
        Fault{"no_birth", [] { return says([](io::Status& one) { one.id.made_nanoseconds = 0; }); },
              "identity", Fitness::without, "when a file was made", "one job at a time"},
        Fault{"no_ctime", [] { return says([](io::Status& one) { one.changed_nanoseconds = 0; }); },
              "ctime", Fitness::option, "none", "skip_unchanged"},
        Fault{"ctime_stands",
              [] { return says([](io::Status& one) { one.changed_nanoseconds = 1; }); }, "ctime",
              Fitness::option, "does not change it", "skip_unchanged"},
        Fault{"mtime_stands",
              [] { return says([](io::Status& one) { one.modified_seconds = 1e9; }); }, "heartbeat",
              Fitness::option, "not seen", "one host"},
        Fault{"clock", [] { return says([](io::Status& one) { one.modified_seconds -= 90; }); },
              "clock", Fitness::without, "differs from this host's", "Ages"}),
    [](const auto& one) { return std::string(one.param.name); });

// Clocks and locks of another host.
class OtherHost : public testing::Test {
 protected:
  std::vector<Trial> trials(std::shared_ptr<io::FileSystem> theirs) {
    const test::TemporaryDirectory directory;
    SecondHere other(std::move(theirs), directory.path());
    TrialOptions options;
    options.other_host = true;
    options.patience_seconds = 0.05;
    options.renames = 5;
    return try_file_system({io::posix_file_system(), directory.path()}, other, options);
  }
};

TEST_F(OtherHost, OnlyWhatItCanSeeIsTried) {
  const auto found = trials(io::posix_file_system());
  EXPECT_EQ(of(found, "names of 255"), nullptr);
  EXPECT_EQ(of(found, "fsync"), nullptr);
  EXPECT_EQ(of(found, "locks")->fitness, Fitness::good);
  EXPECT_LE(worst_of(found), Fitness::without);
}

TEST_F(OtherHost, LocksWithinEachHostAreNoFault) {
  const auto found = trials(made<NoExclusion>());
  EXPECT_EQ(of(found, "locks")->fitness, Fitness::without);
  EXPECT_THAT(of(found, "locks")->way_out, HasSubstr("60 s"));
}

TEST_F(OtherHost, AnOldLookIsNoFaultOfAnOpenFile) {
  const auto found = trials(made<LooksLate>());
  EXPECT_EQ(of(found, "an open file")->fitness, Fitness::good) << of(found, "an open file")->found;
}

TEST_F(OtherHost, OneThatEndsIsNoFaultOfTheFileSystem) {
  const test::TemporaryDirectory directory;
  SecondHere other(io::posix_file_system(), directory.path());
  other.end();
  EXPECT_THROW(try_file_system({io::posix_file_system(), directory.path()}, other), Error);
}

TEST(WaitUntil, ARightAnswerThatComesLateIsNoOldOne) {
  SecondHere other(io::posix_file_system(), "/nowhere");
  const attempts::Place place{{io::posix_file_system(), "/nowhere"}, other, {}};
  EXPECT_EQ(attempts::wait_until(place, [] { return true; }), 0);
  int asked = 0;
  EXPECT_GT(attempts::wait_until(place, [&] { return ++asked > 1; }), 0);
}

TEST(Errands, AnUnknownOneIsAnswered) {
  Errands errands({io::posix_file_system(), "/nowhere"});
  EXPECT_THAT(errands.run("dance a b"), test::Says("there is no errand 'dance'"));
  EXPECT_THAT(errands.run("put a b"), HasSubstr("failed: "));
  EXPECT_EQ(errands.run("read a"), "missing");
  EXPECT_EQ(errands.run("read"), errands.run("read "));
}

}  // namespace
}  // namespace cairn
