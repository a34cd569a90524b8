// A job in a bucket that ends when all its ranks have written a save, but before the commit: the
// next owner completes it, or says why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "layout/hdf5/lay_out.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

// What a directory would complete, and would share, is said before somebody relies on it.
TEST(BucketMessages, OfWhatIsLeftBehindAndOfFrozenTensors) {
  auto server = std::make_shared<BucketServer>();
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told.append(line) += '\n'; });
  auto options = options_in(server);
  options.frozen.keys = {"base"};
  {
    StoryJob job(serial_group(), options, 8);
    job.save(10, 1);
    job.manager.save_async(20, job.state);
  }
  EXPECT_THAT(told, test::Says("frozen tensors are written in full: "));
  EXPECT_THAT(told, test::Says("The next manager that saves in /run completes it, if the bytes of "
                               "all ranks were written."));
  set_log_sink({});
}

class BucketWritten : public testing::Test {
 protected:
  BucketWritten() {
    set_log_sink([this](LogLevel, std::string_view line) {
      const std::lock_guard guard(mutex_);
      told_.append(line) += '\n';
    });
  }
  ~BucketWritten() override { set_log_sink({}); }

  // A job of three ranks ends when all have written step 20, or have seen it fail.
  void save(const ManagerOptions& options, Storage storage, bool waits) {
    run_threads(3, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options, 3, storage);
      job.save(10, 1);
      job.async = true;
      job.save(20, 2);
      if (!waits) return;
      try {
        job.manager.wait();
        ADD_FAILURE() << "it did not fail";
      } catch (const Error& error) {
        const std::lock_guard guard(mutex_);
        told_.append(error.what()) += '\n';
      }
    });
  }
  std::map<std::int64_t, std::int64_t> found(Format format = Format::bundle) {
    std::string wrong;
    auto steps = look_at_bucket(server_, 3, wrong, format);
    EXPECT_EQ(wrong, "");
    return steps;
  }

  const std::shared_ptr<BucketServer> server_ = std::make_shared<BucketServer>();
  std::mutex mutex_;
  std::string told_;
};

using Steps = std::map<std::int64_t, std::int64_t>;

// By a manager of another format, too.
TEST_F(BucketWritten, IsCompletedByTheNextOwner) {
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    const auto server = std::make_shared<BucketServer>();
    save(options_in(server), Storage::automatic, false);
    std::string wrong;
    EXPECT_EQ(look_at_bucket(server, 3, wrong, format), (Steps{{10, 1}, {20, 2}}));
    EXPECT_EQ(wrong, "");
    EXPECT_THAT(told_, test::Says("completed the save of step 20"));
    EXPECT_EQ(server->connect()->list("run/.cairn/records.ckpt/", "").objects.size(), 0u);
  }
}

// By the parts that the records name.
TEST_F(BucketWritten, IsCompletedIfRanksShareObjects) {
  save(options_in(server_), Storage::dense, false);
  EXPECT_THAT(told_, test::Says("The next manager that saves in /run completes it, if the bytes of "
                                "all ranks were written."));
  ASSERT_EQ(server_->connect()->uploads("run/").size(), 1u);
  {
    auto reading = options_in(server_);
    reading.read_only = true;
    StoryJob reader(serial_group(), reading, 3);
    EXPECT_EQ(reader.manager.restore_latest(reader.state).value().step, 10);
  }
  EXPECT_EQ(found(), (Steps{{10, 1}, {20, 2}}));
  EXPECT_THAT(told_, test::Says("completed the save of step 20"));
}

// Its tail is in the record of rank 0; if no part of it is large enough for an upload, all of it.
TEST_F(BucketWritten, IsCompletedIfItIsOneObject) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  for (const auto part_bytes : {8192, 1 << 20}) {
    SCOPED_TRACE(part_bytes);
    const auto server = std::make_shared<BucketServer>();
    auto options = options_in(server, 0, Format::hdf5);
    options.write.file_system = server->files(part_bytes);
    save(options, Storage::automatic, false);
    ASSERT_EQ(server->connect()->uploads("run/").size(), part_bytes == 8192 ? 1u : 0u);
    std::string wrong;
    EXPECT_EQ(look_at_bucket(server, 3, wrong, Format::bundle), (Steps{{10, 1}, {20, 2}}));
    EXPECT_EQ(wrong, "");
    EXPECT_THAT(std::exchange(told_, {}), test::Says("completed the save of step 20"));
    EXPECT_THAT(server->connect()->list("run/.cairn/records.ckpt/", "").objects,
                testing::IsEmpty());
  }
}

