// What the tool prints for whole and for damaged checkpoints of our own.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() {
    set_log_sink({});
    std::iota(field_.begin(), field_.end(), 0.5);
    state_.add("step", step_);
    // Two patches of a 4 x 6 field: rows 0..1 and 2..3.
    state_.add("field", patches({slice(field_.data(), {4, 6}, {0, 0}, {2, 6}),
                                 slice(field_.data() + 12, {4, 6}, {2, 0}, {2, 6})}));
    state_.add("names", names_);
    options_.keep.last = 0;
  }

  std::string save(std::int64_t step) {
    step_ = step;
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    return manager.save(step, state_);
  }
  std::string directory() const { return scratch_.path().string(); }
  // The data files of a checkpoint; its index comes last.
  std::vector<fs::path> files(const std::string& prefix) const {
    std::vector<fs::path> found;
    for (const auto& name : scratch_.listing()) {
      const auto path = scratch_.path() / name;
      if (path.string().starts_with(prefix + ".data-")) found.push_back(path);
    }
    found.push_back(prefix + ".index");
    return found;
  }
  // The output of verify while a file has other bytes.
  static Ran verify_with(const std::string& prefix, const fs::path& file,
                         const std::string& bytes) {
    const auto right = read_bytes(file);
    write_bytes(file, bytes);
    auto ran = run_tool({"verify", prefix, "--json"});
    write_bytes(file, right);
    return ran;
  }

  std::int64_t step_ = 0;
  std::array<double, 24> field_{};
  std::vector<std::string> names_ = {"a", "", "line\nbreak"};
  State state_;
  ManagerOptions options_;
  ScratchDirectory scratch_;
};

TEST_F(Checkpoint, VerifySaysWholeAndReadsAll) {
  const auto prefix = save(7);
  const auto ran = run_tool({"verify", prefix, "--json"});
  EXPECT_EQ(ran.status, 0) << ran.out;
  const auto found = ran.json().at(0);
  EXPECT_EQ(found["verdict"], "whole");
  EXPECT_TRUE(found["saved_by_cairn"].get<bool>());
  EXPECT_EQ(found["findings"], json::array());
  std::uintmax_t bytes = 0;
  for (const auto& file : files(prefix)) {
    if (file.extension() != ".index") bytes += fs::file_size(file);
  }
  EXPECT_EQ(found["bytes"], bytes);
  EXPECT_THAT(run_tool({"verify", prefix}).out, StartsWith(prefix + ": whole ("));
}

TEST_F(Checkpoint, VerifyFindsAFlipAnywhereInAnyFile) {
  const auto prefix = save(7);
  for (const auto& file : files(prefix)) {
    const auto right = read_bytes(file);
    const auto stride = std::max<std::size_t>(1, right.size() / (test::sanitized ? 4 : 25));
    for (std::size_t at = 0; at < right.size(); at += stride) {
      auto wrong = right;
      wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
      const auto ran = verify_with(prefix, file, wrong);
      EXPECT_EQ(ran.status, 1) << file << " at " << at << ": " << ran.out;
    }
  }
  EXPECT_EQ(run_tool({"verify", prefix}).status, 0);
}

TEST_F(Checkpoint, VerifyNamesWhatIsFlipped) {
  const auto prefix = save(7);
  const auto shown = run_tool({"show", prefix, "--json"}).json();
  for (const auto& tensor : shown["tensors"]) {
    for (const auto& slice : tensor["slices"]) {
      const auto file = scratch_.path() / slice["file"].get<std::string>();
      auto wrong = read_bytes(file);
      wrong[slice["offset"].get<std::size_t>()] ^= 1;
      const auto ran = verify_with(prefix, file, wrong);
      const auto findings = ran.json().at(0)["findings"];
      ASSERT_EQ(findings.size(), 1u) << findings.dump(2);
      EXPECT_EQ(findings[0]["kind"], "damage");
      EXPECT_EQ(findings[0]["key"], tensor["key"]);
      EXPECT_EQ(findings[0].value("slice", ""), slice["spec"].get<std::string>());
      EXPECT_EQ(findings[0]["file"], file.string());
      EXPECT_EQ(findings[0]["offset"], slice["offset"]);
    }
  }
}

