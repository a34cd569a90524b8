// Options by name: which ones ranks must agree on, which ones can be set from texts, and groups
// that other interfaces share.
#include <charconv>

#include "base/text.hpp"
#include "cairn/sharded_save.hpp"
#include "cairn/stop.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "support/bucket_server.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// -- what ranks must agree on
// ----------------------------------------------------------------------

struct AgreedNames {
  std::vector<std::string>& found;
  std::string inside = {};

  template <class T>
  void agreed(const char* name, const T&) {
    found.push_back(inside + name);
  }
  template <class T>
  void group(const char* name, const T& options) {
    T::visit(options, AgreedNames{found, inside + name + "."});
  }
  template <class T>
  void validated(const char*, const T&) {}
  template <class T>
  void own(const char*, const T&) {}
};

void change(bool& value) { value = !value; }
void change(std::string& value) { value += "2"; }
void change(std::optional<Mtbf>& value) { value = Mtbf::job(100); }
void change(std::shared_ptr<StopRequest>& value) {
  value = std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
}
void change(std::vector<BeforeSave>& value) {
  value.emplace_back([](std::int64_t) {});
}
void change(std::vector<std::string>& value) { value.emplace_back("x"); }
void change(PathText& value) { value = value.string() + "x"; }
void change(Migrate& value) {
  value = [](const Application&, Migration&) {};
}
void change(std::vector<KeyRule>& value) { value.push_back({"x", 2}); }
template <class T>
void change(T& value) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(static_cast<int>(value) == 0 ? 1 : 0);
  } else {
    value += 1;
  }
}

// Changes the option of this name.
struct Change {
  const std::string& wanted;
  std::string inside = {};

  template <class T>
  void agreed(const char* name, T& value) {
    if (inside + name == wanted) change(value);
  }
  template <class T>
  void group(const char* name, T& options) {
    T::visit(options, Change{wanted, inside + name + "."});
  }
  template <class T>
  void validated(const char*, T&) {}
  template <class T>
  void own(const char*, T&) {}
};

TEST(Options, WhatRanksGiveOtherwiseIsNamed) {
  std::vector<std::string> names;
  const ManagerOptions defaults;
  ManagerOptions::visit(defaults, AgreedNames{names});
  EXPECT_GE(names.size(), 26u);
  for (const auto& name : names) {
    if (name == "store.format" && !hdf5::available()) continue;
    SCOPED_TRACE(name);
    const auto common = test::on_disk();
    run_threads(2, [&](std::shared_ptr<Group> group) {
      auto options = common;
      if (group->rank() == 1) ManagerOptions::visit(options, Change{name});
      test::expect_error(Code::disagreement,
                         AllOf(HasSubstr("ranks disagree on ManagerOptions: " + name + " is "),
                               test::Says(" on rank 0 and "), testing::Not(HasSubstr("; "))),
                         [&] { CheckpointManager(group, "/run", options); });
    });
  }
}

// -- options as texts
// ------------------------------------------------------------------------------

// Sets the option of this name, if a text can set it.
struct Set {
  const std::string &wanted, &text;
  bool& done;
  std::string inside = {};

  template <class T>
  void agreed(const char* name, T& value) {
    if (inside + name != wanted) return;
    if constexpr (std::is_same_v<T, bool>) {
      value = text == "true";
      done = true;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = text;
      done = true;
    } else if constexpr (std::is_arithmetic_v<T>) {
      done = std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
    } else if constexpr (std::is_enum_v<T>) {
      const auto all = words(value);
      const auto at = std::find(all.begin(), all.end(), text);
      done = at != all.end();
      if (done) value = static_cast<T>(at - all.begin());
    }
  }
  template <class T>
  void validated(const char* name, T& value) {
    agreed(name, value);
  }
  template <class T>
  void own(const char* name, T& value) {
    agreed(name, value);
  }
  template <class T>
  void group(const char* name, T& options) {
    T::visit(options, Set{wanted, text, done, inside + name + "."});
  }
};