TEST_F(BucketWritten, IsCompletedIfItIsOneObjectWithoutElements) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  std::string name = "one";
  State state;
  state.add("name", name);
  {
    CheckpointManager manager(serial_group(), "/run", options_in(server_, 0, Format::hdf5));
    manager.save_async(20, state);
  }
  name = "";
  CheckpointManager manager(serial_group(), "/run", options_in(server_));
  EXPECT_EQ(manager.restore_latest(state).value().step, 20);
  EXPECT_EQ(name, "one");
}

// Saves whose bytes lie in an upload.
struct Sent {
  Format format = Format::bundle;
  Storage storage = Storage::dense;
  const char* name = "run/ckpt-20.data-";
};
std::vector<Sent> sent_saves() {
  std::vector<Sent> all = {{}};
  if (hdf5::available()) all.push_back({Format::hdf5, Storage::automatic, "run/ckpt-20.h5"});
  return all;
}

TEST_F(BucketWritten, IsRemovedIfAnUploadIsGone) {
  for (const auto& one : sent_saves()) {
    SCOPED_TRACE(one.name);
    const auto server = std::make_shared<BucketServer>();
    save(options_in(server, 0, one.format), one.storage, false);
    const auto client = server->connect();
    for (const auto& upload : client->uploads("run/")) client->abort(upload);
    std::string wrong;
    EXPECT_EQ(look_at_bucket(server, 3, wrong), (Steps{{10, 1}}));
    EXPECT_EQ(wrong, "");
    EXPECT_THAT(told_, test::Says(cat("the upload of ", one.name)));
    EXPECT_THAT(client->list("run/.cairn/records.ckpt/", "").objects, testing::IsEmpty());
  }
}

// What was made of its parts, and does not count, is completed by the next owner but one.
TEST_F(BucketWritten, IsCompletedAfterAnOwnerThatDied) {
  for (const auto& one : sent_saves()) {
    SCOPED_TRACE(one.name);
    const auto server = std::make_shared<BucketServer>();
    save(options_in(server, 0, one.format), one.storage, false);
    bool is_complete = false;
    server->set_observer([&](const std::string& request, bool changes) {
      if (is_complete && changes) throw Error(Code::unavailable, "no answer");
      is_complete |= request.starts_with("complete ");
    });
    EXPECT_CAIRN_ERROR(StoryJob(serial_group(), options_in(server), 3), Code::unavailable,
                       "no answer");
    server->set_observer({});
    EXPECT_TRUE(is_complete);
    EXPECT_THAT(server->connect()->uploads("run/"), testing::IsEmpty());
    std::string wrong;
    EXPECT_EQ(look_at_bucket(server, 3, wrong), (Steps{{10, 1}, {20, 2}}));
    EXPECT_EQ(wrong, "");
  }
}

// Whether the completion has taken place is not known.
TEST_F(BucketWritten, StaysWhileItsPartsCannotBeCompleted) {
  for (const auto& one : sent_saves())
    for (const bool is_done : {false, true}) {
      const auto server = std::make_shared<BucketServer>();
      save(options_in(server, 0, one.format), one.storage, false);
      const auto fail = [](const std::string& request) {
        if (request.starts_with("complete ")) throw Error(Code::io, "no connection");
      };
      if (is_done) {
        server->set_answer_observer(fail);
      } else {
        server->set_observer([=](const std::string& request, bool) { fail(request); });
      }
      {
        StoryJob job(serial_group(), options_in(server), 3);
        EXPECT_EQ(job.manager.restore_latest(job.state).value().step, is_done ? 20 : 10);
      }
      server->set_observer({});
      server->set_answer_observer({});
      std::string wrong;
      EXPECT_EQ(look_at_bucket(server, 3, wrong), (Steps{{10, 1}, {20, 2}}));
      EXPECT_EQ(wrong, "");
    }
}

