// Small files that claim to be large: what they claim costs neither memory nor time.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <span>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "io/file_system.hpp"
#include "layout/bundle/index.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// A sanitizer needs the whole address space.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_TAKES_ALL_ADDRESSES
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(CAIRN_TAKES_ALL_ADDRESSES)
constexpr bool limits_memory = false;
#else
constexpr bool limits_memory = true;
#endif

class Hostile : public testing::Test {
 protected:
  Hostile() { set_log_sink({}); }
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  // Runs the tool with 2 GiB of address space.
  Ran run(const std::vector<std::string>& words) const {
    std::string line = limits_memory ? "ulimit -v 2097152; exec" : "exec";
    for (const auto& word : words) line += cat(" '", word, "'");
    line.insert(line.find("exec") + 4, cat(" '", CAIRN_TOOL, "'"));
    return run_program({"/bin/sh", "-c", line});
  }
  void save(const std::string& run, std::int64_t steps = 1) const {
    CheckpointManager manager(serial_group(), at(run));
    double value = 1.5;
    State state;
    state.add("x", value);
    for (std::int64_t step = 1; step <= steps; ++step) manager.save(step, state);
  }
  // Changes the index of step 1, both in its place and in the copy after the metadata.
  void change(const std::string& run, const std::function<void(CheckpointContents&)>& how,
              int num_files = 0) const {
    const fs::path prefix = at(run + "/ckpt-1");
    auto contents = read_contents(*io::posix_file_system(), prefix);
    for (auto& one : contents.own) contents.tensors.push_back(one);
    const auto files = contents.num_files;
    how(contents);
    const auto index = bundle::build_index(num_files ? num_files : files, contents.tensors);
    write_bytes(prefix.string() + ".index", index);
    for (int file = 0; num_files && file < files; ++file) {
      fs::rename(commit::data_path(prefix, file, files),
                 commit::data_path(prefix, file, num_files));
    }
  }
  static void expect_words(const Ran& ran) {
    EXPECT_LE(ran.status, 2);
    for (const auto* none : {"bad_alloc", "filesystem error", "basic_string", "vector"}) {
      EXPECT_THAT(ran.err, Not(HasSubstr(none)));
    }
  }
  ScratchDirectory scratch_;
};

