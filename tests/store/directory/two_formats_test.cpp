// Steps that exist in two formats: only a save that was replaced is removed, after its owner died,
// and only if the replacement is proved.
#include "store/directory/two_formats.hpp"
#include "session/job/job.hpp"

#include <mutex>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/names.hpp"
#include "store/contents/lost_kit.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/recovery.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using lost::names_of;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class Twice : public Lost {
 protected:
  void SetUp() override {
    if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
    files_->set_clock([this] { return clock_; });
    options_.write.file_system = files_;
    options_.overwrite = true;
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard guard(mutex_);
      if (level == LogLevel::warning) warnings_ += cat(text, '\n');
    });
  }
  ~Twice() override { set_log_sink({}); }

  static std::string file_of(Format format) {
    return format == Format::bundle ? "ckpt-3.index" : "ckpt-3.h5";
  }
  static Format other(Format format) {
    return format == Format::bundle ? Format::hdf5 : Format::bundle;
  }
  std::string convert(const std::string& from, const std::string& to, bool overwrite = false,
                      Disk disk = nullptr) {
    if (!disk) disk = files_;
    ConvertOptions how;
    how.overwrite = overwrite;
    return convert_checkpoint(open_checkpoint({disk, from}), {disk, to}, how);
  }
  void move(const std::string& from, const std::string& to) {
    for (const auto& name : files_->list(from)) {
      if (name.starts_with("ckpt-3.")) files_->rename(cat(from, '/', name), cat(to, '/', name));
    }
    files_->sync_directory(to);
  }
  void flip(const Disk& disk, const std::string& path) {
    const auto file = disk->open_write(path);
    std::string byte(1, '\0');
    const auto at =
        io::read_file(*disk, path, 1 << 30).find(std::string("\0\0\0\0\0\0\x08\x40", 8));
    ASSERT_NE(at, std::string::npos) << "3.0";
    byte[0] = 1;
    file->write_at(static_cast<std::int64_t>(at), std::as_bytes(std::span(byte)));
    file->sync();
  }
  static bool is_there(const Disk& disk, Format format) {
    return disk->status("/run/" + file_of(format)).has_value();
  }
  // The data file of the bundle that was saved last.
  static std::string data_of(const Disk& disk) {
    const auto contents = read_contents_as(Format::bundle, *disk, "/run/ckpt-3");
    return data_path(contents, 0).string();
  }
  std::vector<RecoveryStep> plan(const Disk& disk) {
    auto options = options_;
    options.write.file_system = disk;
    const auto job = make_job(serial_group(), "/run", options.name, options);
    return plan_recovery(job, job.readers());
  }
  std::string warnings() {
    const std::lock_guard guard(mutex_);
    return std::exchange(warnings_, "");
  }

  double clock_ = 1000;
  std::mutex mutex_;
  std::string warnings_;
};

