// A job in a bucket is stopped before any of its requests, and a request that was under way then
// reaches the server before any request of the next job; answers and requests are lost; listings
// are old. What was acknowledged is there, whole.
#include <gtest/gtest.h>

#include <iostream>

#include "io/expect_error.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "support/rounds.hpp"

namespace cairn::test {
namespace {

struct BucketStory {
  std::string name;
  int ranks;
  std::function<void(StoryJob&)> before, act;
  std::set<std::int64_t> allowed;  // stamps that a restart may find; 0: nothing is there
  std::int64_t again;              // the step that the next job saves first
  int keep_last = 0;
  bool async = false;
  Storage storage = Storage::automatic;
  Format format = Format::bundle;
  // Of the saves in the background, in their order. Once all ranks have written one, a restart
  // finds it, or a later one.
  std::vector<std::int64_t> written = {};
};
void PrintTo(const BucketStory& story, std::ostream* out) { *out << story.name; }

std::vector<BucketStory> bucket_stories() {
  const auto nothing = [](StoryJob&) {};
  const auto first = [](StoryJob& job) { job.save(10, 1); };
  const auto two = [](StoryJob& job) { job.save(5, 3), job.save(10, 1); };
  const auto second = [](StoryJob& job) { job.save(20, 2); };
  const auto over = [](StoryJob& job) { job.save(10, 2); };
  const auto both = [](StoryJob& job) { job.save(20, 2), job.save(30, 4); };
  const auto twice = [](StoryJob& job) { job.save(20, 2), job.save(20, 4); };
  const auto back = [](StoryJob& job) {
    job.manager.restore(10, job.state);
    job.save(20, 2);
  };
  std::vector<BucketStory> all{
      {"FirstSave", 3, nothing, second, {0, 2}, 20},
      {"SecondSave", 3, first, second, {1, 2}, 20},
      {"Overwrite", 2, first, over, {1, 2}, 10},
      {"Twice", 2, first, twice, {1, 2, 4}, 20},
      {"Retention", 2, two, both, {1, 2, 4}, 10, 1},
      {"Superseded", 2, [=](StoryJob& job) { first(job), job.save(20, 3); }, back, {2, 3}, 20},
      {"Dense", 3, first, second, {1, 2}, 20, 0, false, Storage::dense},
      {"DenseOver", 2, first, over, {1, 2}, 10, 0, false, Storage::dense},
      {"DenseAsync", 3, first, both, {1, 2, 4}, 20, 0, true, Storage::dense},
      {"DenseAsyncRetention", 2, two, both, {1, 2, 4}, 30, 1, true, Storage::dense},
      {"Async", 3, first, both, {1, 2, 4}, 20, 0, true},
      {"AsyncRetention", 2, two, both, {1, 2, 4}, 30, 1, true},
      {"Hdf5", 3, first, second, {1, 2}, 20, 0, false, Storage::automatic, Format::hdf5},
      {"Hdf5Over", 2, first, over, {1, 2}, 10, 0, false, Storage::automatic, Format::hdf5},
      {"Hdf5Async", 2, two, both, {1, 2, 4}, 30, 1, true, Storage::automatic, Format::hdf5}};
  for (auto& one : all) {
    if (one.async) one.written = {2, 4};
  }
  if (!hdf5::available()) std::erase_if(all, [](auto& one) { return one.format == Format::hdf5; });
  return all;
}

class BucketCrash : public testing::TestWithParam<BucketStory> {
 protected:
  BucketCrash() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~BucketCrash() override { set_log_sink({}); }

  static const BucketStory& story() { return GetParam(); }
  static constexpr std::int64_t last_step = 1000;
  static ManagerOptions options_of(const std::shared_ptr<BucketServer>& server) {
    return options_in(server, story().keep_last, story().format);
  }

  // Runs the story; returns the server, and how many changes came before its second half.
  static std::pair<std::shared_ptr<BucketServer>, std::size_t> record(unsigned seed) {
    auto server = std::make_shared<BucketServer>();
    std::size_t begin = 0;
    run_threads(story().ranks,
                [&](std::shared_ptr<Group> group) {
                  StoryJob job(group, options_of(server), story().ranks, story().storage);
                  story().before(job);
                  group->barrier();
                  if (group->rank() == 0) {
                    begin = server->changes().size();
                    server->set_observer([](const auto&, bool) { yield_point(); });
                  }
                  group->barrier();
                  job.async = story().async;
                  story().act(job);
                  job.manager.wait();
                  group->barrier();
                  if (group->rank() == 0) server->set_observer({});
                  group->barrier();
                },
                {.seed = seed});
    return {server, begin};
  }

