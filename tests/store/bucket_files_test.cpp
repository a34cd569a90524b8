// Objects as files: over HTTP to a server in memory, and what is asked of it.
#include "store/bucket/bucket_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "bucket/bucket.hpp"
#include "io/expect_error.hpp"
#include "support/bucket_server.hpp"
#include "support/crash_story.hpp"
#include "support/noted_requests.hpp"
#include "support/s3_server.hpp"

namespace cairn::test {
namespace {

using bucket::Condition;

constexpr std::size_t mib = std::size_t{1} << 20;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::mt19937_64 random(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A tensor after the other, as verify reads them.
TEST(ReadsOfAnObject, GetWhatFollows) {
  const auto server = std::make_shared<BucketServer>();
  const auto bytes = some_bytes(6 * mib);
  server->connect()->put("o", bytes);
  Ledger ledger;
  BucketFiles files([&] { return std::make_unique<Noted>(server->connect(), ledger); });
  const auto file = files.open_read("/o");
  ledger.take();
  std::vector<std::byte> read(1000);
  const auto expect = [&](std::size_t at) {
    file->read_at(static_cast<std::int64_t>(at), read);
    ASSERT_TRUE(std::equal(read.begin(), read.end(), bytes.data() + at)) << at;
  };
  for (std::size_t at = 0; at + read.size() <= bytes.size(); at += 1024) expect(at);
  EXPECT_LE(ledger.take().size(), 10u);
  // What lies far off is read alone.
  for (const std::size_t at : {5 * mib, 1 * mib, 3 * mib}) expect(at);
  for (const auto& line : ledger.take()) EXPECT_EQ(line, "read 1000 of o");
  read.resize(2 * mib);
  expect(0), expect(2 * mib), expect(4 * mib);
  EXPECT_THROW(expect(5 * mib), Error);
}

class OverHttp : public testing::Test {
 protected:
  std::unique_ptr<bucket::Requests> connect() const {
    bucket::Surroundings none;
    none.variable = [](const char* name) -> std::optional<std::string> {
      return std::string_view(name).starts_with("AWS_") && std::string_view(name).ends_with("KEY")
                 ? std::optional<std::string>("key")
             : std::string_view(name) == "AWS_ACCESS_KEY_ID" ? std::optional<std::string>("id")
                                                             : std::nullopt;
    };
    none.file = [](const std::string&) { return std::nullopt; };
    const bucket::Endpoint endpoint{.host = cat("127.0.0.1:", server_.port()),
                                    .bucket = "b",
                                    .region = "r",
                                    .tls = false,
                                    .in_path = true};
    return std::make_unique<bucket::Bucket>(endpoint,
                                            std::make_shared<bucket::CredentialSource>(none));
  }
  std::shared_ptr<BucketFiles> files() const {
    return std::make_shared<BucketFiles>([this] { return connect(); });
  }

  const S3Server server_;
};

TEST_F(OverHttp, ConditionsHold) {
  const auto client = connect();
  const auto tag = client->put("k", bytes_of("one"), Condition::absent());
  ASSERT_TRUE(tag);
  EXPECT_FALSE(client->put("k", bytes_of("two"), Condition::absent()));
  EXPECT_FALSE(client->put("k", bytes_of("two"), Condition::same("\"other\"")));
  const auto next = client->put("k", bytes_of("two"), Condition::same(*tag));
  ASSERT_TRUE(next);
  client->remove("k", *tag);
  const auto got = client->get("k");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->bytes, "two");
  EXPECT_EQ(got->tag, *next);
  client->remove("k", *next);
  EXPECT_FALSE(client->look("k"));
}

TEST_F(OverHttp, ManyAreRemovedEachByItsTag) {
  const auto client = connect();
  std::vector<bucket::Object> objects;
  for (int i = 0; i < 50; ++i) {
    const auto key = cat("k-", i);
    auto& one = objects.emplace_back();
    one.key = key;
    one.tag = client->put(key, bytes_of("old")).value();
    if (i % 10 == 1) client->put(key, bytes_of("new"));
    if (i % 10 == 2) client->remove(key);
  }
  client->remove_all(objects);
  std::vector<std::string> left;
  for (const auto& one : client->list("k-", "").objects) left.push_back(one.key);
  EXPECT_EQ(left, (std::vector<std::string>{"k-1", "k-11", "k-21", "k-31", "k-41"}));
  client->remove_all({});
}

TEST_F(OverHttp, ListsAreWhole) {
  const auto client = connect();
  std::set<std::string> keys;
  for (int i = 0; i < 1001; ++i) keys.insert(cat("d/", i, " +%&=ü"));
  for (const auto& key : keys) client->put(key, {});
  client->put("d/below/k", {});
  client->put("other", {});
  const auto found = client->list("d/", "/");
  std::set<std::string> names;
  for (const auto& one : found.objects) names.insert(one.key);
  EXPECT_EQ(names, keys);
  EXPECT_EQ(found.below, std::vector<std::string>{"d/below/"});
  EXPECT_EQ(client->list("d/", "").objects.size(), 1002u);
}

TEST_F(OverHttp, UploadsEndOrAreGivenUp) {
  const auto client = connect();
  const auto bytes = some_bytes(6 * mib);
  const auto upload = client->begin_upload("k"), other = client->begin_upload("other");
  const auto first = client->start_part(upload, 1, bytes, crc32c(bytes));
  const auto second = client->start_part(upload, 2, bytes_of("end"), crc32c(bytes_of("end")));
  const auto left = client->start_part(other, 1, bytes, crc32c(bytes));
  const auto tag = client->finish_part(first);
  EXPECT_EQ(client->uploads("").size(), 2u);
  client->cancel(left);
  client->abort(other);
  ASSERT_TRUE(
      client->complete(upload, {{1, tag}, {2, client->finish_part(second)}}, Condition::absent()));
  EXPECT_TRUE(client->uploads("").empty());
  EXPECT_EQ(client->look("k")->size, std::ssize(bytes) + 3);
  EXPECT_FALSE(client->look("other"));
}

// Records keep what the server has said of each part.
TEST_F(OverHttp, TheNextOwnerCompletesUploads) {
  constexpr std::int64_t rows = 1000;  // two parts
  ManagerOptions options;
  options.write.file_system = files();
  options.write.owner_wait_seconds = 0;
  options.async.queue = inline_queue();
  run_threads(2, [&](std::shared_ptr<Group> group) {
    StoryJob job(group, options, rows, Storage::dense);
    job.async = true;
    job.save(10, 2);  // it ends before the commit
  });
  EXPECT_EQ(connect()->uploads("run/").size(), 1u);
  StoryJob next(serial_group(), options, rows, Storage::dense);
  ASSERT_TRUE(next.manager.restore_latest(next.state));
  EXPECT_EQ(next.row, std::vector<double>(next.row.size(), 2.0));
  EXPECT_TRUE(connect()->uploads("run/").empty());
}

// Bytes that stay and bytes that do not, in pieces of all sizes, with gaps.
TEST_F(OverHttp, AnObjectHasTheBytesThatWereWritten) {
  const auto files = this->files();
  const auto bytes = some_bytes(45 * mib);
  std::vector<std::byte> expected;
  std::mt19937 random(1);
  {
    const auto file = files->create("/o");
    for (std::size_t at = 0; at < bytes.size();) {
      const auto kind = random() % 4;
      const auto most = kind == 0 ? std::size_t{100} : kind == 1 ? 3 * mib : 20 * mib;
      const auto size = std::min(bytes.size() - at, 1 + random() % most);
      if (kind == 3) {
        for (std::size_t done = 0; done < size; done += mib) {
          file->write_behind(std::ssize(expected),
                             std::span(bytes).subspan(at + done, std::min(mib, size - done)));
          expected.insert(
              expected.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + done),
              bytes.begin() + static_cast<std::ptrdiff_t>(at + std::min(size, done + mib)));
        }
      } else {
        auto copy = std::vector(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
        file->write_at(std::ssize(expected), copy);
        expected.insert(expected.end(), copy.begin(), copy.end());
        std::ranges::fill(copy, std::byte{});
        if (kind == 0) expected.resize(expected.size() + random() % 5000);
      }
      at += size;
    }
    file->sync();
  }
  // Extents of all sizes, in their order, with and without gaps and memory.
  std::vector<std::byte> memory(expected.size());
  std::vector<io::Extent> extents;
  for (std::size_t at = 0; at < expected.size();) {
    const auto most = random() % 2 ? std::size_t{5000} : 20 * mib;
    const auto size = std::min(expected.size() - at, random() % most);
    extents.push_back({0, static_cast<std::int64_t>(at), static_cast<std::int64_t>(size),
                       random() % 4 ? memory.data() + at : nullptr, random() % 2 == 0});
    at += size + (random() % 2 ? 0 : random() % 100'000);
  }
  const auto reader = files->read_ahead({"/o"}, extents, DirectIo::off);
  for (const auto& one : extents) {
    const auto from = std::span(expected).subspan(static_cast<std::size_t>(one.offset),
                                                  static_cast<std::size_t>(one.bytes));
    EXPECT_EQ(reader->next(), crc32c(from));
    if (one.to) EXPECT_TRUE(std::ranges::equal(from, std::span(one.to, from.size())));
  }
}

/// Notes what is waited for, too.
class Waited : public Noted {
 public:
  Waited(std::unique_ptr<bucket::Requests> target, Ledger& ledger)
      : Noted(std::move(target), ledger), ledger_(ledger) {}
  void cancel(Pending id) override {
    ledger_.add("cancel");
    Noted::cancel(id);
  }
  std::string finish_read(Pending id) override {
    ledger_.add("wait");
    return Noted::finish_read(id);
  }
  std::string finish_part(Pending id) override {
    ledger_.add("wait");
    return Noted::finish_part(id);
  }

 private:
  Ledger& ledger_;
};

class InMemory : public testing::Test {
 protected:
  Lines lines(const std::string& begin) {
    auto all = ledger_.take();
    std::erase_if(all, [&](const auto& line) { return !line.starts_with(begin); });
    return all;
  }
  void put(const std::string& key, std::size_t size) {
    server_->connect()->put(key, some_bytes(size), {});
  }

  std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
  Ledger ledger_;
  std::shared_ptr<BucketFiles> files_ = std::make_shared<BucketFiles>(
      [this] { return std::make_unique<Waited>(server_->connect(), ledger_); });
  std::vector<std::byte> memory_ = std::vector<std::byte>(64 * mib);
};

TEST_F(InMemory, AFileThatIsGivenUpWaitsForNoPart) {
  auto file = files_->create("/o");
  file->write_behind(0, std::span(memory_).first(30 * mib));  // three parts, and some more
  ledger_.take();
  file.reset();
  EXPECT_EQ(ledger_.take(), (Lines{"cancel", "cancel", "cancel", "abort o"}));
  EXPECT_TRUE(server_->connect()->uploads("").empty());
}

TEST_F(InMemory, AReaderThatIsGivenUpWaitsForNothing) {
  put("o", 64 * mib);
  auto reader = files_->read_ahead({"/o"}, {{0, 0, 64 * mib, memory_.data(), true}}, DirectIo::off);
  reader.reset();
  EXPECT_TRUE(ledger_.take().empty());
  std::vector<io::Extent> extents;
  for (std::int64_t at = 0; at < 8; ++at) {
    extents.push_back({0, at * std::int64_t{8 * mib}, 8 * mib, memory_.data(), false});
  }
  reader = files_->read_ahead({"/o"}, extents, DirectIo::off);
  reader->next();
  ledger_.take();
  reader.reset();
  EXPECT_EQ(ledger_.take(), Lines(4, "cancel"));
}

TEST_F(InMemory, SmallExtentsShareARange) {
  put("o", 3 * mib);
  std::vector<io::Extent> extents;
  for (std::int64_t i = 0; i < 100; ++i) {
    extents.push_back({0, i * 20'000, 4096, memory_.data() + i * 4096, i % 2 == 0});
  }
  const auto reader = files_->read_ahead({"/o"}, extents, DirectIo::off);
  for (std::size_t i = 0; i < extents.size(); ++i) reader->next();
  EXPECT_EQ(lines("read").size(), 1u);
}

// Nobody has told the reader which object it is, and another one is put while ranges are under way.
TEST_F(InMemory, ALongReadIsOfOneObject) {
  const auto size = 48 * mib;  // six ranges
  const auto before = some_bytes(size);
  for (int at = 1; at < 6; ++at) {
    server_->connect()->put("o", before);
    int ranges = 0;
    server_->set_observer([&](const std::string& request, bool changes) {
      if (!changes && request.starts_with("read") && ranges++ == at) {
        server_->connect()->put("o", std::span(memory_).last(size));
      }
    });
    std::vector<std::byte> into(size);
    const auto reader =
        files_->read_ahead({"/o"}, {{0, 0, std::ssize(into), into.data(), true}}, DirectIo::off);
    EXPECT_CAIRN_ERROR(reader->next(), Code::data_loss, "");
    server_->set_observer({});
  }
}

// An object that ends too early spoils only what it lacks, and no other object.
TEST_F(InMemory, AnErrorIsThatOfItsExtentAlone) {
  put("short", 5000);
  put("whole", 9000);
  auto* to = memory_.data();
  const auto reader = files_->read_ahead({"/short", "/missing", "/whole"},
                                         {{0, 0, 4096, to, false},
                                          {0, 4096, 4096, to, false},
                                          {1, 0, 100, to, false},
                                          {1, 100, 0, nullptr, false},
                                          {1, 200, 100, to, true},
                                          {2, 10, 4000, to, false}},
                                         DirectIo::off);
  const auto crc_of = [](std::size_t size, std::size_t from, std::size_t bytes) {
    const auto all = some_bytes(size);
    return crc32c(std::span(all).subspan(from, bytes));
  };
  EXPECT_EQ(reader->next(), crc_of(5000, 0, 4096));
  EXPECT_CAIRN_ERROR(reader->next(), Code::data_loss, "");
  EXPECT_CAIRN_ERROR(reader->next(), Code::not_found, "there is no /missing");
  EXPECT_EQ(reader->next(), 0u);
  EXPECT_CAIRN_ERROR(reader->next(), Code::not_found, "there is no /missing");
  EXPECT_EQ(reader->next(), crc_of(9000, 10, 4000));
}

}  // namespace
}  // namespace cairn::test