TEST_F(Checkpoint, VerifyFindsShortLongAndMissingFiles) {
  const auto prefix = save(7);
  for (const auto& file : files(prefix)) {
    SCOPED_TRACE(file);
    const auto right = read_bytes(file);
    if (!right.empty()) {
      EXPECT_EQ(verify_with(prefix, file, right.substr(0, right.size() - 1)).status, 1);
      EXPECT_EQ(verify_with(prefix, file, "").status, 1);
    }
    EXPECT_EQ(verify_with(prefix, file, right + '\0').status, 1);
    fs::rename(file, scratch_.path() / "aside");
    const auto ran = run_tool({"verify", prefix});
    EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
    fs::rename(scratch_.path() / "aside", file);
  }
}

TEST_F(Checkpoint, VerifyCannotTellOfWhatIsNotThere) {
  const auto nothing = run_tool({"verify", directory() + "/ckpt-7"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, test::Says("there is no checkpoint"));
  EXPECT_EQ(run_tool({"verify", directory()}).status, 2);
}

TEST_F(Checkpoint, CatGivesTheBytesThatWereSaved) {
  const auto prefix = save(7);
  const std::string whole(reinterpret_cast<const char*>(field_.data()), sizeof field_);
  EXPECT_EQ(run_tool({"cat", prefix, "field", "--format", "raw"}).out, whole);
  EXPECT_EQ(run_tool({"cat", directory(), "field", "--format", "raw"}).out, whole);
  const auto rows = run_tool({"cat", prefix, "field", "--format", "raw", "--slice", "1,2:-"});
  EXPECT_EQ(rows.out, whole.substr(6 * 8, 12 * 8)) << rows.err;
  const auto output = directory() + "/field.bin";
  EXPECT_EQ(run_tool({"cat", prefix, "field", "--format", "raw", "-o", output}).out, "");
  EXPECT_EQ(read_bytes(output), whole);
  EXPECT_EQ(run_tool({"cat", prefix, "step"}).out, "7\n");
  EXPECT_EQ(run_tool({"cat", prefix, "field", "--slice", "4 6 1,2:4,2"}).out,
            "10.5 11.5\n16.5 17.5\n");
  EXPECT_EQ(run_tool({"cat", prefix, "names"}).out, "\"a\" \"\" \"line\\nbreak\"\n");
  const auto names = run_tool({"cat", prefix, "names", "--format", "raw", "--slice=2,1"}).out;
  EXPECT_EQ(names, std::string("\x0a\0\0\0\0\0\0\0", 8) + names_[2]);
  EXPECT_EQ(run_tool({"cat", prefix, "--key-hex", "73746570"}).out, "7\n");
  EXPECT_THAT(run_tool({"cat", prefix, "_cairn/meta"}).out, HasSubstr("sequence"));
}

TEST_F(Checkpoint, CatPrintsNothingOfADamagedSlice) {
  const auto prefix = save(7);
  const auto shown = run_tool({"show", prefix, "--json"}).json();
  for (const auto& tensor : shown["tensors"]) {
    if (tensor["key"] != "field") continue;
    const auto& slice = tensor["slices"][1];
    const auto file = scratch_.path() / slice["file"].get<std::string>();
    auto wrong = read_bytes(file);
    wrong[slice["offset"].get<std::size_t>() + 95] ^= 1;
    write_bytes(file, wrong);
  }
  const auto output = directory() + "/out";
  const auto whole = run_tool({"cat", prefix, "field", "--output", output});
  EXPECT_EQ(whole.status, 1);
  EXPECT_EQ(whole.out, "");
  EXPECT_FALSE(fs::exists(output));
  EXPECT_THAT(whole.err, AllOf(HasSubstr("tensor 'field'"), HasSubstr("checksum")));
  // The flipped byte is in another element than those asked for, but in their slice.
  EXPECT_EQ(run_tool({"cat", prefix, "field", "--slice", "2,1:0,1"}).status, 1);
  EXPECT_EQ(run_tool({"cat", prefix, "field", "--slice", "0,2:-"}).status, 0);
}

TEST_F(Checkpoint, NoOutputReplacesAFileOfACheckpoint) {
  const auto prefix = save(7);
  fs::create_symlink(prefix + ".index", directory() + "/link");
  std::vector<std::string> outputs = {directory() + "/link", directory() + "/checkpoint"};
  for (const auto& name : scratch_.listing()) {
    if (name.starts_with("ckpt-7")) outputs.push_back((scratch_.path() / name).string());
  }
  ASSERT_GE(outputs.size(), 4u);
  for (const auto& output : outputs) {
    const auto before = read_bytes(output);
    for (const char* command : {"cat", "map"}) {
      const auto ran = run_tool({command, prefix, "field", "-o", output});
      EXPECT_EQ(ran.status, 2) << output;
      EXPECT_THAT(ran.err, test::Says("is a file of a checkpoint"));
      EXPECT_EQ(read_bytes(output), before) << output;
    }
  }
}

TEST_F(Checkpoint, CatSaysWhatIsWrongWithTheQuestion) {
  const auto prefix = save(7);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"nothing"}, "there is no tensor nothing"},
      {{"feild"}, "Did you mean 'field'?"},
      {{"field", "--slice", "0,2"}, "2 extents but 1 slices"},
      {{"field", "--slice", "4 7 0,2:-"}, "--slice speaks of the shape [4 7]"},
      {{"field", "--slice", "3,2:-"},
       "is out of range in dimension 0 (it begins at 3 and has 2 of the 4"},
      {{"--key-hex", "7"}, "is no hexadecimal text"},
      {{"--key-hex", "zz"}, "is no hexadecimal text"},
      {{"field", "--format", "hdf5"}, "--format"},
      {{"field", "-o", directory() + "/no/such/file"}, "cannot write"},
      {{}, "KEY or --key-hex"},
      {{"field", "--key-hex", "00"}, "excludes"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all = {"cat", prefix};
    all.insert(all.end(), words.begin(), words.end());
    const auto ran = run_tool(all);
    EXPECT_EQ(ran.status, 2) << message;
    EXPECT_EQ(ran.out, "") << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
  }
}