  // A job after the crash, which saves two steps; each may fail once. `before_request` is called
  // before each of its requests.
  static std::string next_job(const std::shared_ptr<BucketServer>& server,
                              const std::set<std::int64_t>& allowed,
                              const std::function<void()>& before_request) {
    std::string wrong;
    server->set_observer([&](const auto&, bool) { before_request(); });
    {
      const auto opened = [&] {
        return std::make_unique<StoryJob>(serial_group(), options_of(server), story().ranks,
                                          story().storage);
      };
      std::unique_ptr<StoryJob> opened_job;
      try {
        opened_job = opened();
      } catch (const Error& error) {  // the former owner has put its record once more
        if (error.code() != Code::busy) throw;
        opened_job = opened();
      }
      auto& job = *opened_job;
      const auto report = job.manager.restore_latest(job.state);
      const auto stamp = report ? job.stamp : 0;
      if (!allowed.contains(stamp)) wrong += cat(" found stamp ", stamp);
      if (report && !is_whole(job)) wrong += " torn";
      if (report && !report->skipped.empty()) wrong += " passed over: " + report->skipped.front();
      for (const auto& [step, mark] : {std::pair{story().again, 7}, {last_step, 8}}) {
        try {
          job.save(step, mark);
        } catch (const Error&) {
          job.save(step, mark);
        }
      }
    }
    server->set_observer({});
    return wrong;
  }

  // The story's crash after `stop` changes, with a change that arrives before request `when` of the
  // next job. False if that job made fewer requests.
  bool arrives_late(const BucketServer& recorded, std::size_t stop,
                    const BucketServer::Change* change, std::size_t when, std::size_t late) {
    ++states_;
    const auto server = recorded.after(stop);
    server->list_late(late);
    std::size_t requests = 0;
    std::string wrong;
    const auto deliver = [&] {
      if (change) server->deliver(*change);
    };
    auto allowed = story().allowed;
    if (late == 0 && !story().written.empty()) {
      const auto done = static_cast<std::size_t>(written_saves(recorded.changes(), stop));
      if (done > 0) allowed = {story().written.begin() + (done - 1), story().written.end()};
    }
    try {
      wrong = next_job(server, allowed, [&] {
        if (requests++ == when) deliver();
      });
      if (requests <= when) deliver();
      server->list_late(0);
      const auto found = look_at_bucket(server, story().ranks, wrong, story().format);
      const auto expect = [&](std::int64_t step, std::int64_t stamp) {
        if (!found.contains(step)) wrong += cat(" step ", step, " is lost");
        if (found.contains(step) && found.at(step) != stamp)
          wrong += cat(" step ", step, " has stamp ", found.at(step));
      };
      expect(last_step, 8);
      if (story().keep_last != 1) expect(story().again, 7);
    } catch (const Error& error) {
      wrong += cat(" ", code_name(error.code()), ": ", error.what());
    }
    EXPECT_EQ(wrong, "") << "stopped after " << stop << " changes; "
                         << (change ? change->text : "nothing") << " arrives before request "
                         << when << " of the next job; listings are late by " << late;
    return requests > when;
  }