TEST_F(Twice, AConvertedCopyPutBesideItTakesNothingAway) {
  for (const auto first : {Format::bundle, Format::hdf5}) {
    for (const bool later : {false, true}) {
      for (const bool pinned : {false, true}) {
        SCOPED_TRACE(cat(words(first)[static_cast<int>(first)], later ? " later" : "",
                         pinned ? " pinned" : ""));
        files_ = std::make_shared<io::MemoryFileSystem>();
        files_->set_clock([this] { return clock_; });
        options_.store.format = first;
        clock_ = 1000;
        {
          auto one = job();
          one.save(2, 2);
          one.save(3, 3);
          if (pinned) one.manager.pin(3);
          one.save(4, 4);
        }
        io::create_directories(*files_, "/other");
        clock_ = later ? 2000 : 500;
        convert("/run/ckpt-3", first == Format::bundle ? "/other/ckpt-3.h5" : "/other/ckpt-3");
        move("/other", "/run");
        const auto before = names_of(*files_, "ckpt-");
        EXPECT_THAT(plan(files_), IsEmpty());
        for (const auto format : {Format::bundle, Format::hdf5}) {
          options_.store.format = format;
          auto one = job();
          EXPECT_EQ(one.latest(), 4);
          EXPECT_THAT(one.manager.steps(), SizeIs(3));
          one.manager.restore(3, one.state);
          EXPECT_EQ(one.u, 3);
          EXPECT_EQ(one.manager.steps()[1].pinned, pinned);
        }
        EXPECT_EQ(names_of(*files_, "ckpt-"), before);
        const auto checked = verify_checkpoint({*files_, "/run/ckpt-3"});
        EXPECT_EQ(checked.verdict(), Verdict::whole);
        EXPECT_THAT(checked.findings.at(0).what,
                    AllOf(test::Says("it is there twice: ckpt-3.index is read"),
                          test::Says("not ckpt-3.h5")));
        // If one of the two is damaged, a warning says so, and the other serves.
        const auto copies = files_->crash(files_->operation_count(), {});
        for (const auto& path : {std::string("/run/ckpt-3.h5"), data_of(copies)}) {
          const auto disk = copies->crash(0, {});
          flip(disk, path);
          EXPECT_EQ(verify_checkpoint({*disk, "/run/ckpt-3"}).verdict(), Verdict::damaged);
          {
            auto one = job(disk);
            one.manager.restore(3, one.state);
            EXPECT_EQ(one.u, 3);
          }
          EXPECT_EQ(names_of(*disk, "ckpt-3"), names_of(*copies, "ckpt-3"));
          disk->remove(first == Format::bundle ? "/run/ckpt-4.index" : "/run/ckpt-4.h5");
          EXPECT_EQ(job(disk).latest(), 3);
        }
        // A pin of either pins the step, whichever is read.
        files_->open_write("/run/ckpt-3.index")->resize(10);
        for (const auto& entry : scan_catalog({files_, "/run", "ckpt"})) {
          if (entry.step == 3) EXPECT_EQ(entry.pin, pinned ? Pin::holds : Pin::none);
        }
      }
    }
  }
}

// The sequence proves nothing either: the copy may belong to another run.
TEST_F(Twice, ACopyOfAnotherSaveTakesNothingAwayEither) {
  for (const bool newer : {false, true}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    {
      auto two = job();
      if (newer) two.save(2, 2);
      two.save(3, 3);
    }
    {
      options_.store.format = Format::hdf5;
      options_.write.file_system = files_;
      double u = 5;
      State state;
      state.add("u", u);
      CheckpointManager elsewhere(serial_group(), "/other", options_);
      if (!newer) elsewhere.save(1, state), elsewhere.save(2, state);
      elsewhere.save(3, state);
    }
    move("/other", "/run");
    options_.store.format = Format::bundle;
    const auto before = names_of(*files_, "ckpt-");
    auto one = job();
    EXPECT_EQ(one.latest(), newer ? 3 : 5);
    EXPECT_EQ(names_of(*files_, "ckpt-"), before);
    // A save of the step replaces both, and so does retention.
    one.save(3, 7);
    EXPECT_EQ(is_there(files_, Format::bundle), true);
    EXPECT_EQ(is_there(files_, Format::hdf5), false);
    EXPECT_EQ(one.latest(), 7);
  }
}

