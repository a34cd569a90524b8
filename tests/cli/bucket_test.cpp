// What the tool says of checkpoints in a bucket.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/text.hpp"
#include "cli/tool.hpp"
#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "support/s3_server.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;

class ToolInABucket : public testing::Test {
 protected:
  ToolInABucket() {
    set_log_sink([](LogLevel, std::string_view) {});
    for (const auto& [name, value] :
         {std::pair<const char*, std::string>{"AWS_ENDPOINT_URL",
                                              cat("http://127.0.0.1:", server_.port())},
          {"AWS_REGION", "us-east-1"},
          {"AWS_ACCESS_KEY_ID", "key"},
          {"AWS_SECRET_ACCESS_KEY", "secret"}}) {
      ::setenv(name, value.c_str(), 1);
    }
  }
  ~ToolInABucket() override { set_log_sink({}); }

  // A job of two ranks has committed all of these steps but the last one, and dies when that is
  // written.
  void die_before_commit(const std::vector<std::int64_t>& steps) {
    const auto made = std::make_shared<BucketServer>();
    run_threads(2, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options_in(made), 2);
      job.async = true;
      for (const auto step : steps) {
        job.manager.wait();
        job.save(step, step);
      }
    });
    upload(*made);
  }
  // What is in the double is put into the server.
  void upload(BucketServer& made) {
    const auto from = made.connect();
    const auto to = files()->client();
    for (const auto& one : from->list("", "").objects) {
      const auto bytes = from->get(one.key)->bytes;
      to->put(one.key, std::as_bytes(std::span(bytes)), {}, from->look(one.key)->mark);
    }
  }
  // Each test has a server of its own, and a bucket's connections lead to one server.
  static std::string run() {
    return cat("s3://", testing::UnitTest::GetInstance()->current_test_info()->name(), "/run");
  }
  static std::shared_ptr<BucketFiles> files() { return BucketFiles::of(run()); }

 private:
  S3Server server_;
};

TEST_F(ToolInABucket, GcSaysWhatItCompletes) {
  die_before_commit({10, 20});
  const auto would = run_tool({"gc", run(), "--dry-run"});
  EXPECT_EQ(would.out, "would complete ckpt-20 (step 20: all its bytes are there)\n") << would.err;
  const auto actions = run_tool({"gc", run(), "--dry-run", "--json"}).json()["actions"];
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0]["action"], "complete");
  EXPECT_EQ(run_tool({"gc", run()}).out, "complete ckpt-20 (step 20: all its bytes are there)\n");
  EXPECT_THAT(run_tool({"gc", run()}).out, test::Says("nothing to do"));
  EXPECT_THAT(run_tool({"ls", run()}).out, HasSubstr("whole, newest"));
  // The state file names it, too.
  EXPECT_THAT(files()->client()->get("run/checkpoint").value().bytes,
              HasSubstr("model_checkpoint_path: \"ckpt-20\""));
}

TEST_F(ToolInABucket, GcSaysThatARunningJobsFilesAreListed) {
  const auto made = std::make_shared<BucketServer>();
  StoryJob job(serial_group(), options_in(made), 1);
  job.save(10, 1);
  upload(*made);
  files()->client()->begin_upload("run/ckpt-20.data-00000-of-00001");
  const auto would = run_tool({"gc", run(), "--dry-run"});
  EXPECT_THAT(would.out,
              test::Says("would remove ckpt-20.data-00000-of-00001 (an upload that was not"));
  EXPECT_THAT(would.err, test::Says("what that is saving now is listed too"));
}

// No command sends its user to another that knows nothing.
TEST_F(ToolInABucket, ADeathBeforeTheFirstCommitLeadsToGc) {
  die_before_commit({10});
  const auto gc = cat("cairn gc ", run(), " --dry-run tells what unfinished saves have left");
  EXPECT_THAT(run_tool({"ls", run()}).out, HasSubstr(gc));
  for (const char* command : {"verify", "show"}) {
    const auto ran = run_tool({command, run()});
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, testing::AllOf(test::Says("there is no checkpoint in"), HasSubstr(gc)));
  }
  EXPECT_THAT(run_tool({"gc", run(), "--dry-run"}).out, test::Says("would complete ckpt-10 "));
}

// Nothing is read before that is said.
TEST_F(ToolInABucket, VerifyRefusesToRepairAtOnce) {
  die_before_commit({10, 20});
  const auto ran = run_tool({"verify", run(), "--repair"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, test::Says("this cannot be done in"));
}

}  // namespace
}  // namespace cairn::test