  std::size_t states_ = 0;
};

TEST_P(BucketCrash, WithARequestThatArrivesLate) {
  const std::size_t step = all_states() ? 1 : sanitized ? 37 : 5;
  for (unsigned seed = 1; seed <= (all_states() ? 3 : 1); ++seed) {
    const auto [server, begin] = record(seed);
    const auto changes = server->changes();
    for (auto stop = begin; stop <= changes.size(); ++stop) {
      // Listings that are late hide from the next job what the crash has left.
      for (const std::size_t late : {0, 2, 50}) arrives_late(*server, stop, nullptr, 0, late);
      for (auto i = stop; i < changes.size(); ++i) {
        if (changes[i].sent > stop) continue;
        for (auto when = (stop + i) % step;; when += step) {
          if (!arrives_late(*server, stop, &changes[i], when, 0) || HasFailure()) break;
        }
      }
      if (HasFailure()) return;
    }
  }
  std::cout << "[ STATES   ] " << story().name << ": " << states_ << " states\n";
}

// One change is not answered, or does not reach the server, although it was tried again for long.
TEST_P(BucketCrash, WithAnAnswerThatIsLost) {
  using Loss = BucketServer::Loss;
  const std::size_t step = sanitized ? 11 : 1;
  bool was_lost = true;
  for (std::size_t lost = 0; was_lost; lost += step) {
    // Listings that are late show nothing.
    for (const auto& [loss, late] :
         {std::pair{Loss::answer, 0}, {Loss::request, 0}, {Loss::answer, 1000}}) {
      const auto server = std::make_shared<BucketServer>();
      server->list_late(static_cast<std::size_t>(late));
      server->set_losses([&, loss = loss](std::size_t n) { return n == lost ? loss : Loss::none; });
      int failures = 0;
      std::map<std::int64_t, std::int64_t> told;  // what was acknowledged
      const auto job_of = [&](const std::shared_ptr<Group>& group, std::int64_t last) {
        StoryJob job(group, options_of(server), story().ranks, story().storage);
        const auto tries = [&](std::int64_t at, std::int64_t mark) {
          for (int attempts = server->lists_late() ? 4 : 2; attempts > 0; --attempts) try {
              job.save(at, mark);
              job.manager.wait();
              if (group->rank() == 0) told[at] = mark;
              return;
            } catch (const Error&) {
              if (group->rank() > 0) continue;
              ++failures;
              told.erase(at);  // it may have replaced the older one
            }
          ADD_FAILURE() << "step " << at << " cannot be saved";
        };
        tries(10, 1);
        job.async = story().async;
        for (std::int64_t mark = 2; mark <= 6; mark += 2) tries(story().again, mark);
        tries(last, 9);
      };
      std::size_t opened = 0;
      run_threads(story().ranks,
                  [&](std::shared_ptr<Group> group) {
                    try {
                      job_of(group, last_step);
                    } catch (const Error&) {  // the opening
                      job_of(group, last_step);
                    }
                    if (group->rank() == 0) ++opened;
                  },
                  {.seed = 1});
      was_lost = server->changes().size() > lost;
      server->set_losses({});
      server->list_late(0);
      std::string wrong;
      if (late == 0 && failures > (was_lost ? 1 : 0)) wrong += cat(" ", failures, " saves failed");
      const auto found = look_at_bucket(server, story().ranks, wrong, story().format);
      for (const auto& [at, mark] : told) {
        const bool may_go = story().keep_last == 1 && at != told.rbegin()->first;
        if (!found.contains(at) && !may_go) wrong += cat(" step ", at, " is lost");
        if (found.contains(at) && found.at(at) != mark)
          wrong += cat(" step ", at, " has stamp ", found.at(at), ", not ", mark);
      }
      ASSERT_EQ(wrong, "") << (loss == Loss::answer ? "the answer to " : "")
                           << (was_lost ? server->changes()[lost].text : "nothing") << " (" << lost
                           << ") was lost";
      ASSERT_EQ(opened, 1u);
    }
  }
}

// A save that replaces a step fails, and its job goes on.
TEST(BucketUploads, OfASaveThatFailedDoNotStay) {
  if (!hdf5::available()) GTEST_SKIP() << "without libhdf5";
  const auto server = std::make_shared<BucketServer>();
  std::vector<std::string> parts;
  server->set_observer([&](const std::string& request, bool) {
    if (request.starts_with("part ")) parts.push_back(request);
  });
  StoryJob job(serial_group(), options_in(server, 0, Format::hdf5), 8);
  job.save(10, 1);
  ASSERT_GT(parts.size(), 2u);
  const auto fails = [&](const std::string& what, Code code) {
    server->set_observer([&](const std::string& request, bool) {
      if (request == what) throw Error(Code::io, "no connection");
    });
    EXPECT_CAIRN_ERROR(job.save(10, 2), code, "no connection");
    server->set_observer({});
    EXPECT_TRUE(server->connect()->uploads("run/").empty()) << what;
    job.manager.restore(10, job.state);
    EXPECT_EQ(job.stamp, 1);
  };
  fails(parts.front(), Code::io);
  fails(parts.back(), Code::io);  // the last one precedes what could commit
  fails("complete run/ckpt-10.h5", Code::durability_unknown);
  job.save(10, 3);
  std::string wrong;
  EXPECT_EQ(look_at_bucket(server, 8, wrong, Format::hdf5).at(10), 3);
  EXPECT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(Stories, BucketCrash, testing::ValuesIn(bucket_stories()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn::test
