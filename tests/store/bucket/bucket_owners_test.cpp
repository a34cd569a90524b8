// An owner in a bucket is stopped before any of its requests; another one takes over, saves, and
// ends or goes on; then the first one continues with all that it was about to do.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <semaphore>
#include <thread>

#include "layout/hdf5/lay_out.hpp"
#include "store/bucket/bucket_kit.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/contents/data_file.hpp"
#include "support/rounds.hpp"

namespace cairn::test {
namespace {

struct BucketPlay {
  std::string name;
  std::int64_t first_step, second_step;
  std::int64_t second_stamp;  // 2: both save the same bytes
  int keep_last = 0;
  bool async = false;
  Storage storage = Storage::automatic;
  bool fails = false;   // the first owner's index does not reach the server
  bool debris = false;  // a job that died has left an object that both find
  bool late = false;    // the second owner's first listings show nothing of what the first has done
  Format format = Format::bundle;
  bool written = false;  // a job that died has written step 15, in parts of one object
};
void PrintTo(const BucketPlay& play, std::ostream* out) { *out << play.name; }

class BucketOwners : public testing::TestWithParam<std::tuple<BucketPlay, int, bool>> {
 protected:
  BucketOwners() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~BucketOwners() override { set_log_sink({}); }

  static const BucketPlay& play() { return std::get<0>(GetParam()); }
  static ManagerOptions options_of(const std::shared_ptr<BucketServer>& server) {
    return options_in(server, play().keep_last, play().format);
  }
  static int ranks() { return std::get<1>(GetParam()); }
  static bool goes_on() { return std::get<2>(GetParam()); }

