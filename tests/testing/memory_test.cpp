// The rules for crashes of the disk in memory, one test for each rule, and its faults.
#include "testing/memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "support/says.hpp"

namespace cairn::io {
namespace {

const CrashChoice kept{.keep = true, .except = {}, .tear = {}};
const CrashChoice lost{.keep = false, .except = {}, .tear = {}};
CrashChoice all_but(std::size_t i) { return {.keep = true, .except = {i}, .tear = {}}; }
CrashChoice only(std::size_t i) { return {.keep = false, .except = {i}, .tear = {}}; }

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Memory : public ::testing::Test {
 protected:
  // What a new process reads after a crash; "-" if there is no file.
  std::string after(const CrashChoice& choice, const Path& path) {
    const auto disk = files.crash(files.operation_count(), choice);
    return exists(*disk, path) ? read_file(*disk, path, 1 << 20) : "-";
  }
  MemoryFileSystem files;
};

TEST_F(Memory, RecordsEachOperationInOrder) {
  files.create_directory("/d");
  auto file = files.create("d/a");
  file->write_at(3, text_bytes("xyz"));
  file->sync();
  files.rename("/d/a", "/d/b");
  files.sync_directory("/d/");
  files.remove("/d/b");
  files.remove_directory("/d");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < files.operation_count(); ++i)
    texts.push_back(files.operation_text(i));
  EXPECT_EQ(texts,
            (std::vector<std::string>{"create_directory /d", "create /d/a", "write /d/a [3, 6)",
                                      "sync /d/a", "rename /d/a to /d/b", "sync_directory /d",
                                      "remove /d/b", "remove_directory /d"}));
}

TEST_F(Memory, NothingIsDurableWithoutSync) {
  write_file(files, "/a", "text");
  files.mark();
  auto file = files.create("/b");
  file->write_at(0, text_bytes("text"));
  EXPECT_EQ(files.unsynced(2), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(after(lost, "/b"), "-");
  EXPECT_EQ(after(kept, "/b"), "text");
  EXPECT_EQ(after(only(0), "/b"), "");
  EXPECT_EQ(after(only(1), "/b"), "-") << "bytes of a file whose creation is lost";
  EXPECT_EQ(after(lost, "/a"), "text") << "mark() made it durable";
}

TEST_F(Memory, FileSyncDoesNotMakeTheNameDurable) {
  write_file(files, "/a", "text");
  EXPECT_EQ(files.unsynced(3), (std::vector<std::size_t>{0}));
  EXPECT_EQ(after(lost, "/a"), "-");
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/a"), "text");
}

TEST_F(Memory, DirectorySyncDoesNotMakeBytesDurable) {
  auto file = files.create("/a");
  file->write_at(0, text_bytes("text"));
  files.sync_directory("/");
  EXPECT_EQ(files.unsynced(3), (std::vector<std::size_t>{1}));
  EXPECT_EQ(after(lost, "/a"), "");
}

TEST_F(Memory, SyncCoversOnlyEarlierWritesOfTheSameFile) {
  auto a = files.create("/a"), b = files.create("/b");
  files.sync_directory("/");
  files.mark();
  a->write_at(0, text_bytes("1"));
  b->write_at(0, text_bytes("2"));
  a->sync();
  a->write_at(1, text_bytes("3"));
  EXPECT_EQ(files.unsynced(4), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(files.unsynced(2), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(after(lost, "/a"), "1");
  EXPECT_EQ(after(lost, "/b"), "");
  EXPECT_EQ(after(only(3), "/a"), "13");
}

TEST_F(Memory, SyncThroughAnotherHandleCounts) {
  auto file = files.create("/a");
  file->write_at(0, text_bytes("text"));
  files.open_read("/a")->sync();
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/a"), "text");
}

TEST_F(Memory, LostWriteLeavesAHole) {
  auto file = files.create("/a");
  files.sync_directory("/");
  file->write_at(0, text_bytes("11"));
  file->write_at(2, text_bytes("22"));
  EXPECT_EQ(after(only(3), "/a"), std::string("\0\0"
                                              "22",
                                              4));
}

TEST_F(Memory, RenameIsDurableWithItsDestination) {
  files.create_directory("/from");
  files.create_directory("/to");
  write_file(files, "/from/a", "new");
  write_file(files, "/to/a", "old");
  files.mark();
  files.rename("/from/a", "/to/a");
  files.sync_directory("/from");
  EXPECT_EQ(files.unsynced(2), (std::vector<std::size_t>{0}));
  EXPECT_EQ(after(lost, "/to/a"), "old");
  EXPECT_EQ(after(lost, "/from/a"), "new") << "a rename never loses both names";
  EXPECT_EQ(after(kept, "/to/a"), "new");
  EXPECT_EQ(after(kept, "/from/a"), "-");
  files.sync_directory("/to");
  EXPECT_TRUE(files.unsynced(3).empty());
  EXPECT_EQ(after(lost, "/to/a"), "new");
}

TEST_F(Memory, RenameWithoutFileSyncMayShowAnEmptyFile) {
  auto file = files.create("/a.tmp");
  file->write_at(0, text_bytes("text"));
  files.rename("/a.tmp", "/a");
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/a"), "");
}

TEST_F(Memory, RenameNeedsTheNameItCameFrom) {
  files.create_directory("/temp");
  files.mark();
  write_file(files, "/temp/a", "text");
  files.rename("/temp/a", "/a");
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/a"), "-") << "/temp was not synced";
  EXPECT_EQ(after(kept, "/a"), "text");
}

TEST_F(Memory, RemoveIsDurableWithItsDirectory) {
  write_file(files, "/a", "text");
  files.mark();
  files.remove("/a");
  EXPECT_EQ(after(lost, "/a"), "text");
  EXPECT_EQ(after(kept, "/a"), "-");
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/a"), "-");
}

TEST_F(Memory, ALinkIsDurableWithItsDirectoryAndTheBytesWithTheFile) {
  files.create_directory("/d");
  auto file = files.create("/a");
  file->write_at(0, text_bytes("text"));
  files.sync_directory("/");
  ASSERT_TRUE(files.try_link("/a", "/d/b"));
  EXPECT_EQ(after(lost, "/d/b"), "-");
  files.sync_directory("/d");
  EXPECT_EQ(after(lost, "/d/b"), "");
  file->sync();
  EXPECT_EQ(after(lost, "/d/b"), "text");
  files.remove("/a");
  files.open_sole("/d/b")->write_at(0, text_bytes("next"));
  files.sync_directory("/");
  // Each name shows whether the bytes survived; a removal that is lost brings a name back.
  const auto removal = files.operation_count() - 3;
  EXPECT_EQ(after(all_but(removal), "/a"), "-");
  EXPECT_EQ(after(all_but(removal + 1), "/d/b"), "text");
  const auto disk = files.crash(files.operation_count() - 1, all_but(removal));
  EXPECT_EQ(read_file(*disk, "/a", 10), "next");
  EXPECT_FALSE(disk->has_one_name("/a"));
}

TEST_F(Memory, DirectoriesAreDurableWithTheirParent) {
  files.create_directory("/d");
  write_file(files, "/d/a", "text");
  files.sync_directory("/d");
  EXPECT_EQ(after(lost, "/d/a"), "-") << "the root was not synced";
  files.sync_directory("/");
  EXPECT_EQ(after(lost, "/d/a"), "text");
  files.mark();
  files.remove("/d/a");
  files.sync_directory("/d");
  files.remove_directory("/d");
  EXPECT_TRUE(exists(*files.crash(3, lost), "/d"));
  EXPECT_FALSE(exists(*files.crash(3, kept), "/d"));
  files.sync_directory("/");
  EXPECT_FALSE(exists(*files.crash(4, lost), "/d"));
}

TEST_F(Memory, CreationOverALostRemovalWins) {
  write_file(files, "/a", "old");
  files.mark();
  files.remove("/a");              // 0
  write_file(files, "/a", "new");  // 1, 2, 3
  EXPECT_EQ(after(all_but(0), "/a"), "new");
  EXPECT_EQ(after(lost, "/a"), "old");
  EXPECT_EQ(after(only(0), "/a"), "-");
}

TEST_F(Memory, FilesKeepTheirIdentityUnderRenamedDirectories) {
  files.create_directory("/d");
  auto file = files.create("/d/a");
  files.sync_directory("/d");
  files.sync_directory("/");
  files.rename("/d", "/e");
  file->write_at(0, text_bytes("text"));
  file->sync();
  EXPECT_EQ(after(lost, "/d/a"), "text");
  EXPECT_EQ(after(kept, "/e/a"), "text");
}

TEST_F(Memory, TornWrite) {
  auto file = files.create("/a");
  files.sync_directory("/");
  file->write_at(2, text_bytes("abcdef"));
  CrashChoice torn = kept;
  torn.tear = CrashChoice::Tear{2, 3};
  EXPECT_EQ(after(torn, "/a"), std::string("\0\0abc", 5));
  torn.keep = false;
  EXPECT_EQ(after(torn, "/a"), std::string("\0\0abc", 5));
  torn.tear->operation = 0;
  EXPECT_CAIRN_ERROR(files.crash(3, torn), Code::invalid_argument,
                     "operation 0 is no write that can be torn");
  EXPECT_CAIRN_ERROR(files.crash(4, kept), Code::invalid_argument, "only 3 are recorded");
}

TEST_F(Memory, StopsAfterAnyOperation) {
  write_file(files, "/a", "text");
  EXPECT_FALSE(exists(*files.crash(0, kept), "/a"));
  EXPECT_EQ(read_file(*files.crash(1, kept), "/a", 9), "");
  EXPECT_EQ(read_file(*files.crash(2, kept), "/a", 9), "text");
}

TEST_F(Memory, AfterTheCrashAllIsDurableAndUnlocked) {
  write_file(files, "/a", "text");
  const auto lock = files.try_lock("/lock");
  const auto disk = files.crash(files.operation_count(), kept);
  EXPECT_EQ(disk->operation_count(), 0u);
  EXPECT_EQ(read_file(*disk->crash(0, lost), "/a", 9), "text");
  EXPECT_FALSE(files.try_lock("/lock"));
  EXPECT_TRUE(disk->try_lock("/lock"));
}

TEST_F(Memory, LostFilesTakeNoSpaceAfterTheCrash) {
  files.set_capacity(10);
  write_file(files, "/a", "1234");
  files.mark();
  files.remove("/a");
  write_file(files, "/b", "123456");
  EXPECT_EQ(files.crash(4, kept)->free_bytes("/"), 4);
  EXPECT_EQ(files.crash(4, lost)->free_bytes("/"), 6);
}

TEST_F(Memory, TheCrashedDiskAndTheOldOneAreApart) {
  auto file = files.create("/a");
  file->write_at(0, text_bytes("text"));
  const auto disk = files.crash(2, kept);
  file->write_at(0, text_bytes("TEXT"));
  EXPECT_EQ(read_file(*disk, "/a", 9), "text");
  disk->remove("/a");
  write_file(*disk, "/a", "other");
  EXPECT_EQ(read_file(files, "/a", 9), "TEXT");
  EXPECT_EQ(read_file(*disk->crash(0, kept), "/a", 9), "text");
}

TEST_F(Memory, WhatIsOverwrittenIsOldOrNewBlockByBlock) {
  write_file(files, "/a", std::string(10000, 'o'));
  files.sync_directory("/");
  files.mark();
  auto file = files.open_write("/a");
  file->write_at(0, text_bytes(std::string(9000, 'n')));
  file->resize(9000);
  const auto after = [&](CrashChoice choice) {
    return read_file(*files.crash(2, choice), "/a", 1 << 20);
  };
  const std::string old(10000, 'o'), mixed = std::string(9000, 'n') + std::string(1000, 'o');
  EXPECT_EQ(after(lost), old);
  EXPECT_EQ(after(kept), mixed.substr(0, 9000));
  EXPECT_EQ(after({.keep = true, .except = {1}, .tear = {}}), mixed) << "the resize is lost";
  EXPECT_EQ(after({.keep = true, .except = {0}, .tear = {}}), old.substr(0, 9000));
  const CrashChoice last{
      .keep = true, .except = {}, .tear = CrashChoice::Tear{0, 9000 - 4096, true}};
  EXPECT_EQ(after(last), old.substr(0, 4096) + mixed.substr(4096, 9000 - 4096));
  EXPECT_NE(files.describe(2, last).find("only 4904 last bytes of #0 write /a [0, 9000)"),
            std::string::npos);
  file->sync();
  EXPECT_EQ(read_file(*files.crash(3, lost), "/a", 1 << 20), mixed.substr(0, 9000));
}

TEST_F(Memory, ChoicesNameEachUndecidedOperationOnce) {
  auto file = files.create("/a");
  EXPECT_EQ(files.crash_choices(0).size(), 1u);
  EXPECT_EQ(files.crash_choices(1).size(), 2u);
  file->write_at(4000, text_bytes(std::string(9000, 'x')));
  // Choices: all, none, each one lost, torn at 4096, 8192, 12288, and without the bytes before
  // 4096.
  const auto choices = files.crash_choices(2);
  EXPECT_EQ(choices.size(), 2u + 2u + 4u);
  std::set<std::size_t> tears;
  for (const auto& choice : choices) {
    if (choice.tear && !choice.tear->last) tears.insert(choice.tear->bytes);
  }
  EXPECT_EQ(tears, (std::set<std::size_t>{96, 96 + 4096, 96 + 2 * 4096}));
  file->write_at(0, text_bytes("small"));
  // One operation more: each of three lost, each kept alone, the small one torn in its middle.
  EXPECT_EQ(files.crash_choices(3).size(), 2u + 3u + 3u + 4u + 1u);
  file->sync();
  EXPECT_EQ(files.crash_choices(4).size(), 2u);
  std::set<std::string> words;
  for (const auto& choice : choices) words.insert(files.describe(2, choice));
  EXPECT_EQ(words.size(), choices.size());
  EXPECT_TRUE(
      words.contains("stopped after #1 write /a [4000, 13000); what was not durable is "
                     "kept; only 96 bytes of #1 write /a [4000, 13000)"));
}

TEST_F(Memory, ReplaceFileSurvivesEveryCrash) {
  replace_file(files, "/a", "old");
  files.mark();
  replace_file(files, "/a", "new");
  int states = 0;
  for (std::size_t stop = 0; stop <= files.operation_count(); ++stop) {
    for (const auto& choice : files.crash_choices(stop, 1)) {
      const auto disk = files.crash(stop, choice);
      const auto text = read_file(*disk, "/a", 9);
      EXPECT_TRUE(text == "new" || (text == "old" && stop < files.operation_count()))
          << files.describe(stop, choice) << ": " << text;
      replace_file(*disk, "/a", "next");
      EXPECT_EQ(disk->list("/"), std::vector<std::string>{"a"});
      ++states;
    }
  }
  EXPECT_GT(states, 15);
}

TEST_F(Memory, CreateDirectoriesSurvivesOnceItReturned) {
  create_directories(files, "/x/y/z");
  EXPECT_TRUE(exists(*files.crash(files.operation_count(), lost), "/x/y/z"));
}

TEST_F(Memory, CreateDirectoriesSyncsWhatADeadProcessMade) {
  files.create_directory("/x");
  create_directories(files, "/x");
  EXPECT_TRUE(exists(*files.crash(files.operation_count(), lost), "/x"));
  std::string logged;
  set_log_sink([&](LogLevel, std::string_view message) { logged = message; });
  files.inject({.code = Code::io, .kind = "sync_directory", .path_part = ""});
  create_directories(files, "/x");
  set_log_sink({});
  EXPECT_THAT(logged, test::Says("/x exists, but perhaps not durably: cannot sync"));
}

TEST_F(Memory, ReplaceFileTellsWhenDurabilityIsUnknown) {
  replace_file(files, "/a", "old");
  files.inject({.code = Code::io, .kind = "sync_directory", .path_part = ""});
  EXPECT_CAIRN_ERROR(replace_file(files, "/a", "new"), Code::durability_unknown,
                     "in place, but perhaps not durably: /a");
  EXPECT_EQ(read_file(files, "/a", 9), "new");
}

TEST_F(Memory, RewriteFileNeedsNoRename) {
  write_file(files, "/a", "the older one");
  files.refuse_renames();
  files.mark();
  EXPECT_CAIRN_ERROR(replace_file(files, "/a", "new"), Code::unsupported, "cannot rename to /a");
  EXPECT_FALSE(exists(files, "/a.tmp"));
  files.sync_directory("/");
  files.mark();
  rewrite_file(files, "/a", "new");
  EXPECT_EQ(after(lost, "/a"), "new");
  const auto next = files.crash(files.operation_count(), kept);
  EXPECT_CAIRN_ERROR(next->rename("/a", "/b"), Code::unsupported, "/a");
  EXPECT_FALSE(exists(files, "/a.tmp"));
  files.inject({.code = Code::io, .kind = "sync_directory", .path_part = ""});
  EXPECT_CAIRN_ERROR(rewrite_file(files, "/a", "x"), Code::durability_unknown, "perhaps not");
}

TEST_F(Memory, FullDiskTakesWhatFits) {
  files.set_capacity(10);
  write_file(files, "/a", "123456");
  EXPECT_EQ(files.free_bytes("/"), 4);
  auto file = files.create("/b");
  EXPECT_CAIRN_ERROR(file->write_at(0, text_bytes("abcdefg")), Code::no_space,
                     "cannot write 7 bytes at offset 0: /b (No space left on device). Free space");
  EXPECT_EQ(read_file(files, "/b", 9), "abcd");
  EXPECT_EQ(files.free_bytes("/"), 0);
  file->write_at(0, text_bytes("ABCD"));
  files.remove("/b");
  EXPECT_EQ(files.free_bytes("/"), 0) << "it is still open";
  file.reset();
  EXPECT_EQ(files.free_bytes("/"), 4);
}

TEST_F(Memory, FaultsByKindPathAndNumber) {
  files.inject({.code = Code::io, .kind = "write", .path_part = "/b", .skip = 1, .times = 2});
  auto a = files.create("/a"), b = files.create("/b");
  for (int i = 0; i < 5; ++i) a->write_at(0, text_bytes("x"));
  b->write_at(0, text_bytes("1"));
  EXPECT_CAIRN_ERROR(b->write_at(0, text_bytes("2")), Code::io, "Input/output error");
  EXPECT_CAIRN_ERROR(b->write_at(0, text_bytes("3")), Code::io, "do not trust it");
  EXPECT_EQ(read_file(files, "/b", 9), "1");
  b->write_at(0, text_bytes("4"));
  EXPECT_EQ(files.operation_count(), 2u + 5u + 2u) << "failed operations are not recorded";
  files.inject({.code = Code::no_space, .kind = "", .path_part = ""});
  EXPECT_EQ(files.list("/").size(), 2u) << "reading changes nothing";
  EXPECT_CAIRN_ERROR(files.create_directory("/d"), Code::no_space, "cannot create directory");
  files.create_directory("/d");
  files.inject({.code = Code::io, .kind = "rename", .path_part = "/d/"});
  EXPECT_CAIRN_ERROR(files.rename("/a", "/d/a"), Code::io, "cannot rename to /d/a");
  files.inject({.code = Code::busy, .kind = "read", .path_part = "", .skip = 0, .times = 9});
  EXPECT_CAIRN_ERROR(read_file(files, "/a", 9), Code::busy, "a fault was injected");
  files.clear_faults();
  EXPECT_EQ(read_file(files, "/a", 9), "x");
}

TEST_F(Memory, AFailedSyncIsNeverMadeGoodByAnother) {
  auto file = files.create("/a");
  file->write_at(0, text_bytes("x"));
  files.inject({.code = Code::io, .kind = "sync", .path_part = "/a"});
  EXPECT_CAIRN_ERROR(file->sync(), Code::io, "cannot sync: /a");
  EXPECT_CAIRN_ERROR(file->sync(), Code::io, "cannot sync: /a");
  EXPECT_EQ(files.unsynced(2).size(), 2u);
}

TEST_F(Memory, LocksCanBeRefused) {
  files.inject({.code = Code::unsupported, .kind = "lock", .path_part = ""});
  EXPECT_CAIRN_ERROR(files.try_lock("/lock"), Code::unsupported, "does not offer the operation");
}

TEST_F(Memory, ObserverSeesEachChangeBeforeItAndMayStopIt) {
  std::vector<std::string> seen;
  files.set_observer([&](const std::string& operation) {
    // The observer is called outside of the lock, so it may use the file system itself.
    seen.push_back(cat(files.operation_count(), " ", operation));
    if (operation == "sync /a") throw std::runtime_error("killed");
  });
  EXPECT_THROW(write_file(files, "/a", "xy"), std::runtime_error);
  files.list("/");
  EXPECT_EQ(seen, (std::vector<std::string>{"0 create /a", "1 write /a [0, 2)", "2 sync /a"}));
  EXPECT_EQ(files.operation_count(), 2u);
}

TEST_F(Memory, TheClockCanBeSet) {
  files.set_clock([] { return 1234.5; });
  write_file(files, "/a", "x");
  EXPECT_EQ(files.status("/a")->modified_seconds, 1234.5);
}

}  // namespace
}  // namespace cairn::io
