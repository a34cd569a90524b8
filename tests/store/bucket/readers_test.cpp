// What readers ask a bucket for: a few listings, little for each checkpoint, and of its data files
// only the bytes. And what a view makes of listings that are old, and of objects that go.
#include <gtest/gtest.h>

#include <algorithm>

#include "io/expect_error.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "support/noted_requests.hpp"
#include "tools/verify_beside.hpp"

namespace cairn::test {
namespace {

std::string text_of(const Lines& lines) {
  std::string text;
  for (const auto& line : lines) text += line + '\n';
  return text;
}

bool reads_data(const std::string& line) {
  return line.starts_with("read ") && line.find(".data-") != line.npos;
}

Lines without_bytes(Lines lines) {
  std::erase_if(lines, reads_data);
  return lines;
}

/// A bucket with checkpoints whose ranks have each written a data file.
class Readers {
 public:
  Readers(int ranks, const std::vector<std::int64_t>& steps, Format format = Format::bundle)
      : ranks_(ranks) {
    set_log_sink([](LogLevel, std::string_view) {});
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options_in(server_, 0, format), ranks);
      for (const auto step : steps) job.save(step, step);
    });
  }
  ~Readers() { set_log_sink({}); }

  std::shared_ptr<BucketFiles> files(Ledger& ledger) const {
    return std::make_shared<BucketFiles>(
        [this, &ledger] { return std::make_unique<Noted>(server_->connect(), ledger); });
  }
  ManagerOptions options(Ledger& ledger) const {
    auto options = options_in(server_);
    options.write.file_system = files(ledger);
    return options;
  }
  /// As cairn ls does.
  Lines list() const {
    Ledger ledger;
    const auto seen = Address(files(ledger), "/run").view();
    const auto names = names_of(list_prefixes(seen));
    EXPECT_EQ(names.size(), 1u);
    for (const auto& name : names) {
      const auto place = location_of(seen, name);
      for (const auto& one : scan_catalog(place)) EXPECT_EQ(one.damage, "");
      EXPECT_TRUE(step_list_of(*seen.files())->steps_beside(place).empty());
    }
    return ledger.take();
  }
  Lines verify() const {
    Ledger ledger;
    const auto seen = Address(files(ledger), "/run").view();
    for (const auto& prefix : checkpoints_beside(seen)) {
      const auto found = verify_beside(seen, prefix);
      if (!found) continue;
      for (const auto& one : found->checked.findings) {
        EXPECT_EQ(one.kind, Finding::Kind::note) << prefix.string() << ": " << one.what;
      }
    }
    return ledger.take();
  }
  Lines open(const std::string& name) const {
    Ledger ledger;
    EXPECT_GT(open_checkpoint((Address(files(ledger), "/run") / name).view())->num_files, 0);
    return ledger.take();
  }
  /// A new owner restores the newest one.
  Lines restart(bool read_only = false) const {
    Ledger ledger;
    auto given = options(ledger);
    given.read_only = read_only;
    StoryJob job(serial_group(), given, ranks_);
    EXPECT_TRUE(job.manager.restore_latest(job.state));
    EXPECT_TRUE(is_whole(job));
    return ledger.take();
  }
  /// The same on several ranks.
  std::vector<Lines> restore_on(int ranks) const {
    std::vector<Lines> all(static_cast<std::size_t>(ranks));
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      Ledger ledger;
      StoryJob job(group, options(ledger), ranks_);
      group->barrier();
      ledger.take();
      EXPECT_TRUE(job.manager.restore_latest(job.state));
      EXPECT_TRUE(is_whole(job));
      all[static_cast<std::size_t>(group->rank())] = ledger.take();
      group->barrier();
    });
    return all;
  }
  BucketServer& server() const { return *server_; }
  const std::shared_ptr<BucketServer>& shared() const { return server_; }

 private:
  const int ranks_;
  const std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
};