TEST_F(Checkpoint, UnknownCommandsAndAddressesAreNamed) {
  const auto prefix = save(7);
  auto ran = run_tool({"verfy", prefix});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, AllOf(test::Says("there is no command 'verfy'"),
                             test::Says("Did you mean 'verify'?"), HasSubstr("ls, show, cat")));
  ran = run_tool({});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, AllOf(test::Says("a command is missing"), HasSubstr("ls, show, cat")));
  ran = run_tool({"show", "gs://bucket/ckpt-7"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, test::Says("'gs://bucket/ckpt-7' is no path"));
  EXPECT_EQ(run_tool({"show", "file://" + prefix}).out, run_tool({"show", prefix}).out);
}

TEST_F(Checkpoint, NumbersThatDoNotFitAreRefused) {
  save(7);
  const std::string step = "99999999999999999999";
  for (const auto& words :
       {std::vector<std::string>{"pin", directory(), step},
        {"gc", directory(), "--max-to-keep", step},
        {"convert", directory(), directory() + "/out", "--max-shard-size", step}}) {
    SCOPED_TRACE(words[0]);
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr(step));
    EXPECT_FALSE(fs::exists(directory() + "/out.index"));
  }
}

TEST_F(Checkpoint, NoDirectoryIsMadeForAMistypedName) {
  const auto prefix = save(7);
  for (const char* command : {"convert", "merge"}) {
    const auto to = directory() + "/no/such/x";
    auto words = std::vector<std::string>{command, prefix, to};
    if (words[0] == "merge") std::swap(words[1], words[2]);
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr("there is no directory " + directory() + "/no/such"));
    EXPECT_FALSE(fs::exists(directory() + "/no"));
  }
}

TEST_F(Checkpoint, AMergeIsNotOfABucket) {
  const auto prefix = save(7);
  for (const auto& [to, part] : {std::pair<std::string, std::string>{"s3://bucket/m", prefix},
                                 {directory() + "/m", "s3://bucket/part"}}) {
    const auto ran = run_tool({"merge", to, prefix, part});
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr("cannot be done in " + (to.starts_with("s3:") ? to : part)));
  }
}