TEST_F(BucketWritten, IsNotCompletedIfAPartIsDamaged) {
  for (const auto& one : sent_saves()) {
    SCOPED_TRACE(one.name);
    const auto server = std::make_shared<BucketServer>();
    bool is_next = false;
    server->set_observer([&](const std::string& request, bool) {
      is_next |= request.starts_with("part 2 of run/ckpt-20.");
    });
    save(options_in(server, 0, one.format), one.storage, false);
    ASSERT_TRUE(is_next);
    server->set_observer({});
    for (const auto& upload : server->connect()->uploads("run/")) {
      server->damage_part(upload.id, 2);
    }
    std::string wrong;
    EXPECT_EQ(look_at_bucket(server, 3, wrong), (Steps{{10, 1}}));
    EXPECT_EQ(wrong, "");
    EXPECT_THAT(std::exchange(told_, {}),
                test::Says("a save of step 20, which was written but not committed, is not "
                           "completed: "));
  }
}

TEST_F(BucketWritten, IsNotCompletedIfDamaged) {
  save(options_in(server_), Storage::automatic, false);
  const auto client = server_->connect();
  const std::string key = "run/ckpt-20.data-00001-of-00004";
  auto bytes = client->get(key)->bytes;
  bytes[100] ^= 1;
  client->put(key, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(found(), (Steps{{10, 1}}));
  EXPECT_THAT(told_, test::Says("a save of step 20, which was written but not committed, is not "
                                "completed: "));
}

// It may be whole, so it stays for an owner that can read it.
TEST_F(BucketWritten, StaysWhileItCannotBeRead) {
  save(options_in(server_), Storage::automatic, false);
  const std::string data = "run/ckpt-20.data-00001-of-00004";
  bool is_open = false;  // before, its end is read, which tells whose it is
  server_->set_observer([&](const std::string& request, bool) {
    is_open |= request == "look " + data;
    if (is_open && request == "read " + data) throw Error(Code::io, "no connection");
  });
  {
    StoryJob job(serial_group(), options_in(server_), 3);
    EXPECT_EQ(job.manager.restore_latest(job.state).value().step, 10);
  }
  EXPECT_THAT(told_, test::Says("a save of step 20, which was written but not committed, is not "
                                "completed: "));
  server_->set_observer({});
  EXPECT_EQ(found(), (Steps{{10, 1}, {20, 2}}));
}

// A server that does not answer some requests: no step is passed over for that.
TEST_F(BucketWritten, IsRestoredOrTheServersSilenceIsTheError) {
  auto all = sent_saves();
  all.push_back({Format::bundle, Storage::automatic, "plain"});
  for (const auto& one : all) {
    const auto written = std::make_shared<BucketServer>();
    save(options_in(written, 0, one.format), one.storage, false);
    for (std::size_t at = 0;; ++at) {
      SCOPED_TRACE(cat(one.name, ", request ", at));
      const auto until = at + (at % 2 == 0 ? 1 : 12);
      const auto server = written->after(written->changes().size());
      std::atomic<std::size_t> requests = 0;
      server->set_observer([&](const std::string& request, bool) {
        const auto number = requests++;
        if (number >= at && number < until) throw Error(Code::unavailable, "no answer", request);
      });
      try {
        StoryJob job(serial_group(), options_in(server), 3);
        const auto report = job.manager.restore_latest(job.state);
        EXPECT_EQ(report ? report->step : -1, 20);
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == Code::unavailable || error.code() == Code::durability_unknown)
            << error.what();
      }
      server->set_observer({});
      if (requests <= at) break;
      std::string wrong;
      EXPECT_EQ(look_at_bucket(server, 3, wrong), (Steps{{10, 1}, {20, 2}}));
      EXPECT_EQ(wrong, "");
      ASSERT_FALSE(HasFailure()) << told_;
    }
  }
}

TEST_F(BucketWritten, IsInTheStateFileOnceItIsCompleted) {
  save(options_in(server_), Storage::automatic, false);
  CheckpointManager(serial_group(), "/run", options_in(server_));
  EXPECT_THAT(server_->connect()->get("run/checkpoint").value().bytes,
              testing::HasSubstr("model_checkpoint_path: \"ckpt-20\""));
}