ManagerOptions with(const std::string& name, const std::string& text) {
  ManagerOptions options;
  bool done = false;
  ManagerOptions::visit(options, Set{name, text, done});
  EXPECT_TRUE(done) << name << " = " << text;
  return options;
}

TEST(Options, NamesAndTextsSetWhatTheySay) {
  EXPECT_EQ(with("name", "fields").name, "fields");
  EXPECT_EQ(with("keep.last", "7").keep.last, 7);
  EXPECT_EQ(with("keep.every_steps", "7").keep.every_steps, 7);
  EXPECT_EQ(with("keep.every_hours", "2.5").keep.every_hours, 2.5);
  EXPECT_EQ(with("keep.best", "7").keep.best, 7);
  EXPECT_TRUE(with("keep.larger_is_better", "true").keep.larger_is_better);
  EXPECT_EQ(with("store.format", "hdf5").store.format, Format::hdf5);
  EXPECT_TRUE(with("store.object_graph", "true").store.object_graph);
  EXPECT_EQ(with("store.replicas.check", "none").store.replicas.check, ReplicaCheck::none);
  EXPECT_EQ(with("store.replicas.check", "all").store.replicas.check, ReplicaCheck::all);
  EXPECT_EQ(with("store.replicas.check", "sample").store.replicas.check, ReplicaCheck::sample);
  EXPECT_EQ(with("store.replicas.sample_of", "7").store.replicas.sample_of, 7);
  EXPECT_FALSE(
      with("store.replicas.divergence_is_error", "false").store.replicas.divergence_is_error);
  EXPECT_EQ(with("write.writer", "mpi_io").write.writer, Writer::mpi_io);
  EXPECT_EQ(with("write.writer", "hdf5_collective").write.writer, Writer::hdf5_collective);
  EXPECT_EQ(with("write.mpi_io.files", "7").write.mpi_io.files, 7);
  EXPECT_TRUE(with("write.mpi_io.read_back", "true").write.mpi_io.read_back);
  EXPECT_EQ(with("write.io_ranks.choice", "count").write.io_ranks.choice, IoRanks::Choice::count);
  EXPECT_EQ(with("write.io_ranks.choice", "everyone").write.io_ranks.choice,
            IoRanks::Choice::everyone);
  EXPECT_EQ(with("write.io_ranks.choice", "one_a_node").write.io_ranks.choice,
            IoRanks::Choice::one_a_node);
  EXPECT_EQ(with("write.io_ranks.ranks", "7").write.io_ranks.ranks, 7);
  EXPECT_EQ(with("write.io_ranks.memory_bytes", "7").write.io_ranks.memory_bytes, 7);
  EXPECT_EQ(with("write.stripes", "-1").write.stripes, -1);
  EXPECT_EQ(with("write.direct_io", "off").write.direct_io, DirectIo::off);
  EXPECT_EQ(with("write.direct_io", "on").write.direct_io, DirectIo::on);
  EXPECT_FALSE(with("write.recycle", "false").write.recycle);
  EXPECT_EQ(with("write.skip_unchanged", "on").write.skip_unchanged, SkipUnchanged::on);
  EXPECT_FALSE(with("write.atomic_rename", "false").write.atomic_rename);
  EXPECT_EQ(with("write.chunk_bytes", "8192").write.chunk_bytes, 8192);
  EXPECT_EQ(with("write.storage_limit_seconds", "2.5").write.storage_limit_seconds, 2.5);
  EXPECT_EQ(with("write.owner_wait_seconds", "2.5").write.owner_wait_seconds, 2.5);
  EXPECT_EQ(with("async.when_busy", "skip").async.when_busy, WhenBusy::skip);
  EXPECT_EQ(with("async.when_busy", "replace").async.when_busy, WhenBusy::replace);
  EXPECT_EQ(with("async.pool_bytes", "7").async.pool_bytes, 7);
  EXPECT_FALSE(with("async.throw_failures", "false").async.throw_failures);
  EXPECT_EQ(with("when.interval.steps", "7").when.interval.steps, 7);
  EXPECT_EQ(with("when.interval.seconds", "2.5").when.interval.seconds, 2.5);
  EXPECT_TRUE(with("overwrite", "true").overwrite);
  EXPECT_TRUE(with("read_only", "true").read_only);
  EXPECT_FALSE(with("restore.fall_back", "false").restore.fall_back);
  EXPECT_TRUE(with("restore.verify_first", "true").restore.verify_first);
}

