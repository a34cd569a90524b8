// Options by name: the options that visit() lists can be given as text, and no others.
#include "session/option_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <type_traits>

#include "base/face_words.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;
using testing::HasSubstr;

// Collects names and kinds of all members without the code under test.
struct Walk {
  std::vector<std::string>& names;
  std::string group_name = {};
  template <class T>
  void agreed(const char* name, const T&) {
    names.push_back(group_name + name);
  }
  template <class T>
  void validated(const char* name, const T& value) {
    agreed(name, value);
  }
  template <class T>
  void own(const char* name, const T& value) {
    agreed(name, value);
  }
  template <class T>
  void group(const char* name, const T& options) {
    T::visit(options, Walk{names, group_name + name + "."});
  }
};

TEST(OptionText, EveryOptionThatIsNoCodeHasAText) {
  std::vector<std::string> all;
  const ManagerOptions defaults;
  ManagerOptions::visit(defaults, Walk{all});
  const auto names = option_names(defaults);
  const std::vector<std::string> code = {"store.policy",      "store.device_of", "tier.file_system",
                                         "write.file_system", "async.on_change", "async.memory",
                                         "async.queue",       "when.stop",       "when.clock",
                                         "hooks.before_save", "hooks.savers",    "hooks.migrate"};
  // For a group that may be absent, visit() lists only the group.
  const char* xdmf[] = {"store.xdmf.spacing", "store.xdmf.origin", "store.xdmf.points",
                        "store.xdmf.time"};
  for (const auto* name : xdmf) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (const auto& name : all) {
    SCOPED_TRACE(name);
    const bool is_code = std::find(code.begin(), code.end(), name) != code.end();
    const bool listed = std::find(names.begin(), names.end(), name) != names.end() ||
                        std::find(names.begin(), names.end(), name + ".KEY") != names.end();
    EXPECT_NE(listed, is_code);
    ManagerOptions options;
    if (is_code) {
      expect_error([&] { set_option(options, name, "1"); }, Code::unsupported, HasSubstr(name));
    } else if (std::find(names.begin(), names.end(), name) != names.end()) {
      set_option(options, name, option_text(defaults, name));
      EXPECT_EQ(option_text(options, name), option_text(defaults, name));
    }
  }
  EXPECT_EQ(names.size() + code.size(), all.size() + std::size(xdmf));
}

TEST(OptionText, RulesByKey) {
  ManagerOptions options;
  set_option(options, "keep.keys", "optimizer/*:last=3,a:b");
  EXPECT_EQ(options.keep.keys, (std::vector<KeyRule>{{"optimizer/*", 3}, {"a:b", 2}}));
  EXPECT_EQ(option_text(options, "keep.keys"), "optimizer/*:last=3,a:b:last=2");
  set_option(options, "keep.keys", "a:every=10,b:c:every=2:last=0");
  EXPECT_EQ(options.keep.keys, (std::vector<KeyRule>{{"a", 2, 10}, {"b:c", 0, 2}}));
  EXPECT_EQ(option_text(options, "keep.keys"), "a:last=2:every=10,b:c:last=0:every=2");
  for (const auto* wrong :
       {"optimizer/*:last=x", ":last=3", "a,", "a:every=", ":every=1:last=2", "a:keep=2"}) {
    expect_error([&] { set_option(options, "keep.keys", wrong); }, Code::invalid_argument,
                 HasSubstr("KEYS, with :last=NUMBER"));
  }
  RestoreOptions restore;
  set_option(restore, "accept", "2.*,3");
  EXPECT_EQ(restore.accept.versions, (std::vector<std::string>{"2.*", "3"}));
  set_option(restore, "unused", "error");
  EXPECT_EQ(restore.unused, Unused::error);
}