// A checkpoint that counts stays as it is until a commit.
TEST_F(BucketWritten, IsToldIfAnotherSaveOfItsStepCounts) {
  {
    StoryJob before(serial_group(), options_in(server_), 3);
    before.save(20, 7);
  }
  save(options_in(server_), Storage::automatic, false);
  EXPECT_EQ(found(), (Steps{{10, 1}, {20, 7}}));
  EXPECT_THAT(told_, test::Says("another save of that step counts"));
}

TEST(BucketOvertaken, RestoresNothing) {
  const auto server = std::make_shared<BucketServer>();
  set_log_sink([](LogLevel, std::string_view) {});
  StoryJob first(serial_group(), options_in(server), 3);
  first.save(10, 1);
  StoryJob second(serial_group(), options_in(server), 3);
  second.save(20, 2);
  EXPECT_CAIRN_ERROR(first.manager.restore_latest(first.state), Code::busy, "has another owner");
  EXPECT_CAIRN_ERROR(first.manager.restore(10, first.state), Code::busy, "has another owner");
  set_log_sink({});
}

TEST_F(BucketWritten, GivesWayToWhatSomebodyHasBrought) {
  save(options_in(server_), Storage::automatic, false);
  const auto client = server_->connect();
  const auto index = client->get("run/ckpt-10.index")->bytes;
  client->put("run/ckpt-20.index", std::as_bytes(std::span(index)));
  StoryJob job(serial_group(), options_in(server_), 3);
  EXPECT_EQ(job.manager.restore_latest(job.state).value().step, 10);
  EXPECT_THAT(told_, test::Says("step 20 is in /run, and does not count"));
}

TEST_F(BucketWritten, AsOneObjectGivesWayToWhatSomebodyHasBrought) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  save(options_in(server_, 0, Format::hdf5), Storage::automatic, false);
  const auto client = server_->connect();
  const auto bytes = client->get("run/ckpt-10.h5")->bytes;
  client->put("run/ckpt-20.h5", std::as_bytes(std::span(bytes)));
  StoryJob job(serial_group(), options_in(server_, 0, Format::hdf5), 3);
  EXPECT_EQ(job.manager.restore_latest(job.state).value().step, 10);
  EXPECT_THAT(told_, test::Says("step 20 is in /run, and does not count"));
  EXPECT_THAT(told_, test::Says("cairn convert /run/ckpt-20.h5 /run/ckpt-20.h5 --overwrite"));
  EXPECT_EQ(client->get("run/ckpt-20.h5")->bytes, bytes);
}

TEST_F(BucketWritten, IsNotCompletedIfItHasFailed) {
  server_->set_observer([](const std::string& request, bool) {
    if (request == "put run/ckpt-20.index") throw Error(Code::io, "no connection");
  });
  save(options_in(server_), Storage::automatic, true);
  server_->set_observer({});
  EXPECT_EQ(found(), (Steps{{10, 1}}));
}

// Its objects stay, but the list says that it has failed.
TEST_F(BucketWritten, IsNotCompletedIfItHasFailedAndItsObjectsStay) {
  server_->set_observer([](const std::string& request, bool) {
    if (request == "put run/ckpt-20.index" || request.starts_with("delete run/ckpt-20."))
      throw Error(Code::io, "no connection");
  });
  save(options_in(server_), Storage::automatic, true);
  server_->set_observer({});
  EXPECT_FALSE(server_->connect()->list("run/ckpt-20.", "").objects.empty());
  EXPECT_EQ(found(), (Steps{{10, 1}}));
}

// If not even that reaches the server, the error says what may happen.
TEST_F(BucketWritten, IsToldIfItMayStillBeCompleted) {
  bool is_down = false;
  server_->set_observer([&](const std::string& request, bool changes) {
    is_down |= request == "put run/ckpt-20.index";
    if (is_down && changes) throw Error(Code::io, "no connection");
  });
  save(options_in(server_), Storage::automatic, true);
  server_->set_observer({});
  EXPECT_THAT(told_, test::Says("a restart may still complete it"));
  EXPECT_EQ(found(), (Steps{{10, 1}, {20, 2}}));
}

}  // namespace
}  // namespace cairn::test