// -- the least and the most of numbers
// ----------------------------------------------------------------

TEST(Options, NumbersHaveBounds) {
  const auto open = [](const std::string& name, const std::string& value) {
    auto options = with(name, value);
    options.write.file_system = test::on_disk().write.file_system;
    CheckpointManager(serial_group(), "/run", options);
  };
  struct Bound {
    const char *group, *name, *taken, *refused;
  };
  const Bound bounds[] = {
      {"keep", "last", "0", "-1"},
      {"keep", "every_steps", "0", "-1"},
      {"keep", "best", "0", "-1"},
      {"keep", "every_hours", "0", "-0.1"},
      {"frozen", "read_every", "0", "-1"},
      {"frozen", "most_names", "0", "-1"},
      {"write", "storage_limit_seconds", "0", "-0.1"},
      {"write", "stripes", "-1", "-2"},
      {"write", "stripes", "2000", "2001"},
  };
  for (const auto& one : bounds) {
    const auto name = cat(one.group, '.', one.name);
    SCOPED_TRACE(name);
    open(name, one.taken);
    test::expect_error(Code::invalid_argument, HasSubstr(one.name),
                       [&] { open(name, one.refused); });
  }
}

// When the manager is made, and not by the first save.
TEST(Options, WhatABucketCannotHaveIsRefused) {
  const auto server = std::make_shared<test::BucketServer>();
  const auto refused = [&](const auto& says, auto change) {
    ManagerOptions options;
    options.write.file_system = server->files();
    change(options);
    test::expect_error(Code::unsupported, says,
                       [&] { CheckpointManager(serial_group(), "/run", options); });
  };
  const auto with = [](Writer writer, Format format) {
    return [=](ManagerOptions& options) {
      options.write.writer = writer;
      options.store.format = format;
    };
  };
  refused(test::Says("Writer::mpi_io cannot write in /run"), with(Writer::mpi_io, Format::bundle));
  if (!hdf5::available()) return;
  for (const auto writer : {Writer::mpi_io, Writer::hdf5_collective}) {
    refused(test::Says("cannot write in /run"), with(writer, Format::hdf5));
  }
  refused(test::Says("do not go with store.codec"), [](ManagerOptions& options) {
    options.store.format = Format::hdf5;
    options.store.codec = StoreCodec::deflate;
  });
}

// -- groups that sharded_save shares
// ---------------------------------------------------------------

TEST(Options, ShardedSaveTakesWhatIsStored) {
  const Mesh mesh({{"x", 2}});
  const auto disk = test::on_disk().write.file_system;
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    run_threads(2, [&](std::shared_ptr<Group> group) {
      double u = 1 + group->rank();
      const auto tensor = [&] { return slice(&u, {2}, {group->rank()}, {1}); };
      const ShardedOptions options{.store = {.format = format, .object_graph = true},
                                   .write = {.file_system = disk}};
      const auto prefix = cat("/run/", words(format).at(static_cast<std::size_t>(format)));
      sharded_save(group, mesh, prefix, {"layer/u"}, {""}, {tensor()}, options);
      u = 0;
      sharded_restore(group, mesh, prefix, {"layer/u"}, {""}, {tensor()}, options);
      EXPECT_EQ(u, 1 + group->rank());
      const auto contents = read_contents(*disk, prefix);
      EXPECT_EQ(contents.format, format);
      EXPECT_TRUE(contents.find(object_graph_key));
    });
  }
}

}  // namespace
}  // namespace cairn