TEST(OptionText, SetsWhatItNames) {
  ManagerOptions options;
  set_option(options, "keep.last", "3");
  set_option(options, "store.format", "hdf5");
  set_option(options, "write.recycle", "false");
  set_option(options, "write.mpi_io.hints.cb_nodes", "4");
  set_option(options, "when.interval.seconds", "0.5");
  set_option(options, "when.interval.optimal_for", "3600:node");
  set_option(options, "trace", "run/trace");
  set_option(options, "write.io_ranks.choice", "one_a_node");
  EXPECT_EQ(options.keep.last, 3);
  EXPECT_EQ(options.store.format, Format::hdf5);
  EXPECT_FALSE(options.write.recycle);
  EXPECT_EQ(options.write.mpi_io.hints.at("cb_nodes"), "4");
  EXPECT_EQ(options.when.interval.seconds, 0.5);
  ASSERT_TRUE(options.when.interval.optimal_for);
  EXPECT_EQ(options.when.interval.optimal_for->of, Mtbf::Of::node);
  EXPECT_EQ(options.when.interval.optimal_for->seconds, 3600);
  EXPECT_EQ(options.trace, "run/trace");
  EXPECT_EQ(options.write.io_ranks.choice, IoRanks::Choice::one_a_node);
  EXPECT_EQ(option_text(options, "when.interval.optimal_for"), "3600:node");
  EXPECT_EQ(option_text(options, "write.mpi_io.hints.cb_nodes"), "4");
  set_option(options, "when.interval.optimal_for", "learnt");
  EXPECT_EQ(option_text(options, "when.interval.optimal_for"), "learnt:86400");
  set_option(options, "when.interval.optimal_for", "none");
  EXPECT_FALSE(options.when.interval.optimal_for);
  set_option(options, "store.xdmf.time", "t");
  set_option(options, "store.xdmf.spacing", "0.5,0.25");
  set_option(options, "store.xdmf.points", "a,b");
  ASSERT_TRUE(options.store.xdmf);
  EXPECT_EQ(options.store.xdmf->time, "t");
  EXPECT_EQ(options.store.xdmf->spacing, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(options.store.xdmf->points, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(option_text(options, "store.xdmf.spacing"), "0.5,0.25");
  EXPECT_EQ(option_text(options, "store.xdmf"), "true");
  set_option(options, "store.xdmf", "false");
  EXPECT_FALSE(options.store.xdmf);
  EXPECT_EQ(option_text(options, "store.xdmf"), "false");
  set_option(options, "store.xdmf", "true");
  EXPECT_TRUE(options.store.xdmf);
  set_option(options, "max_to_keep", "9");
  EXPECT_EQ(options.keep.last, 9);
}

TEST(OptionText, OfRestoresSavesAndStops) {
  RestoreOptions restore;
  set_option(restore, "rename.a/b.c", "old/b");
  set_option(restore, "offset.u", "0,128");
  set_option(restore, "may_be_missing.v", "true");
  set_option(restore, "may_be_missing.w", "false");
  set_option(restore, "convert_keys.u", "round");
  set_option(restore, "convert", "exact");
  EXPECT_EQ(restore.rename.at("a/b.c"), "old/b");
  EXPECT_EQ(restore.offset.at("u"), (Dims{0, 128}));
  EXPECT_EQ(restore.may_be_missing, (std::set<std::string>{"v"}));
  EXPECT_EQ(restore.convert_keys.at("u"), Conversion::round);
  EXPECT_EQ(restore.convert, Conversion::exact);
  SaveOptions save;
  set_option(save, "metric", "0.25");
  set_option(save, "attributes.note", R"(["a"])");
  EXPECT_EQ(save.metric, 0.25);
  EXPECT_EQ(save.attributes.at("note"), Attribute(Json{R"(["a"])"}));
  StopOptions stop;
  set_option(stop, "signals", "15,10");
  set_option(stop, "end_seconds", "1e9");
  EXPECT_EQ(stop.signals, (std::vector<int>{15, 10}));
  EXPECT_EQ(stop.end_seconds, 1e9);
  set_option(stop, "signals", "");
  EXPECT_TRUE(stop.signals.empty());
}

TEST(OptionText, RefusesAndProposes) {
  ManagerOptions options;
  RestoreOptions restore;
  const auto refused = [&](const char* name, const char* value, const char* words) {
    expect_error([&] { set_option(options, name, value); }, Code::invalid_argument,
                 HasSubstr(words));
  };
  refused("keep.lats", "3", "Did you mean 'keep.last'?");
  refused("max_to_kep", "3", "Did you mean 'max_to_keep'?");
  refused("Keep.Last", "3", "Did you mean 'keep.last'?");
  refused("format", "hdf5", "Did you mean 'store.format'?");
  refused("write.mpi_io.hnts.cb_nodes", "4", "Did you mean 'write.mpi_io.hints.KEY'?");
  refused("xyzzy", "4", "there is no option 'xyzzy'");
  refused("keep.last", "", "a whole number");
  refused("keep.last", "3 ", "a whole number");
  refused("keep.last", "99999999999", "a whole number of -2147483648 to 2147483647");
  refused("keep.every_hours", "soon", "a number");
  refused("overwrite", "yes", "true or false");
  refused("write.writer", "psoix", "posix, mpi_io, hdf5_collective");
  refused("when.interval.optimal_for", "10:nodes", "seconds:node");
  expect_error([&] { set_option(restore, "offset.u", "1,,2"); }, Code::invalid_argument,
               test::Says("between commas"));
  expect_error([&] { set_option(restore, "offset.u", "1,"); }, Code::invalid_argument,
               test::Says("between commas"));
  expect_error([&] { set_option(restore, "ofset.u/v.w", "1"); }, Code::invalid_argument,
               HasSubstr("'offset.u/v.w'"));
  expect_error([&] { (void)option_text(options, "write.mpi_io.hints.x"); }, Code::not_found,
               HasSubstr("'x'"));
  expect_error([&] { (void)option_text(options, "keep.lost"); }, Code::invalid_argument,
               HasSubstr("keep.last"));
  EXPECT_EQ(options.keep.last, Retention{}.last);
}

// The names that errors in other languages use for options.
TEST(OptionText, WordsOfFacesLeadToOptions) {
  const auto names = option_names(ManagerOptions{});
  for (const auto& type : face_words::types) {
    const auto is_below = [&](const std::string& name) { return name.starts_with(type.second); };
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_below)) << type.first;
  }
  for (const auto* member : {"Retention::last", "ReplicaOptions::divergence_is_error",
                             "WriteOptions::chunk_bytes", "ManagerOptions::overwrite"}) {
    auto name = in_words_of(Face::c, member);
    std::erase(name, '\'');
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

TEST(OptionText, AGroupIsAnsweredWithItsOptions) {
  ManagerOptions options;
  test::expect_error(Code::invalid_argument,
                     test::Says("It is a group: frozen.keys, frozen.automatic"),
                     [&] { set_option(options, "frozen", "automatic"); });
}

// Collects the words of options whose values have names.
struct Words {
  std::map<std::string, std::string>& found;
  std::string group_name = {};
  template <class T>
  void agreed(const char* name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      for (const auto* word : words(value)) found[group_name + name] += std::string(" ") + word;
    }
  }
  template <class T>
  void validated(const char* name, const T& value) {
    agreed(name, value);
  }
  template <class T>
  void own(const char* name, const T& value) {
    agreed(name, value);
  }
  template <class T>
  void group(const char* name, const T& options) {
    T::visit(options, Words{found, group_name + name + "."});
  }
};

// A line for each option: its name, its default (only ManagerOptions tell it), its words.
template <class Options>
void list(const std::string& of, std::set<std::string>& lines) {
  const Options options{};
  std::map<std::string, std::string> words;
  Options::visit(options, Words{words});
  for (const auto& name : option_names(options)) {
    auto line = of + " " + name;
    if constexpr (std::is_same_v<Options, ManagerOptions>) {
      if (!name.ends_with(".KEY") && !name.starts_with("store.xdmf.")) {
        const auto text = option_text(options, name);
        line += " = " + (text.empty() ? "''" : text);
      }
    }
    if (words.contains(name)) line += ", of" + words[name];
    lines.insert(line);
  }
}

// STABILITY.md promises the names, their values' names, and that defaults stay.
TEST(OptionText, OptionsAreThoseOfTheRelease) {
  std::set<std::string> now;
  list<ManagerOptions>("manager", now);
  list<SaveOptions>("save", now);
  list<RestoreOptions>("restore", now);
  list<StopOptions>("stop", now);
  std::set<std::string> kept;
  std::ifstream file(CAIRN_KEPT_OPTIONS);
  for (std::string line; std::getline(file, line);) kept.insert(line);
  for (const auto& line : kept) {
    EXPECT_TRUE(now.contains(line)) << "gone or different: " << line;
  }
  for (const auto& line : now) {
    EXPECT_TRUE(kept.contains(line)) << "packaging/abi/options.txt lacks: " << line;
  }
}

}  // namespace
}  // namespace cairn