TEST(RequestsOfReaders, AreFewToList) {
  const auto two = Readers(3, {10, 20}).list();
  EXPECT_LE(two.size(), 14u) << text_of(two);
  const auto four = Readers(3, {10, 20, 30, 40}).list();
  EXPECT_LE(four.size(), two.size() + 2 * 3) << text_of(four);
  EXPECT_EQ(Readers(12, {10, 20}).list().size(), two.size());
}

TEST(RequestsOfReaders, AreFewToVerify) {
  const auto two = Readers(3, {10, 20}).verify();
  EXPECT_LE(without_bytes(two).size(), 20u) << text_of(two);
  EXPECT_LE(std::ranges::count_if(two, reads_data), 2 * 2 * 4) << text_of(two);
  const auto more = Readers(12, {10, 20}).verify();
  EXPECT_EQ(without_bytes(more).size(), without_bytes(two).size()) << text_of(more);
  const auto one = Readers(12, {10}).open("ckpt-10");
  EXPECT_LE(one.size(), 4u) << text_of(one);
}

TEST(RequestsOfReaders, AreFewInARestart) {
  for (const bool read_only : {false, true}) {
    const auto few = without_bytes(Readers(3, {10, 20}).restart(read_only));
    EXPECT_LE(few.size(), 30u) << text_of(few);
    const auto more = without_bytes(Readers(12, {10, 20}).restart(read_only));
    EXPECT_EQ(more.size(), few.size()) << text_of(more);
  }
}

TEST(RequestsOfReaders, AreOfTheirOwnObjectsOnOtherRanks) {
  const auto all = Readers(12, {10, 20}).restore_on(4);
  EXPECT_LE(without_bytes(all[0]).size(), 10u) << text_of(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::set<std::string> read;
    for (const auto& line : all[rank]) {
      EXPECT_TRUE(reads_data(line) && read.insert(line.substr(line.rfind(' ') + 1)).second) << line;
    }
    EXPECT_EQ(read.size(), 3u) << text_of(all[rank]);
  }
}

// All that are whole count then.
TEST(ADamagedList, HidesNoCheckpointFromReaders) {
  for (const std::string text : {"<html></html>", "", "0 0\n"}) {
    const Readers readers(1, {10, 20});
    readers.server().connect()->put("run/.cairn/log.ckpt", std::as_bytes(std::span(text)));
    Ledger ledger;
    const auto seen = Address(readers.files(ledger), "/run").view();
    EXPECT_EQ(checkpoints_beside(seen).size(), 2u) << text;
    EXPECT_EQ(names_of(list_prefixes(seen)).size(), 1u) << text;
    EXPECT_EQ(scan_catalog(location_of(seen, commit::Naming("ckpt"))).size(), 2u) << text;
  }
}

// What the next owner has removed is no damage.
TEST(AnOvertakenOwner, LearnsItFromARestore) {
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    for (const bool latest : {true, false}) {
      const auto server = std::make_shared<BucketServer>();
      StoryJob job(serial_group(), options_in(server, 1, format), 1);
      job.save(10, 10);
      bool is_over = false;
      server->set_observer([&](const std::string& request, bool) {
        if (is_over || request.find("/ckpt-10.") == request.npos) return;
        is_over = true;
        StoryJob next(serial_group(), options_in(server, 1, format), 1);
        for (const auto step : {20, 30}) next.save(step, step);
      });
      const auto restore = [&] {
        latest ? void(job.manager.restore_latest(job.state))
               : void(job.manager.restore(10, job.state));
      };
      EXPECT_CAIRN_ERROR(restore(), Code::busy, "has another owner");
      EXPECT_TRUE(is_over);
      server->set_observer({});
    }
  }
}

TEST(APinnedStep, IsNamedWhenASaveWouldReplaceIt) {
  const auto server = std::make_shared<BucketServer>();
  StoryJob job(serial_group(), options_in(server), 1);
  job.save(10, 10);
  job.manager.pin(10);
  EXPECT_CAIRN_ERROR(job.save(10, 11), Code::already_exists, "a pinned checkpoint is not replaced");
}