  static bool saves(StoryJob& job, std::int64_t step, std::int64_t stamp) {
    try {
      job.save(step, stamp);
      job.manager.wait();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Stops the last rank of the first owner. Returns false if that rank ended before.
  bool round(std::size_t stop) {
    const auto server = std::make_shared<BucketServer>();
    {
      StoryJob before(serial_group(), options_in(server, 0, play().format), ranks());
      before.save(10, 1);
    }
    if (play().written) {
      run_threads(ranks(), [&](std::shared_ptr<Group> group) {
        StoryJob died(group, options_in(server, 0, play().format), ranks(), Storage::dense);
        died.async = true;
        died.save(15, 4);
      });
    }
    if (play().debris) {
      const auto files = server->files();
      BucketLog dead(*files, "/run/.cairn/log.ckpt");
      dead.read();
      dead.take_numbers({});
      const auto debris = save_id(commit::uuid_text(dead.next_uuid()));
      server->connect()->put("run/ckpt-20.data-00000-of-00002", std::as_bytes(std::span(debris)));
    }
    std::binary_semaphore stopped(0), go_on(0);
    std::atomic<bool> is_stopped = false, was_saved = false, has_opened = false;
    std::atomic<std::thread::id> the_rank;
    std::size_t requests = 0;
    std::string where;
    const auto stop_here = [&](const std::string& request) {
      where = request;
      is_stopped = true;
      stopped.release();
      go_on.acquire();
    };
    server->set_observer([&](const std::string& request, bool) {
      const bool is_first = std::this_thread::get_id() == the_rank;
      if (is_first && requests++ == stop) stop_here(request);
      const bool is_index = request == cat("put run/ckpt-", play().first_step, ".index") ||
                            request == cat("complete run/ckpt-", play().first_step, ".h5");
      if (is_first && play().fails && is_index) throw Error(Code::io, "no connection");
    });
    std::thread first([&] {
      try {
        run_threads(ranks(), [&](std::shared_ptr<Group> group) {
          if (group->rank() == group->size() - 1) the_rank = std::this_thread::get_id();
          StoryJob job(group, options_of(server), ranks(), play().storage);
          has_opened = true;
          job.async = play().async;
          const bool saved = saves(job, play().first_step, 2);
          if (group->rank() == 0) was_saved = saved;
        });
      } catch (const Error&) {
      }
      if (!is_stopped) stopped.release();
    });
    stopped.acquire();
    const bool was_stopped = is_stopped, had_opened = has_opened, had_saved = was_saved;
    // By all ranks, and nothing has failed.
    const auto changes = server->changes();  // the first owner's other ranks may go on
    const bool was_written = !play().fails && !play().late &&
                             written_saves(changes, changes.size()) > (play().written ? 1 : 0);
    std::string wrong;
    std::int64_t newest = 0;
    if (was_stopped) {
      if (play().late) server->list_late(50);
      auto second =
          std::make_unique<StoryJob>(serial_group(), options_of(server), ranks(), play().storage);
      server->list_late(0);
      const auto report = second->manager.restore_latest(second->state);
      if (!report || !is_whole(*second)) wrong += " the second found nothing, or what is torn";
      if (was_written && second->stamp != 2) wrong += " what was written is lost";
      // An object that the first owner had put may be in the way once.
      bool saved = saves(*second, play().second_step, play().second_stamp) ||
                   saves(*second, play().second_step, play().second_stamp);
      if (!saved) wrong += " the second did not save";
      newest = play().second_stamp;
      if (!goes_on()) second.reset();
      go_on.release();
      first.join();
      // One that was about to become the owner may be it now.
      if (goes_on() && saves(*second, play().second_step + 100, 5)) newest = 5;
      if (goes_on() && had_opened && newest != 5) wrong += " the second lost the directory";
    } else {
      first.join();
    }
    server->set_observer({});
    // Before another owner brings it up to date.
    const auto state_file = server->connect()->get("run/checkpoint").value().bytes;
    const auto found = look_at_bucket(server, ranks(), wrong, play().format);
    if (was_stopped && (had_opened || !was_saved)) {
      const auto step = play().second_step + (newest == 5 ? 100 : 0);
      if (!state_file.starts_with(cat("model_checkpoint_path: \"ckpt-", step, "\"")))
        wrong += " the state file is the first one's: " + state_file;
      if (!found.contains(step) || found.at(step) != newest)
        wrong += cat(" step ", step, " of the second is lost");
    }
    if (was_saved && (!had_opened || !was_stopped)) {
      if (!found.contains(play().first_step)) wrong += " the first one's is lost";
    }
    if (had_saved && play().keep_last == 0 && !found.contains(play().first_step))
      wrong += " what the first was told is saved is lost";
    if (play().keep_last == 0 && !found.contains(10)) wrong += " step 10 is lost";
    if (play().written && (!found.contains(15) || found.at(15) != 4))
      wrong += " what was written is lost";
    EXPECT_EQ(wrong, "") << "stopped before request " << stop << " (" << where
                         << "); the first owner " << (was_saved ? "saved" : "did not save");
    return was_stopped;
  }
};

TEST_P(BucketOwners, StoppedBeforeEachRequest) {
  const std::size_t step = sanitized ? 7 : 1;
  std::size_t stop = 0;
  for (; round(stop) && !HasFailure(); stop += step) {
  }
  std::cout << "[ STATES   ] " << stop << " requests\n";
  EXPECT_GT(stop, ranks() == 1 ? 15u : 0u);
}

std::string name_of_owners(const testing::TestParamInfo<BucketOwners::ParamType>& info) {
  const auto& [play, ranks, goes_on] = info.param;
  return cat(play.name, "_", ranks, goes_on ? "_goes_on" : "_ends");
}

std::vector<BucketPlay> plays() {
  std::vector<BucketPlay> all{
      BucketPlay{"behind", 20, 30, 3},
      BucketPlay{"same_step", 20, 20, 3},
      BucketPlay{"same_bytes", 20, 20, 2},
      BucketPlay{"over", 10, 10, 3},
      BucketPlay{"over_same_bytes", 10, 10, 2},
      BucketPlay{"one_is_kept", 20, 30, 3, 1},
      BucketPlay{"one_is_kept_same_step", 20, 20, 3, 1},
      BucketPlay{"retired_step", 20, 10, 3, 1},
      BucketPlay{"async", 20, 30, 3, 1, true},
      BucketPlay{"async_same_bytes", 20, 20, 2, 0, true},
      BucketPlay{"dense", 20, 20, 2, 0, false, Storage::dense},
      BucketPlay{"dense_async", 20, 20, 3, 0, true, Storage::dense},
      BucketPlay{"dense_fails", 20, 20, 2, 0, false, Storage::dense, true},
      BucketPlay{"dense_async_fails", 20, 20, 3, 0, true, Storage::dense, true},
      BucketPlay{"dense_late", 20, 20, 3, 0, false, Storage::dense, false, false, true},
      BucketPlay{"fails", 20, 20, 2, 0, false, {}, true},
      BucketPlay{"fails_over", 10, 10, 2, 0, false, {}, true},
      BucketPlay{"debris", 20, 20, 2, 0, false, {}, false, true},
      BucketPlay{"hdf5", 20, 20, 3, 1, false, {}, false, false, false, Format::hdf5},
      BucketPlay{"hdf5_over", 10, 10, 3, 0, false, {}, false, false, false, Format::hdf5},
      BucketPlay{"hdf5_async", 20, 30, 2, 0, true, {}, false, false, true, Format::hdf5},
      BucketPlay{"hdf5_fails", 10, 10, 2, 0, false, {}, true, false, false, Format::hdf5}};
  all.push_back({"written", 20, 30, 3});
  all.back().written = true;
  all.push_back({"written_async", 20, 20, 3, 0, true, Storage::dense});
  all.back().written = true;
  all.push_back({"hdf5_written_async", 20, 20, 3, 0, true, {}, false, false, false, Format::hdf5});
  all.back().written = true;
  if (!hdf5::available()) std::erase_if(all, [](auto& one) { return one.format == Format::hdf5; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Plays, BucketOwners,
                         testing::Combine(testing::ValuesIn(plays()), testing::Values(1, 2),
                                          testing::Bool()),
                         name_of_owners);

}  // namespace
}  // namespace cairn::test