// Saves in one format over a step in the other, and conversions in place, that die.
class TwiceDies : public Twice {
 protected:
  // The disk from just after the commit until the older one is gone, and the format that survives.
  struct Story {
    Disk disk;
    std::vector<std::size_t> stops;
  };
  Story tell(Format made, bool converts) {
    Story story{std::make_shared<io::MemoryFileSystem>(), {}};
    story.disk->set_clock([this] { return clock_; });
    options_.store.format = other(made);
    {
      auto one = job(story.disk);
      one.save(2, 2);
      one.save(3, 3);
    }
    options_.store.format = made;
    clock_ = 500;  // a clock that is behind
    if (converts) {
      convert("/run/ckpt-3", cat("/run/ckpt-3", made == Format::hdf5 ? ".h5" : ""), true,
              story.disk);
    } else {
      job(story.disk).save(3, 3);
    }
    for (std::size_t stop = 0; stop <= story.disk->operation_count(); ++stop) {
      const auto then = story.disk->crash(stop, {});
      if (!then->status("/run")) continue;
      if (is_there(then, made) && is_there(then, other(made))) story.stops.push_back(stop);
    }
    return story;
  }
  template <class F>
  void each(F&& check) {  // of the disk, the new format, whether by a conversion
    for (const auto made : {Format::bundle, Format::hdf5}) {
      for (const bool converts : {false, true}) {
        SCOPED_TRACE(
            cat(converts ? "converted to " : "saved as ", words(made)[static_cast<int>(made)]));
        const auto story = tell(made, converts);
        ASSERT_THAT(story.stops, Not(IsEmpty()));
        for (const auto stop : story.stops) {
          SCOPED_TRACE(story.disk->describe(stop, {}));
          check(story.disk->crash(stop, {}), made, converts);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  static std::vector<std::string> temps(const Disk& disk) { return names_of(*disk, "ckpt-3_"); }
};

TEST_F(TwiceDies, WhatWasReplacedGoesWhenWhatReplacedItIsProved) {
  each([&](const Disk& disk, Format made, bool) {
    EXPECT_THAT(plan(disk), Contains(testing::Field(&RecoveryStep::entry, file_of(other(made)))));
    auto one = job(disk);
    EXPECT_EQ(one.latest(), 3);
    EXPECT_TRUE(is_there(disk, made));
    EXPECT_FALSE(is_there(disk, other(made)));
    EXPECT_THAT(temps(disk), IsEmpty());
  });
}

TEST_F(TwiceDies, AllRanksOfTheNextJobLookAtIt) {
  each([&](const Disk& disk, Format made, bool) {
    run_threads(3, [&](std::shared_ptr<Group> group) {
      auto options = options_;
      options.write.file_system = disk;
      double u = 0;
      State state;
      state.add("u", u);
      EXPECT_TRUE(CheckpointManager(group, "/run", options).restore_latest(state));
      EXPECT_EQ(u, 3);
    });
    EXPECT_FALSE(is_there(disk, other(made)));
  });
}

TEST_F(TwiceDies, ItStaysBesideWhatIsDamaged) {
  each([&](const Disk& disk, Format made, bool converts) {
    flip(disk, made == Format::hdf5 ? "/run/ckpt-3.h5" : data_of(disk));
    warnings();
    auto one = job(disk);
    EXPECT_TRUE(is_there(disk, made));
    EXPECT_TRUE(is_there(disk, other(made)));
    EXPECT_THAT(warnings(), test::Says("step 3 is there in two formats, and stays so"));
    EXPECT_EQ(one.latest(), converts ? 3 : 2) << "nothing that was replaced is restored";
  });
}

TEST_F(TwiceDies, WhatCannotBeReadNowOrIsPinnedIsLookedAtAgain) {
  each([&](const Disk& disk, Format made, bool) {
    const auto path = made == Format::hdf5 ? std::string("/run/ckpt-3.h5") : data_of(disk);
    disk->inject({Code::io, "read", path, 0, 1000});
    { job(disk); }
    EXPECT_TRUE(is_there(disk, other(made)));
    EXPECT_THAT(temps(disk), SizeIs(1));
    disk->clear_faults();
    // A pin that does not tell to which save it belongs.
    io::create_directories(*disk, "/run/.cairn/pinned");
    io::write_file(*disk, "/run/.cairn/pinned/ckpt-3", "anything");
    EXPECT_EQ(job(disk).latest(), 3);
    EXPECT_TRUE(is_there(disk, other(made)));
    EXPECT_THAT(temps(disk), SizeIs(1));
    disk->remove("/run/.cairn/pinned/ckpt-3");
    EXPECT_EQ(job(disk).latest(), 3);
    EXPECT_FALSE(is_there(disk, other(made)));
    EXPECT_THAT(temps(disk), IsEmpty());
  });
}

// A conversion in place, at every crash.
TEST_F(TwiceDies, AConversionInItsPlace) {
  for (const auto made : {Format::bundle, Format::hdf5}) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    options_.store.format = other(made);
    {
      auto one = job(disk);
      one.save(2, 2);
      one.save(3, 3);
      one.save(4, 4);
    }
    disk->mark();
    convert("/run/ckpt-3", cat("/run/ckpt-3", made == Format::hdf5 ? ".h5" : ""), true, disk);
    for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
      const auto choices = disk->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); c += c < 1 ? 1 : test::state_step(4, 19)) {
        SCOPED_TRACE(disk->describe(stop, choices[c]));
        const auto after = disk->crash(stop, choices[c]);
        auto one = job(after);
        EXPECT_EQ(one.latest(), 4);
        EXPECT_THAT(one.manager.steps(), SizeIs(3));
        one.manager.restore(3, one.state);
        EXPECT_EQ(one.u, 3);
        EXPECT_NE(is_there(after, made), is_there(after, other(made)));
        EXPECT_THAT(temps(after), IsEmpty());
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