TEST_F(Hostile, MoreDataFilesThanAnybodyHas) {
  constexpr int most = std::numeric_limits<int>::max();
  save("run", 2);
  change(
      "run", [](auto&) {}, most);
  const auto prefix = at("run/ckpt-1");
  for (const auto& words : {std::vector<std::string>{"ls", at("run")},
                            {"show", prefix},
                            {"stats", at("run")},
                            {"report", at("run"), "-o", at("page.html")},
                            {"gc", at("run"), "--max-to-keep", "2"}}) {
    SCOPED_TRACE(words[0]);
    const auto ran = run(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    expect_words(ran);
  }
  for (const auto& words : {std::vector<std::string>{"verify", prefix},
                            {"verify", "--repair", prefix},
                            {"verify", prefix, "--json"}}) {
    const auto ran = run(words);
    EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
    EXPECT_THAT(ran.out, test::Says("the index speaks of 2147483647 data files"));
  }
  const auto merged = run({"merge", "--remove-parts", at("all"), prefix});
  EXPECT_EQ(merged.status, 0) << merged.err;
  EXPECT_FALSE(fs::exists(prefix + ".index"));
  EXPECT_FALSE(fs::exists(commit::data_path(prefix, 0, most)));
  EXPECT_EQ(run({"cat", at("all"), "x"}).out, "1.5\n");
}

TEST_F(Hostile, MetadataThatAreLongerThanTheirFile) {
  save("run");
  change("run", [](auto& contents) {
    for (auto& one : contents.tensors) {
      if (one.key == "_cairn/meta")
        one.slices.at(0).stored_bytes = one.slices.at(0).raw_bytes = std::int64_t{1} << 42;
    }
  });
  const auto prefix = at("run/ckpt-1");
  for (const auto& words : {std::vector<std::string>{"verify", prefix},
                            {"ls", at("run")},
                            {"show", prefix},
                            {"verify", "--repair", prefix}}) {
    SCOPED_TRACE(words[0]);
    expect_words(run(words));
  }
  // It is repaired from the copy of the index, which is beside the metadata.
  const auto ran = run({"verify", prefix});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

// Its bytes are never printed or taken for values.
TEST_F(Hostile, ATensorOfACodecThatTheToolDoesNotHave) {
  save("run");
  change("run", [](auto& contents) {
    for (auto& one : contents.tensors) {
      if (one.key == "x") one.slices.at(0).codec = Codec{7};
    }
  });
  const auto prefix = at("run/ckpt-1");
  const auto shown = run({"show", prefix, "--json"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("\"codec\": 7"), HasSubstr("\"raw_bytes\": 8")));
  for (const auto& words : {std::vector<std::string>{"cat", prefix, "x"},
                            {"convert", prefix, at("ckpt-2")},
                            {"convert", prefix, at("x.safetensors")}}) {
    const auto ran = run(words);
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr("codec 7"));
  }
  EXPECT_FALSE(fs::exists(at("x.safetensors")));
  EXPECT_THAT(run({"verify", prefix}).out, HasSubstr("codec 7"));
}

// A hole in the file, which takes no room on the disk.
TEST_F(Hostile, AnIndexOfGibibytesOfNothing) {
  save("run", 2);
  fs::resize_file(at("run/ckpt-1.index"), std::uintmax_t{4} << 30);
  const auto listed = run({"ls", at("run")});
  EXPECT_EQ(listed.status, 0) << listed.err;
  for (const auto& words : {std::vector<std::string>{"show", at("run/ckpt-1")},
                            {"cat", at("run/ckpt-1"), "x"},
                            {"verify", at("run/ckpt-1")}}) {
    const auto ran = run(words);
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_THAT(ran.out + ran.err, test::Says("magic number"));
    expect_words(ran);
  }
}

TEST_F(Hostile, MoreElementsThanMemoryHas) {
  constexpr std::int64_t n = std::int64_t{1} << 34;
  const auto save_sparse = [&](const std::string& run, double second) {
    CheckpointManager manager(serial_group(), at(run));
    std::vector<double> held{2, second, 8};
    State state;
    state.add("u", sparse(slice(&held, {n}, {n / 2}, {3}), 1.0));
    state.add("plane", sparse(slice(&held, {n / 8, 8}, {7, 2}, {1, 3}), 0.5));
    manager.save(1, state);
  };
  save_sparse("a", 4);
  save_sparse("b", 6);
  const auto a = at("a/ckpt-1"), b = at("b/ckpt-1");
  const auto whole = run({"cat", a, "u"});
  EXPECT_EQ(whole.status, 2);
  EXPECT_THAT(whole.err, test::Says("Read a part of it"));
  expect_words(whole);
  EXPECT_EQ(run({"cat", a, "u", "--slice", cat(n / 2 - 1, ",4")}).out, "1 2 4 8\n");
  EXPECT_EQ(run({"verify", a}).status, 0);

  const auto values = run({"show", a, "--values", "u", "--json"}).json();
  EXPECT_EQ(values["elements"], n);
  EXPECT_EQ(values["held_by_no_rank"], n - 3);
  EXPECT_EQ(values["min"]["value"], 1);
  EXPECT_EQ(values["min"]["index"], std::vector<std::int64_t>{0});
  EXPECT_EQ(values["max"]["value"], 8);
  EXPECT_EQ(values["max"]["index"], std::vector<std::int64_t>{n / 2 + 2});
  EXPECT_DOUBLE_EQ(values["mean"].get<double>(), 1 + 11.0 / static_cast<double>(n));
  EXPECT_EQ(values["histogram"]["counts"][0], n - 3);
  EXPECT_EQ(values["zero"], 0);

  EXPECT_EQ(run({"diff", a, a}).status, 0);
  const auto differs = run({"diff", a, b, "u"});
  EXPECT_EQ(differs.status, 1);
  EXPECT_THAT(differs.out, HasSubstr(cat("1 of ", n, " elements differ\n  first at [", n / 2 + 1,
                                         "]: 4 and 6")));
  for (const auto& words : {std::vector<std::string>{"view", a, "u", "-o", at("u.png")},
                            {"view", a, "plane", "-o", at("plane.png")},
                            {"view", a, "plane", "--reduce", "mean"},
                            {"view", a, "u", "--slice", cat(n / 2 - 2, ":", n / 2 + 5)}}) {
    const auto ran = run(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    expect_words(ran);
  }
}

// The gaps of two tensors differ, and each has slices where the other has none.
TEST_F(Hostile, GapsThatDifferAreCompared) {
  const auto save_sparse = [&](const std::string& run, std::int64_t at_row, double fill) {
    CheckpointManager manager(serial_group(), at(run));
    std::vector<double> held{1, 2, 3, 4};
    State state;
    state.add("u", sparse(slice(&held, {10, 4}, {at_row, 1}, {2, 2}), fill));
    manager.save(1, state);
  };
  save_sparse("a", 2, 0);
  save_sparse("b", 3, 0);
  save_sparse("c", 2, -1);
  const auto a = at("a/ckpt-1"), b = at("b/ckpt-1"), c = at("c/ckpt-1");
  // a: rows 2 and 3 are 1 2, 3 4; b: rows 3 and 4.
  EXPECT_THAT(run({"diff", a, b}).out,
              test::Says("6 of 40 elements differ\n  first at [2,1]: 1 and 0"));
  EXPECT_THAT(run({"diff", a, b}).out, test::Says("largest difference 4 at [4,2]"));
  EXPECT_THAT(run({"diff", a, c}).out,
              test::Says("36 of 40 elements differ\n  first at [0,0]: 0 and -1"));
  EXPECT_THAT(run({"diff", a, c}).out, test::Says("largest difference 1 at [0,0]"));
  EXPECT_EQ(run({"diff", a, c, "--absolute", "1"}).status, 0);
}

TEST_F(Hostile, ADirectoryThatIsGone) {
  fs::create_directory(at("gone"));
  const auto line =
      cat("cd '", at("gone"), "' && rmdir '", at("gone"), "' && exec '", CAIRN_TOOL, "' gc run");
  const auto ran = run_program({"/bin/sh", "-c", line});
  EXPECT_EQ(ran.status, 2);
  expect_words(ran);
}

}  // namespace
}  // namespace cairn::test