TEST_F(Checkpoint, AnOutputIsALocalFile) {
  save(7);
  const auto page = directory() + "/page.html";
  auto ran = run_tool({"report", directory(), "-o", "s3://bucket/page.html"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, test::Says("an output is a file of this machine"));
  ran = run_tool({"report", directory(), "-o", "file://" + page});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(fs::exists(page));
}

TEST_F(Checkpoint, TablesFitNarrowTerminals) {
  save(7);
  const std::pair<const char*, unsigned short> all[] = {{"ls", 30}, {"show", 52}, {"stats", 30}};
  for (const auto& [command, columns] : all) {
    SCOPED_TRACE(command);
    const auto wide = run_tool_on_terminal({command, directory()}, 200);
    EXPECT_EQ(wide, run_tool({command, directory()}).out);
    const auto narrow = run_tool_on_terminal({command, directory()}, columns);
    std::size_t lines = 0;
    std::string line, words, wide_words, word;
    for (std::istringstream in(narrow); std::getline(in, line); ++lines) {
      EXPECT_TRUE(line.size() <= columns) << line;
    }
    EXPECT_GT(lines, static_cast<std::size_t>(std::count(wide.begin(), wide.end(), '\n')));
    for (std::istringstream in(narrow); in >> word;) words += word + ' ';
    for (std::istringstream in(wide); in >> word;) wide_words += word + ' ';
    EXPECT_EQ(words, wide_words) << "nothing is left out";
  }
}

TEST_F(Checkpoint, ShowTellsOfTheSave) {
  const auto prefix = save(7);
  const auto shown = run_tool({"show", directory(), "--json"}).json();
  EXPECT_EQ(shown["prefix"], prefix);
  EXPECT_EQ(shown["metadata"]["step"], 7);
  EXPECT_EQ(shown["metadata"]["ranks"], 1);
  EXPECT_EQ(shown["metadata"]["sequence"], 1);
  std::vector<std::string> keys;
  for (const auto& tensor : shown["tensors"]) keys.push_back(tensor["key"]);
  EXPECT_THAT(keys, ElementsAre("field", "names", "step"));
  std::vector<std::string> specs;
  for (const auto& slice : shown["tensors"][0]["slices"]) specs.push_back(slice["spec"]);
  EXPECT_THAT(specs, ElementsAre("4 6 0,2:0,6", "4 6 2,2:0,6"));
  for (const auto& file : shown["files"]) {
    EXPECT_EQ(file["bytes"], fs::file_size(scratch_.path() / file["file"].get<std::string>()));
  }
  EXPECT_THAT(run_tool({"show", prefix}).out,
              AllOf(HasSubstr("on 1 rank"), HasSubstr("float64"), HasSubstr("4 6 2,2:0,6")));
}

TEST_F(Checkpoint, LsTellsNewestSupersededAndDamaged) {
  EXPECT_THAT(run_tool({"ls", directory()}).out, test::Says("no checkpoints in"));
  save(10);
  save(20);
  save(15);  // goes back: 20 is left behind
  EXPECT_THAT(run_tool({"cat", directory() + "/ckpt-10", "field", "-o", "/dev/full"}).err,
              test::Says("No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_THAT(run_tool({"ls", directory(), "--name", "zz"}).out,
              test::Says("of the name zz; there are those of ckpt"));
  const auto ten = files(directory() + "/ckpt-10");
  fs::resize_file(ten.front(), 3);
  options_.name = "other";
  save(1);
  const auto listed = run_tool({"ls", directory(), "--json"}).json()["checkpoints"];
  ASSERT_EQ(listed.size(), 4u);
  std::map<std::string, json> by_name;
  for (const auto& item : listed) {
    by_name[fs::path(item["prefix"].get<std::string>()).filename()] = item;
  }
  EXPECT_FALSE(by_name["ckpt-10"]["whole"].get<bool>());
  EXPECT_THAT(by_name["ckpt-10"]["damage"].get<std::string>(), test::Says("which has 3 bytes"));
  EXPECT_TRUE(by_name["ckpt-20"]["superseded"].get<bool>());
  EXPECT_TRUE(by_name["ckpt-15"]["newest"].get<bool>());
  EXPECT_TRUE(by_name["other-1"]["newest"].get<bool>());
  EXPECT_EQ(by_name["ckpt-15"]["ranks"], 1);
  const auto text = run_tool({"ls", directory()}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("whole, newest"), HasSubstr("whole, superseded"),
                          HasSubstr("damaged: "), HasSubstr("\nother\n")));
  const auto one = run_tool({"ls", directory(), "--name", "other", "--json"}).json();
  EXPECT_EQ(one["checkpoints"].size(), 1u);
  EXPECT_EQ(run_tool({"verify", directory()}).status, 1);
}

TEST_F(Checkpoint, LsNamesTheProgram) {
  save(1);
  EXPECT_THAT(run_tool({"ls", directory()}).out, Not(HasSubstr(" by ")));
  options_.store.application = {"ocean", "2.1", "f3a9"};
  save(2);
  options_.store.application = {"", "3", ""};
  save(3);
  const auto text = run_tool({"ls", directory()}).out;
  EXPECT_THAT(text, AllOf(HasSubstr(" by "), HasSubstr("  -  "),
                          HasSubstr("ocean 2.1, commit f3a9"), test::Says("no name 3 ")));
  const auto listed = run_tool({"ls", directory(), "--json"}).json()["checkpoints"];
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_TRUE(listed[0]["application"].is_null());
  EXPECT_EQ(listed[1]["application"],
            json({{"name", "ocean"}, {"version", "2.1"}, {"commit", "f3a9"}}));
  EXPECT_EQ(listed[2]["application"]["name"], "");
}

TEST_F(Checkpoint, ADamagedIndexWhoseCopyIsThereSaysWhatMendsIt) {
  const auto prefix = save(10);
  {
    std::fstream index(prefix + ".index", std::ios::in | std::ios::out | std::ios::binary);
    index.seekp(20).put('!').put('?');
  }
  const auto ran = run_tool({"verify", prefix});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, test::Says("verify --repair puts it back"));
  EXPECT_EQ(run_tool({"verify", prefix, "--repair"}).status, 0);
}

