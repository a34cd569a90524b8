// Checkpoints that TensorFlow wrote, and damaged ones.
#include <gmock/gmock.h>

#include <filesystem>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "cli/tool.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "support/sha256.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path golden = CAIRN_GOLDEN_DIR;

json expected(const fs::path& folder) { return json::parse(read_bytes(folder / "expected.json")); }

// It has the same contents as others, 3,000 times.
#ifdef CAIRN_SANITIZED
constexpr std::string_view left_out = "many_keys";
#else
constexpr std::string_view left_out = "";
#endif

// Folders of good checkpoints. The indexes of state_files are empty stand-ins.
std::vector<std::string> good_cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden)) {
    const auto name = entry.path().filename().string();
    if (name == left_out) continue;
    if (entry.is_directory() && name != "bad" && name != "state_files") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The arguments that name a key; the command line cannot name one with a zero byte.
std::vector<std::string> cat_raw(const std::string& prefix, const json& tensor) {
  if (tensor.contains("key_hex")) {
    return {"cat", "--format", "raw", prefix, "--key-hex", tensor["key_hex"]};
  }
  const auto key = tensor["key"].get<std::string>();
  if (key.find('\0') == key.npos) {
    return {"cat", "--format", "raw", "--", prefix, key};  // it may begin with a dash
  }
  std::ostringstream hex;
  for (const char c : key) {
    hex << std::hex << std::setw(2) << std::setfill('0') << int{static_cast<unsigned char>(c)};
  }
  return {"cat", "--format", "raw", prefix, "--key-hex", hex.str()};
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return golden / GetParam(); }
  template <class Visit>
  void each_checkpoint(Visit visit) {
    const auto all = expected(folder());
    for (const auto& checkpoint : all["checkpoints"]) {
      visit((folder() / checkpoint["prefix"].get<std::string>()).string(), checkpoint);
    }
  }
};

TEST_P(Golden, CatRawHasTheDigestOfEachTensorAndSlice) {
  each_checkpoint([](const std::string& prefix, const json& checkpoint) {
    const auto& tensors = checkpoint["tensors"];
    // Each tensor takes a process.
    const auto stride = (tensors.size() > 200 ? 97u : 1u) * test::stride(4);
    for (std::size_t i = 0; i < tensors.size(); i += stride) {
      const auto& tensor = tensors[i];
      SCOPED_TRACE(prefix + " " + tensor.value("key", tensor.value("key_hex", "")));
      const auto ran = run_tool(cat_raw(prefix, tensor));
      if (tensor["dtype"] == "variant") {
        EXPECT_EQ(ran.status, 2);
        EXPECT_THAT(ran.err, HasSubstr("is a variant"));
        EXPECT_EQ(ran.out, "");
        continue;
      }
      if (tensor.value("covered", true)) {
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(sha256(ran.out), tensor["sha256"].get<std::string>());
      } else {
        EXPECT_EQ(ran.status, 2) << "not damaged: it holds a part only";
        EXPECT_THAT(ran.err, test::Says("is in no stored slice"));
        EXPECT_EQ(ran.out, "");
      }
      if (!tensor.contains("slices") || !tensor["slices"].is_array()) continue;
      const std::size_t step =
          std::max<std::size_t>(1, tensor["slices"].size() / 10) * test::stride(5);
      for (std::size_t s = 0; s < tensor["slices"].size(); s += step) {
        const auto& slice = tensor["slices"][s];
        const auto spec = slice["spec"].get<std::string>();
        for (const auto& form : {spec, spec.substr(spec.rfind(' ') + 1)}) {
          auto words = cat_raw(prefix, tensor);
          words.insert(words.begin() + 1, "--slice=" + form);
          const auto part = run_tool(words);
          EXPECT_EQ(part.status, 0) << form << ": " << part.err;
          EXPECT_EQ(sha256(part.out), slice["sha256"].get<std::string>()) << form;
        }
      }
    }
  });
}

TEST_P(Golden, VerifySaysWhole) {
  each_checkpoint([](const std::string& prefix, const json& checkpoint) {
    bool variant = false, uncovered = false;
    for (const auto& tensor : checkpoint["tensors"]) {
      variant = variant || tensor["dtype"] == "variant";
      uncovered = uncovered || !tensor.value("covered", true);
    }
    const auto ran = run_tool({"verify", prefix});
    EXPECT_EQ(ran.status, variant ? 2 : 0) << ran.out << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(variant ? "cannot tell" : ": whole ("));
    if (uncovered) {
      EXPECT_THAT(ran.out, HasSubstr("note: tensor"));
    }
  });
}