TEST(RequestsOfReaders, ListNoNameThatOnlyFilesHave) {
  const Readers readers(1, {10});
  Ledger ledger;
  const auto files = readers.files(ledger);
  for (const auto* name : {"ckpt-1.h5", "ckpt-1.index", "ckpt-1.data-00000-of-00002",
                           ".cairn/ended", ".cairn/pinned/ckpt-1"}) {
    EXPECT_FALSE(files->status(io::Path("/run") / name));
    EXPECT_EQ(ledger.take(), Lines{cat("look run/", name)});
  }
  EXPECT_TRUE(files->status("/run/.cairn").value().is_directory);
  EXPECT_FALSE(files->status("/run/.cairn/saved"));
  EXPECT_EQ(ledger.take(), (Lines{"list run/.cairn/", "list run/.cairn/saved/"}));
}

// A job saves, or replaces a step, at any request of a reader. What it removes then is not damaged.
struct Beside {
  std::string name;
  std::int64_t saves;
  int keep_last = 2;
  Format format = Format::bundle;
};
void PrintTo(const Beside& beside, std::ostream* out) { *out << beside.name; }

class ReadersBesideAJob : public testing::TestWithParam<Beside> {
 protected:
  template <class Read>
  static void at_any_request(Read read) {
    const auto& beside = GetParam();
    const auto keep_last = beside.keep_last;
    const auto format = beside.format;
    if (format == Format::hdf5 && !hdf5::available()) GTEST_SKIP() << "without libhdf5";
    for (std::size_t when = 0, requests = 1; when < requests; ++when) {
      const Readers readers(1, {10, 20, 30}, format);
      StoryJob job(serial_group(), options_in(readers.shared(), keep_last, format), 1);
      if (keep_last == 1) job.save(35, 35);
      requests = 0;
      std::string where;
      readers.server().set_observer([&](const std::string& request, bool) {
        if (requests++ != when || !where.empty()) return;
        where = request;
        job.save(beside.saves, 5);
      });
      read(readers);
      readers.server().set_observer({});
      ASSERT_FALSE(HasFailure()) << "before " << where;
    }
  }
};

TEST_P(ReadersBesideAJob, ListNothingDamagedThatItRemoves) {
  at_any_request([](const Readers& readers) { readers.list(); });
}
TEST_P(ReadersBesideAJob, VerifyNothingDamagedThatItRemoves) {
  at_any_request([](const Readers& readers) { readers.verify(); });
}
TEST_P(ReadersBesideAJob, RestoreWhatCounts) {
  at_any_request([](const Readers& readers) { readers.restart(true); });
}
INSTANTIATE_TEST_SUITE_P(All, ReadersBesideAJob,
                         testing::Values(Beside{"new_step", 40}, Beside{"same_step", 10},
                                         Beside{"only_step", 40, 1},
                                         Beside{"hdf5", 40, 2, Format::hdf5},
                                         Beside{"hdf5_same_step", 10, 2, Format::hdf5},
                                         Beside{"hdf5_only_step", 40, 1, Format::hdf5}),
                         [](const auto& info) { return info.param.name; });

class ViewOfABucket : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) {
    client_->put("run/" + name, std::as_bytes(std::span(bytes)));
  }
  static std::string read(io::FileSystem& files, const std::string& name) {
    return io::read_file(files, "/run/" + name, std::int64_t{1} << 20);
  }
  std::shared_ptr<io::FileSystem> view() const { return io::view_of(files_); }

  const std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
  Ledger ledger_;
  const std::shared_ptr<BucketFiles> files_ = std::make_shared<BucketFiles>(
      [this] { return std::make_unique<Noted>(server_->connect(), ledger_); });
  const std::unique_ptr<bucket::Requests> client_ = server_->connect();
  const std::string data_ = "ckpt-1.data-00000-of-00002", index_ = "ckpt-1.index";
};

