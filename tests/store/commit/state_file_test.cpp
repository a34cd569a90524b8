#include "store/commit/state_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "cairn/error.hpp"
#include "io/expect_error.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using ::testing::ElementsAre;

std::string golden(const std::string& name) {
  std::ifstream file(std::string(CAIRN_GOLDEN_DIRECTORY "/") + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

void expect_state(const std::optional<StateFile>& found, const nlohmann::json& state,
                  const std::string& form) {
  if (!state.contains("model_checkpoint_path")) {
    EXPECT_FALSE(found) << form;
    return;
  }
  ASSERT_TRUE(found) << form;
  // TensorFlow's record has paths joined to the directory.
  const auto plain = [](const std::string& path) {
    return std::filesystem::path(path).lexically_normal().string();
  };
  EXPECT_EQ(plain(found->model_checkpoint_path), state["model_checkpoint_path"].get<std::string>())
      << form;
  EXPECT_EQ(found->all_paths, state["all_model_checkpoint_paths"].get<std::vector<std::string>>())
      << form;
  EXPECT_EQ(found->timestamps, state["all_model_checkpoint_timestamps"].get<std::vector<double>>())
      << form;
  EXPECT_EQ(found->last_preserved.value_or(0), state["last_preserved_timestamp"]) << form;
}

TEST(StateFile, EachFormReadsAsInTensorFlow) {
  const auto expected = nlohmann::json::parse(golden("state_files/expected.json"));
  int forms = 0;
  for (const auto& [form, state] : expected["states"].items()) {
    expect_state(parse_state_file(golden("state_files/" + form + "/checkpoint")), state, form);
    ++forms;
  }
  EXPECT_EQ(forms, 24);
}

TEST(StateFile, PrintsWhatTensorFlowsManagerPrints) {
  const auto text = golden("manager/checkpoint");
  const auto state = parse_state_file(text);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->model_checkpoint_path, "run-50");
  EXPECT_THAT(state->all_paths, ElementsAre("run-30", "run-40", "run-50"));
  EXPECT_THAT(state->timestamps, ElementsAre(1700000900.0, 1700001200.0, 1700001500.0));
  EXPECT_EQ(state->last_preserved, 1700000059.0);
  EXPECT_EQ(print_state_file(*state), text);
}

TEST(StateFile, Prints) {
  StateFile state;
  state.model_checkpoint_path = "ck \xc3\xa9-\"2\"\\'\n\x01\x7f";
  state.all_paths = {"ck-1"};
  state.timestamps = {1700000000.25, 0.1};
  state.last_preserved = -1e-7;
  EXPECT_EQ(print_state_file(state),
            "model_checkpoint_path: \"ck \\303\\251-\\\"2\\\"\\\\\\'\\n\\001\\177\"\n"
            "all_model_checkpoint_paths: \"ck-1\"\n"
            "all_model_checkpoint_paths: \"ck \\303\\251-\\\"2\\\"\\\\\\'\\n\\001\\177\"\n"
            "all_model_checkpoint_timestamps: 1700000000.25\n"
            "all_model_checkpoint_timestamps: 0.1\n"
            "last_preserved_timestamp: -0.0000001\n");
  state.timestamps.pop_back();
  EXPECT_CAIRN_ERROR(print_state_file(state), Code::internal, "1 timestamps for 2 paths");
}

TEST(StateFile, PrintedStatesAreReadBack) {
  std::mt19937_64 random(3);
  const auto any_path = [&] {
    static const std::vector<std::string> pieces = {
        "a", "-", "7", "\"", "'", "\\", "\n", "\t", "#", ":", "\r", "é", "\x01", "]", "\\x41", "€"};
    std::string path = "p";
    for (auto n = random() % 12; n-- > 0;) path += pieces[random() % pieces.size()];
    return path;
  };
  const auto any_double = [&] {
    double value;
    do {
      const auto bits = random();
      std::memcpy(&value, &bits, sizeof value);
    } while (!std::isfinite(value));
    return value;
  };
  for (int i = 0; i < 2000; ++i) {
    StateFile state;
    for (auto n = random() % 4 + 1; n-- > 0;) state.all_paths.push_back(any_path());
    state.model_checkpoint_path = state.all_paths.back();
    if (random() % 2) {
      for (std::size_t k = 0; k < state.all_paths.size(); ++k) {
        state.timestamps.push_back(any_double());
      }
    }
    if (random() % 2) state.last_preserved = any_double();
    EXPECT_EQ(parse_state_file(print_state_file(state)), state) << print_state_file(state);
  }
}

std::string path_of(const std::string& literal) {
  const auto state = parse_state_file("model_checkpoint_path: " + literal);
  return state ? state->model_checkpoint_path : "-";
}

TEST(StateFile, StringLiterals) {
  EXPECT_EQ(path_of(R"("a" 'b'   "c")"), "abc");
  EXPECT_EQ(path_of("\"a\"# comment\n'b'"), "ab");
  EXPECT_EQ(path_of(R"("it's")"), "it's");
  EXPECT_EQ(path_of(R"('say "x"')"), "say \"x\"");
  EXPECT_EQ(path_of(R"("\a\b\f\n\r\t\v\\\'\"")"), "\a\b\f\n\r\t\v\\'\"");
  EXPECT_EQ(path_of(R"("\101\x41\x4a\xf\0601")"),
            "AAJ\x0f"
            "01");
  EXPECT_EQ(path_of(R"("\u20ac\U0001f600\xe2\x82\xac")"), "€\xf0\x9f\x98\x80€");
  EXPECT_EQ(path_of(R"("\q")"), "\\q");
  for (const char* bad :
       {R"("open)",        R"("open')",   R"(")",      R"(')",      R"("a\")",
        "\"a\nb\"",        "\"a\\\nb\"",  R"("\x")",   R"("\xg1")", R"("\u12")",
        R"("\U00110000")", R"("\ud800")", R"("\777")", R"("\xff")", R"("\N{DASH}")",
        R"(word)",         R"(["a"])",    R"(7)",      "",          R"("")"}) {
    EXPECT_EQ(path_of(bad), "-") << bad;
  }
  EXPECT_FALSE(parse_state_file("model_checkpoint_path: \"\xff\""));
}

TEST(StateFile, Numbers) {
  const auto number = [](const std::string& text) {
    const auto state =
        parse_state_file("model_checkpoint_path: 'a' last_preserved_timestamp: " + text);
    return state ? state->last_preserved.value() : -777;
  };
  EXPECT_EQ(number("1"), 1);
  EXPECT_EQ(number("-1.5e3"), -1500);
  EXPECT_EQ(number("+2."), 2);
  EXPECT_EQ(number(".5"), 0.5);
  EXPECT_EQ(number("0"), 0);
  EXPECT_EQ(number("0.25"), 0.25);
  EXPECT_EQ(number("1.5f"), 1.5);
  EXPECT_EQ(number("1_000"), 1000);
  EXPECT_EQ(number("1E2"), 100);
  EXPECT_EQ(number("1e999"), INFINITY);
  EXPECT_EQ(number("1e-999"), 0);
  EXPECT_EQ(number("inf"), INFINITY);
  EXPECT_EQ(number("-Infinity"), -INFINITY);
  EXPECT_EQ(number("-inff"), -INFINITY);
  EXPECT_TRUE(std::isnan(number("nan")));
  for (const char* bad :
       {"01",   "-00.5", "0x10", "1e", "1..2", "--1", "-",  "+",     "1_",  "_1",
        "1__0", "\"1\"", "word", "",   "[1]",  "f",   "in", "infff", "- 1", "1.5g"}) {
    EXPECT_EQ(number(bad), -777) << bad;
  }
}

TEST(StateFile, ListsAndSeparators) {
  const auto state = parse_state_file(
      "all_model_checkpoint_paths: [] model_checkpoint_path: 'a';"
      "all_model_checkpoint_paths: ['x' 'y', \"z\"], all_model_checkpoint_paths: 'w'"
      "all_model_checkpoint_timestamps:[1,2.5]\v\fall_model_checkpoint_timestamps : 3");
  ASSERT_TRUE(state);
  EXPECT_THAT(state->all_paths, ElementsAre("xy", "z", "w"));
  EXPECT_THAT(state->timestamps, ElementsAre(1, 2.5, 3));
  for (const char* bad :
       {"model_checkpoint_path 'a'", "model_checkpoint_path: 'a',,", "model_checkpoint_path: 'a';,",
        "model_checkpoint_path: 'a' }", "model_checkpoint_path: 'a' x: {}",
        "model_checkpoint_path: 'a' all_model_checkpoint_paths: ['b'",
        "model_checkpoint_path: 'a' all_model_checkpoint_paths: ['b' ,]",
        "model_checkpoint_path: 'a' all_model_checkpoint_paths: ['b';'c']",
        "model_checkpoint_path: 'a' [ext.name]: 3", "1: 'a'", "model_checkpoint_path { }"}) {
    EXPECT_FALSE(parse_state_file(bad)) << bad;
  }
}

TEST(StateFile, InADirectory) {
  io::MemoryFileSystem files;
  files.create_directory("/d");
  EXPECT_FALSE(read_state_file(files, "/d"));
  StateFile state;
  state.model_checkpoint_path = "a-2";
  state.all_paths = {"a-1", "a-2"};
  write_state_file(files, "/d", "a", state);
  EXPECT_EQ(read_state_file(files, "/d"), state);
  EXPECT_THAT(files.list("/d"), ElementsAre("checkpoint"));
  files.inject({.code = Code::io, .kind = "read", .path_part = "checkpoint"});
  EXPECT_CAIRN_ERROR(read_state_file(files, "/d"), Code::io, "Input/output error");
}

}  // namespace
}  // namespace cairn::commit