TEST_P(Golden, ShowListsKeysDtypesAndShapes) {
  each_checkpoint([](const std::string& prefix, const json& checkpoint) {
    const auto ran = run_tool({"show", prefix, "--json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto shown = ran.json();
    EXPECT_EQ(shown["num_files"], checkpoint["num_shards"]);
    EXPECT_TRUE(shown["metadata"].is_null());
    const auto& tensors = checkpoint["tensors"];
    ASSERT_EQ(shown["tensors"].size(), tensors.size());
    const auto id = [](const json& t) { return t.contains("key") ? t["key"] : t["key_hex"]; };
    std::map<json, json> by_key;
    for (const auto& tensor : shown["tensors"]) by_key[id(tensor)] = tensor;
    for (const auto& tensor : tensors) {
      const auto& found = by_key[id(tensor)];
      SCOPED_TRACE(id(tensor).dump());
      EXPECT_EQ(found["dtype"], tensor["dtype"]);
      EXPECT_EQ(found["dtype_number"], tensor["dtype_number"]);
      EXPECT_EQ(found["shape"], tensor["shape"]);
      if (!tensor.contains("slices")) continue;
      const auto& slices = tensor["slices"];
      if (slices.is_number()) {
        EXPECT_EQ(found["slices"].size(), slices);
        continue;
      }
      ASSERT_EQ(found["slices"].size(), slices.size());
      for (std::size_t i = 0; i < slices.size(); ++i) {
        EXPECT_EQ(found["slices"][i]["spec"], slices[i]["spec"]);
      }
    }
    EXPECT_EQ(run_tool({"show", prefix}).status, 0);
  });
}

TEST_P(Golden, ConvertsToTheSameValues) {
  // Checkpoints that cannot be stored again, and why.
  const std::map<std::string, std::string> refused = {
      {"variant", "variant"}, {"odd_keys", "UTF-8"}, {"sliced_partial", "no stored slice"}};
  const ScratchDirectory scratch;
  int number = 0;
  each_checkpoint([&](const std::string& prefix, const json&) {
    const auto to = (scratch.path() / ("made-" + std::to_string(++number))).string();
    const auto ran = run_tool({"convert", "--max-shard-size", "1KiB", prefix, to});
    if (const auto why = refused.find(GetParam()); why != refused.end()) {
      EXPECT_NE(ran.status, 0) << prefix;
      EXPECT_THAT(ran.err, HasSubstr(why->second));
      EXPECT_THAT(scratch.listing(), testing::Each(testing::StartsWith(".cairn")));
      return;
    }
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto same = run_tool({"diff", prefix, to});
    EXPECT_EQ(same.status, 0) << same.out << same.err;
    EXPECT_EQ(run_tool({"verify", to}).status, 0);
    // Tensors in slices stay so, with the same names unless the slices were cut further.
    const auto before = run_tool({"show", "--json", prefix}).json();
    const auto after = run_tool({"show", "--json", to}).json();
    const auto specs = [](const json& tensor) {
      std::set<std::string> all;
      for (const auto& one : tensor["slices"]) all.insert(one["spec"].get<std::string>());
      return all;
    };
    for (std::size_t i = 0; i < before["tensors"].size(); ++i) {
      // Strings, and tensors without elements, are stored whole.
      if (before["tensors"][i]["dtype"] == "string" || before["tensors"][i]["bytes"] == 0) continue;
      const auto old = specs(before["tensors"][i]), now = specs(after["tensors"][i]);
      EXPECT_GE(now.size(), old.size()) << before["tensors"][i]["key"];
      if (now.size() > old.size()) continue;
      EXPECT_EQ(now, old) << before["tensors"][i]["key"];
    }
    if (GetParam() != "max_shard_size") return;
    EXPECT_GT(after["num_files"], 2);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(good_cases()),
                         [](const auto& info) { return info.param; });

TEST(Golden_, EachCaseIsThere) { EXPECT_EQ(good_cases().size(), left_out.empty() ? 23u : 22u); }

TEST(Bad, VerifyNamesTheDamageOfEachCase) {
  const auto all = expected(golden / "bad");
  int damaged = 0, legal = 0;
  std::size_t printed_from = 0;
  for (const auto& bad : all["cases"]) {
    const auto prefix = (golden / "bad" / bad["prefix"].get<std::string>()).string();
    SCOPED_TRACE(prefix + ": " + bad["what"].get<std::string>());
    const auto ran = run_tool({"verify", prefix, "--json"});
    const auto found = ran.json().at(0);
    std::string words;
    for (const auto& finding : found["findings"]) {
      words +=
          finding["kind"].get<std::string>() + ": " + finding["what"].get<std::string>() + '\n';
    }
    if (bad["case"] == "slices_insufficient") {
      // Another program may store a part of a tensor: TensorFlow reads that part.
      EXPECT_EQ(ran.status, 0);
      EXPECT_THAT(words, test::Says("note: tensor 'x' [4]: rows 2..3 is in no stored slice"));
    } else if (bad["case"] == "header_min_consumer" || bad["case"] == "header_bad_consumer") {
      // It is for a reader of another version, which is no damage.
      EXPECT_EQ(ran.status, 2) << words;
      EXPECT_THAT(words, test::Says("unknown: the checkpoint's index is of another version"));
    } else if (bad.value("legal", false)) {
      ++legal;
      EXPECT_EQ(ran.status, 0) << words;
    } else {
      ++damaged;
      EXPECT_EQ(ran.status, 1) << words;
      EXPECT_THAT(words, HasSubstr("damage: "));
      if (bad["scope"] == "index" && bad["case"] != "header_shards_3" &&
          bad["case"] != "merge_with_empty_bundle") {
        EXPECT_THAT(words, HasSubstr("index"));
      }
    }
    if (++printed_from % test::stride(16) != 0) continue;  // each tensor is a process
    // Tensors that must be wrong are never printed.
    const auto& right = bad["good"].is_string() ? all["good"][bad["good"]] : bad["good"];
    for (const auto& [key, digest] : right.items()) {
      const auto printed = run_tool({"cat", "--format", "raw", "--", prefix, key});
      if (printed.status == 0 && bad["case"] != "entry_dtype_swapped") {
        EXPECT_EQ(sha256(printed.out), digest.get<std::string>()) << key;
      } else if (printed.status != 0) {
        EXPECT_EQ(printed.out, "") << key;
      }
    }
  }
  EXPECT_GE(legal, 3);
  EXPECT_GT(damaged, 80);
}

TEST(Bad, VerifyNamesTensorSliceFileAndOffset) {
  const auto prefix = (golden / "bad" / "data_flip_slice" / "ckpt").string();
  const auto found = run_tool({"verify", prefix, "--json"}).json().at(0);
  ASSERT_EQ(found["findings"].size(), 1u) << found.dump(2);
  const auto& damage = found["findings"][0];
  EXPECT_EQ(damage["kind"], "damage");
  EXPECT_EQ(damage["key"], "w");
  EXPECT_EQ(damage["file"], prefix + ".data-00001-of-00002");
  EXPECT_TRUE(damage["offset"].is_number());
  const auto specs = run_tool({"show", prefix, "--json"}).json()["tensors"];
  std::set<std::string> in_that_file;
  for (const auto& tensor : specs) {
    if (tensor["key"] != "w") continue;
    for (const auto& slice : tensor["slices"]) {
      if (slice["file"] == "ckpt.data-00001-of-00002") in_that_file.insert(slice["spec"]);
    }
  }
  EXPECT_TRUE(in_that_file.contains(damage["slice"])) << damage.dump();
}

TEST(Bad, VerifyOfADirectoryTakesTheWorst) {
  ScratchDirectory scratch;
  const auto copy = [&](const std::string& from, const std::string& to) {
    for (const auto& entry : fs::directory_iterator(golden / from)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with("ckpt.")) fs::copy(entry.path(), scratch.path() / (to + name.substr(4)));
    }
  };
  const auto status = [&] { return run_tool({"verify", scratch.path().string()}).status; };
  EXPECT_EQ(status(), 2) << "nothing there";
  copy("strings", "a");
  EXPECT_EQ(status(), 0);
  copy("variant", "b-5");
  EXPECT_EQ(status(), 2);
  copy("bad/data_flip_numeric", "c");
  EXPECT_EQ(status(), 1);
}

TEST(Golden_, ADirectoryMeansTheNewestByItsStateFile) {
  const auto directory = (golden / "manager").string();
  EXPECT_EQ(run_tool({"show", directory, "--json"}).json()["prefix"], directory + "/run-50");
  const auto index = run_tool({"show", directory + "/run-30.index", "--json"}).json();
  EXPECT_EQ(index["prefix"], directory + "/run-30");
  const auto missing = run_tool({"show", (golden / "state_files" / "latest_missing").string()});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, test::Says("is gone"));
}

TEST(Golden_, LsGroupsByName) {
  const auto several = run_tool({"ls", (golden / "hand_made").string(), "--json"}).json();
  std::vector<std::string> names;
  for (const auto& item : several["checkpoints"]) {
    names.push_back(item["name"]);
    EXPECT_TRUE(item["step"].is_null());
    EXPECT_TRUE(item["whole"].get<bool>()) << item.dump();
  }
  EXPECT_THAT(names, testing::ElementsAre("big_endian", "free_form", "newer_producer", "no_version",
                                          "one_slice", "wide"));
  const auto steps = run_tool({"ls", (golden / "manager").string(), "--json"}).json();
  std::vector<std::pair<int, bool>> found;
  for (const auto& item : steps["checkpoints"]) {
    EXPECT_EQ(item["name"], "run");
    std::int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(golden / "manager")) {
      if (entry.path().stem() == fs::path(item["prefix"].get<std::string>()).filename()) {
        bytes += static_cast<std::int64_t>(entry.file_size());
      }
    }
    EXPECT_EQ(item["bytes"], bytes);
    found.emplace_back(item["step"], item["newest"]);
  }
  EXPECT_THAT(
      found, testing::ElementsAre(std::pair(30, false), std::pair(40, false), std::pair(50, true)));
}

TEST(Golden_, TextIsReadable) {
  const auto prefix = (golden / "strings" / "ckpt").string();
  EXPECT_EQ(run_tool({"cat", prefix, "all_empty"}).out, "\"\" \"\" \"\" \"\"\n");
  const auto npy = run_tool({"cat", prefix, "matrix", "--format", "npy"});
  EXPECT_EQ(npy.status, 2);
  EXPECT_THAT(npy.err, test::Says("strings have no NPY form"));
  EXPECT_THAT(npy.err, test::Says("--format raw"));
}

}  // namespace
}  // namespace cairn::test