TEST_F(Checkpoint, WhatIsLostIsNamedAndRepaired) {
  save(10);
  const auto prefix = save(20);
  fs::remove(prefix + ".index");
  const auto before = scratch_.listing();
  const auto ran = run_tool({"verify", directory()});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ckpt-10: whole"), HasSubstr("ckpt-20: damaged"),
                             test::Says("ckpt-20.index is missing"), HasSubstr("--repair")));
  EXPECT_EQ(run_tool({"verify", prefix}).status, 1);
  EXPECT_EQ(scratch_.listing(), before);
  auto listed = run_tool({"ls", directory(), "--json"}).json()["checkpoints"];
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_FALSE(listed[1]["whole"].get<bool>());
  EXPECT_TRUE(listed[0]["newest"].get<bool>());
  {
    CheckpointManager owner(serial_group(), scratch_.path(), options_);
    EXPECT_THAT(run_tool({"verify", directory(), "--repair"}).err, test::Says("in use"));
  }
  const auto repaired = run_tool({"verify", directory(), "--repair"});
  EXPECT_EQ(repaired.status, 0) << repaired.err;
  EXPECT_THAT(repaired.out, AllOf(test::Says("repaired: ckpt-20.index was put back"),
                                  HasSubstr("ckpt-20: whole")));
  listed = run_tool({"ls", directory(), "--json"}).json()["checkpoints"];
  EXPECT_TRUE(listed[1]["newest"].get<bool>());
  // Damage that cannot be repaired is left alone, and the status tells it.
  fs::remove(files(prefix).front());
  const auto json = run_tool({"verify", prefix, "--repair", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(json.json()[0]["not_repaired"].size(), 1u) << json.out;
}

TEST_F(Checkpoint, ToolsChangeNothing) {
  const auto prefix = save(7);
  std::map<std::string, std::string> before;
  const auto look = [&] {
    std::map<std::string, std::string> seen;
    for (const auto& name : scratch_.listing()) {
      const auto path = scratch_.path() / name;
      seen[name] = fs::is_regular_file(path) ? read_bytes(path) : "";
    }
    return seen;
  };
  before = look();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"ls", directory()},
                                                {"show", prefix},
                                                {"cat", prefix, "field"},
                                                {"verify", directory()},
                                                {"gc", directory(), "--dry-run"}}) {
    EXPECT_EQ(run_tool(words).status, 0);
    EXPECT_EQ(look(), before) << words.front();
  }
}

TEST(Usage, HelpHasExamplesAndMistakesAreStatusTwo) {
  for (const auto* command : {"ls", "show", "cat", "verify", "gc"}) {
    const auto help = run_tool({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr(std::string("Examples:\n  cairn ") + command));
    EXPECT_EQ(run_tool({command}).status, 2);
    EXPECT_EQ(run_tool({command, "/nowhere", "--no-such-flag"}).status, 2);
  }
  EXPECT_EQ(run_tool({}).status, 2);
  EXPECT_EQ(run_tool({"frobnicate"}).status, 2);
  EXPECT_THAT(run_tool({"--version"}).out, StartsWith("cairn "));
  const auto missing = run_tool({"ls", "/nowhere"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.err, "cairn: there is no directory /nowhere\n");
}

}  // namespace
}  // namespace cairn::test