TEST_F(ViewOfABucket, FindsWhatAnOldListingHides) {
  put(data_, "data"), put(index_, "index"), put("checkpoint", "state");
  server_->list_late(1000);
  const auto files = view();
  EXPECT_TRUE(files->list("/run").empty());
  for (const auto& name : {data_, index_}) EXPECT_TRUE(files->status("/run/" + name)) << name;
  EXPECT_EQ(read(*files, data_), "data");
  EXPECT_EQ(read(*files, index_), "index");
  EXPECT_EQ(read(*files, "checkpoint"), "state");
  EXPECT_FALSE(files->status("/run/ckpt-2.index"));
  EXPECT_EQ(files->list("/run").size(), 3u) << "what was found is there";
}

// The listing shows a save that was replaced by one whose objects have the same names.
TEST_F(ViewOfABucket, BelievesAnOldListingNothingOfASave) {
  put(data_, "old data"), put(index_, "old"), put("ckpt-1.h5", "old file");
  put(data_, "the new data"), put(index_, "the new one"), put("ckpt-1.h5", "the new file");
  server_->list_late(3);
  for (const bool lists : {false, true}) {
    const auto files = view();
    if (lists) files->list("/run");
    EXPECT_TRUE(files->status("/run/" + index_));
    EXPECT_EQ(read(*files, index_), "the new one");
    EXPECT_EQ(files->status("/run/" + index_).value().size, 11);
    EXPECT_EQ(files->status("/run/" + data_).value().size, 12);
    EXPECT_EQ(read(*files, data_), "the new data");
    EXPECT_EQ(read(*files, "ckpt-1.h5"), "the new file");
  }
}

// Metadata and index lie there, and are read one after the other, each with a file of its own.
TEST_F(ViewOfABucket, ReadsTheEndOfAnObjectOnce) {
  const auto data = std::string(100'000, 'd') + std::string(50'000, 'e');
  put(data_, data), put(index_, "index");
  const auto files = view();
  EXPECT_EQ(read(*files, index_), "index");
  ledger_.take();
  for (const auto at : {149'000, 100'000, 120'000}) {
    std::string bytes(1000, '.');
    files->open_read("/run/" + data_)->read_at(at, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, std::string(1000, 'e')) << at;
  }
  EXPECT_EQ(ledger_.take(), Lines{cat("read ", 64 << 10, " of run/", data_)});
}

TEST_F(ViewOfABucket, ForgetsWhenAReadFindsAnObjectGoneOrReplaced) {
  const std::string data(100'000, 'd');  // so long that its end is not all of it
  const auto known = [&] {
    put(data_, data), put(index_, "index");
    auto files = view();
    files->list("/run");
    EXPECT_EQ(read(*files, index_), "index");
    EXPECT_EQ(read(*files, data_), data);
    return files;
  };
  auto files = known();
  client_->remove("run/" + index_);
  EXPECT_TRUE(files->status("/run/" + index_)) << "it need not ask";
  EXPECT_CAIRN_ERROR(read(*files, index_), Code::not_found, "there is no /run/ckpt-1.index");
  EXPECT_FALSE(files->status("/run/" + index_));
  EXPECT_EQ(files->list("/run"), std::vector{data_});

  for (const bool ahead : {false, true}) {
    const auto read_data = [&] {
      if (!ahead) return void(read(*files, data_));
      std::string bytes(4, '.');
      const io::Extent all{0, 0, 4, std::as_writable_bytes(std::span(bytes)).data()};
      files->read_ahead({"/run/" + data_}, {all}, DirectIo::automatic)->next();
    };
    files = known();
    put(data_, "other data");
    EXPECT_THROW(read_data(), Error);
    EXPECT_EQ(files->status("/run/" + data_).value().size, 10);
    files = known();
    client_->remove("run/" + data_);
    EXPECT_THROW(read_data(), Error);
    EXPECT_FALSE(files->status("/run/" + data_));
  }
}

}  // namespace
}  // namespace cairn::test
